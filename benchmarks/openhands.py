"""The OpenHands runtime API, as far as it is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from benchmarks.dialects import (
    LISTING,
    READ_TEXT,
    Operation,
    Script,
    Site,
    head,
    http,
    multipart,
    parsed,
    when,
)
from benchmarks.load import Request


class OpenHands:
    """The OpenHands runtime API, spoken by the box and by the reference."""

    key_header = "X-Session-API-Key"

    def __init__(self, site: Site) -> None:
        self.site = site
        self._makers: Mapping[str, Callable[[int], Script]] = {
            "alive": lambda _: [self.alive()],
            "read": lambda _: [self._read()],
            "view": lambda _: [self._view()],
            "write": self._writes,
            "edit": self._edits,
            "list": lambda _: [self._list()],
            "run": lambda k: self._runs(k, is_static=False),
            "static": lambda k: self._runs(k, is_static=True),
            "glob": lambda _: [self._glob()],
            "grep": lambda _: [self._grep()],
            "stat": lambda _: [self._stat()],
            "mkdir": self._mkdirs,
            "ipython": self._cells,
        }

    def opening(self) -> Script:
        """The shell is there from the start."""
        return [self._run("echo first", is_static=False)]

    def operation(self, name: str, clients: int) -> Operation:
        """The requests of one measure; those that change a file have one per client."""
        make = self._makers[name]
        prepare: list[Request] = []
        if name == "edit":
            prepare = [self._write(f"edit{k}.txt", self._edit_text("A")) for k in range(clients)]
        elif name == "mkdir":
            prepare = [self._delete(k, missing_ok=True) for k in range(clients)]
        return Operation([make(k) for k in range(clients)], prepare)

    def alive(self) -> Request:
        """Ask whether the server is ready."""
        return Request(http(self.site, "GET", "/alive", self.key_header), when(lambda a: a["status"] == "ok"))

    def command(self, text: str) -> Request:
        """Run this in the shell."""
        return self._action("run", {"command": text}, lambda a: a["observation"] == "run")

    def echo(self, text: str, session: str | None = None) -> Request:
        """Print something, in the main shell or in a named one."""
        return self._run(f"echo {text}", is_static=False, session=session)

    def session(self, name: str) -> Request:
        """Open another shell."""
        body = json.dumps({"name": name}).encode()
        return Request(
            http(self.site, "POST", "/sessions", self.key_header, body), lambda status, _: status == 201
        )

    def cell(self, code: str, shown: str, timeout: float = 60) -> Request:
        """Run this in the kernel; only exactly this text is a right answer."""
        return self._action(
            "run_ipython",
            {"code": code, "include_extra": False},
            lambda a: a["observation"] == "run_ipython" and a["content"] == shown,
            timeout,
        )

    def output(self, body: bytes) -> str:
        """What a command printed."""
        answer = parsed(body)
        return str(answer.get("content", "")).strip() if isinstance(answer, dict) else ""

    def upload(self, folder: str, name: str, content: bytes) -> tuple[bytes, bytes]:
        """Store a file."""
        kind, body = multipart(name, content, {})
        path = f"/upload_file?destination={quote(folder)}"
        return head(self.site, "POST", path, self.key_header, kind, len(body), "Connection: close\r\n"), body

    def download(self, folder: str) -> bytes:
        """Fetch a folder as a zip archive."""
        path = f"/download_files?path={quote(folder)}"
        return head(self.site, "GET", path, self.key_header, "", 0, "Connection: close\r\n")

    def _action(
        self, name: str, args: Mapping[str, object], judge: Callable[[Any], bool], timeout: float = 60
    ) -> Request:
        envelope: dict[str, object] = {"action": name, "args": args}
        if name in ("run", "run_ipython"):
            envelope["timeout"] = timeout
        body = json.dumps({"action": envelope}).encode()
        return Request(http(self.site, "POST", "/execute_action", self.key_header, body), when(judge))

    def _path(self, name: str) -> str:
        return f"{self.site.folder}/{name}"

    def _read(self) -> Request:
        return self._action(
            "read",
            {"path": self._path("read.txt")},
            lambda a: a["observation"] == "read" and a["content"] == READ_TEXT,
        )

    def _view(self) -> Request:
        shown = "".join(f"{n:6}\t{line}\n" for n, line in enumerate(READ_TEXT.splitlines(), 1)).rstrip()
        return self._action(
            "read",
            {"path": self._path("read.txt"), "impl_source": "oh_aci"},
            lambda a: a["observation"] == "read" and shown in a["content"],
        )

    def _write(self, name: str, content: str) -> Request:
        path = self._path(name)
        return self._action(
            "write",
            {"path": path, "content": content},
            lambda a: a["observation"] == "write" and a["extras"]["path"] == path,
        )

    def _writes(self, client: int) -> Script:
        return [self._write(f"write{client}.txt", letter * 199 + "\n") for letter in "ab"]

    @staticmethod
    def _edit_text(value: str) -> str:
        return "".join(f"line {n:03}\n" for n in range(100)) + f"value = {value}\n"

    def _edits(self, client: int) -> Script:
        return [self._edit(client, "A", "B"), self._edit(client, "B", "A")]

    def _edit(self, client: int, old: str, new: str) -> Request:
        path = self._path(f"edit{client}.txt")
        return self._action(
            "edit",
            {
                "path": path,
                "command": "str_replace",
                "old_str": f"value = {old}",
                "new_str": f"value = {new}",
            },
            lambda a: (
                a["content"].startswith(f"The file {path} has been edited.")
                and f"\n+value = {new}" in a["extras"]["diff"]
            ),
        )

    def _list(self) -> Request:
        body = json.dumps({"path": self._path("list")}).encode()
        return Request(
            http(self.site, "POST", "/list_files", self.key_header, body), when(lambda a: a == LISTING)
        )

    def _run(self, command: str, *, is_static: bool, session: str | None = None) -> Request:
        printed = command.removeprefix("echo ")
        args: dict[str, object] = {"command": command}
        if is_static:
            args["is_static"] = True
        if session is not None:
            args["session"] = session
        return self._action(
            "run",
            args,
            lambda a: a["content"] == printed and a["extras"]["metadata"]["exit_code"] == 0,
        )

    def _runs(self, client: int, *, is_static: bool) -> Script:
        # Different words each time: the answer to the command before is a wrong answer.
        return [self._run(f"echo hi{client}.{n}", is_static=is_static) for n in range(4)]

    def _cells(self, client: int) -> Script:
        numbers = [f"{client}.{n}1" for n in range(4)]
        return [self.cell(f"print({number})", number) for number in numbers]

    def _glob(self) -> Request:
        args = {"pattern": "**/*.py", "path": self._path("list")}
        return self._action(
            "glob", args, lambda a: a["extras"]["total"] == len(a["extras"]["matches"]) == 100
        )

    def _grep(self) -> Request:
        args = {"pattern": "^value = 37$", "path": self._path("list")}
        return self._action(
            "grep",
            args,
            lambda a: a["extras"]["total"] == 1 and a["extras"]["matches"][0]["path"].endswith("d3/m7.py"),
        )

    def _stat(self) -> Request:
        return self._action(
            "stat",
            {"path": self._path("read.txt")},
            lambda a: a["extras"]["type"] == "file" and a["extras"]["size"] == len(READ_TEXT),
        )

    def _mkdirs(self, client: int) -> Script:
        make = self._action(
            "mkdir", {"path": self._path(f"new{client}")}, lambda a: a["extras"]["created"] is True
        )
        return [make, self._delete(client, missing_ok=False)]

    def _delete(self, client: int, *, missing_ok: bool) -> Request:
        args = {"path": self._path(f"new{client}"), "missing_ok": missing_ok}
        return self._action(
            "delete",
            args,
            lambda a: a["observation"] == "delete" and (missing_ok or a["extras"]["removed"] == 1),
        )
