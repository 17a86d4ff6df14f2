"""Paths as the contract means them, and files opened so that nothing can make the opener wait."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from types import TracebackType
from typing import Self

#: How much of a file tells whether it is binary.
SAMPLE_SIZE = 1024

_CHUNK = 65_536
#: `O_NONBLOCK` matters for pipes only: opening one would else wait for a writer that may never come.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Refused(Exception):
    """A file operation that is answered with an error observation; the text is its content."""


def normal(path: str) -> str:
    """The path without `.` parts, doubled or trailing slashes; `..` stays, as links may make it matter."""
    if (
        "//" in path
        or "/./" in path
        or path.endswith(("/", "/."))
        or path.startswith("./")
        or path in ("", ".")
    ):
        return str(PurePosixPath(path))
    return path


def resolve(path: str, cwd: str) -> str:
    """The absolute path that `path` means for somebody whose shell is in `cwd`."""
    return normal(path) if path.startswith("/") else normal(f"{cwd.rstrip('/')}/{path}")


class Source:
    """An open file to read once: first a sample, then all of it.

    Opening never waits, whatever is at the path; look at `status` before reading, since a pipe or a
    device could.
    """

    __slots__ = ("_fd", "_head", "status")

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, _READ)
        self.status = os.fstat(self._fd)
        self._head: bytes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def sample(self) -> bytes:
        """The first bytes, enough to judge what kind of file it is."""
        if self._head is None:
            # Files of /proc say they have no size.
            self._head = os.read(self._fd, min(self.status.st_size, _CHUNK) or _CHUNK)
        return self._head[:SAMPLE_SIZE]

    def content(self) -> bytes:
        """Everything in the file."""
        self.sample()
        assert self._head is not None
        size = self.status.st_size
        if len(self._head) == size != 0:
            return self._head
        parts = [self._head]
        got = len(self._head)
        while part := os.read(self._fd, max(size - got, _CHUNK)):
            parts.append(part)
            got += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
