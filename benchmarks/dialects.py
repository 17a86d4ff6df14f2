"""What is asked of every server, and the parts all dialects are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.load import Address, Request

#: The measured requests, in the order of the report.
OPERATIONS: Mapping[str, str] = {
    "alive": "GET /alive",
    "read": "read, 1 kB",
    "view": "read through the editor",
    "write": "write, 200 B",
    "edit": "edit, str_replace",
    "list": "list_files, 50 entries",
    "run": "run `echo hi`",
    "static": "run `echo hi`, is_static",
    "glob": "glob, 100 of 240 files",
    "grep": "grep, 1 line in 240 files",
    "stat": "stat",
    "mkdir": "mkdir and delete in turn",
    "ipython": "run_ipython `print`",
}

READ_TEXT = "".join(f"line {n:02} of a small file\n" for n in range(42))
LISTING = [*(f"d{n}/" for n in range(10)), *(f"f{n:02}" for n in range(40))]

Script = Sequence[Request]


@dataclass(frozen=True)
class Site:
    """Where a server is, its key, and the folder the measures may use there."""

    address: Address
    key: str
    folder: str


@dataclass(frozen=True)
class Operation:
    """One script per client, and what to send before each round."""

    scripts: Sequence[Script]
    prepare: Script = ()


class NotOffered(Exception):
    """The server's interface has no such operation."""


class Dialect(Protocol):
    """How one kind of server is spoken to."""

    def opening(self) -> Script:
        """What has to be said after the start, ending with a first command."""

    def command(self, text: str) -> Request:
        """Run this in the shell and accept any orderly end; `output` reads the answer."""

    def output(self, body: bytes) -> str:
        """What a command printed."""

    def echo(self, text: str, session: str | None = None) -> Request:
        """Let a shell print this: the one every command goes to, or a named one."""

    def session(self, name: str) -> Request:
        """Open another shell. A server that has only one does not know the path."""

    def operation(self, name: str, clients: int) -> Operation:
        """The requests of one measure.

        Raises:
            NotOffered: there is none.
        """

    def upload(self, folder: str, name: str, content: bytes) -> tuple[bytes, bytes]:
        """A request that stores a file, as head and body."""

    def download(self, folder: str) -> bytes:
        """A request for a folder as a zip archive.

        Raises:
            NotOffered: there is none.
        """


def fixture(folder: str) -> str:
    """A shell command that makes the files the measures use, then prints `ready`."""
    return (
        f'( set -e; mkdir -p {folder}; cd {folder}; seq -f "line %02g of a small file" 0 41 > read.txt; '
        "mkdir -p list; touch list/f{00..39}; "
        "for d in {0..9}; do mkdir -p list/d$d; for f in {0..9}; do "
        'echo "value = $d$f" > list/d$d/m$f.py; echo "note $d$f" > list/d$d/n$f.txt; done; done; '
        "echo ready )"
    )


def http(site: Site, method: str, path: str, key_header: str, body: bytes = b"") -> bytes:
    """A complete request."""
    return head(site, method, path, key_header, "application/json", len(body)) + body


def head(
    site: Site, method: str, path: str, key_header: str, kind: str, length: int, more: str = ""
) -> bytes:
    host, port = site.address
    content = f"Content-Type: {kind}\r\nContent-Length: {length}\r\n" if method == "POST" else ""
    lines = (
        f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{key_header}: {site.key}\r\n{content}{more}\r\n"
    )
    return lines.encode()


def multipart(name: str, content: bytes, fields: Mapping[str, str]) -> tuple[str, bytes]:
    """Content type and body of a form with one file."""
    line = "glovebox-benchmark-part"
    texts = "".join(
        f'--{line}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    )
    opening = (
        f'{texts}--{line}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    body = b"".join((opening.encode(), content, f"\r\n--{line}--\r\n".encode()))
    return f"multipart/form-data; boundary={line}", body


def parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def when(judge: Callable[[Any], bool]) -> Callable[[int, bytes], bool]:
    """A check of an answer's JSON; whatever has not the expected shape is wrong."""

    def check(status: int, body: bytes) -> bool:
        try:
            return status == 200 and judge(parsed(body))
        except (KeyError, TypeError, AttributeError):
            return False

    return check
