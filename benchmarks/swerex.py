"""SWE-ReX's own API, as far as it is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.dialects import (
    READ_TEXT,
    NotOffered,
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

#: The session that `opening` makes.
_MAIN = "default"


class SweRex:
    """SWE-ReX's own interface: sessions, files, upload."""

    key_header = "X-API-Key"

    def __init__(self, site: Site) -> None:
        self.site = site
        self._makers: Mapping[str, Callable[[int], Script]] = {
            "alive": lambda _: [self.alive()],
            "read": lambda _: [
                self._post("read_file", {"path": self._path("read.txt")}, lambda a: a["content"] == READ_TEXT)
            ],
            "write": self._writes,
            "run": lambda k: [self._run(f"echo hi{k}.{n}") for n in range(4)],
            "static": lambda k: [self._execute(f"echo hi{k}.{n}") for n in range(4)],
        }

    def opening(self) -> Script:
        """A session has to be made before the first command."""
        return [self.session(_MAIN), self._run("echo first")]

    def operation(self, name: str, clients: int) -> Operation:
        """The requests of one measure.

        Raises:
            NotOffered: the interface has no such operation.
        """
        make = self._makers.get(name)
        if make is None:
            raise NotOffered
        return Operation([make(k) for k in range(clients)])

    def alive(self) -> Request:
        """Ask whether the server is ready."""
        return Request(
            http(self.site, "GET", "/is_alive", self.key_header), when(lambda a: a["is_alive"] is True)
        )

    def command(self, text: str) -> Request:
        """Run this in the session."""
        return self._in_session(text, lambda a: "output" in a)

    def echo(self, text: str, session: str | None = None) -> Request:
        """Print something, in the session that was opened first or in a named one."""
        return self._run(f"echo {text}", session or _MAIN)

    def session(self, name: str) -> Request:
        """Open a session."""
        body = {"session": name, "session_type": "bash", "startup_timeout": 10}
        return self._post("create_session", body, lambda a: a["session_type"] == "bash")

    def output(self, body: bytes) -> str:
        """What a command printed."""
        answer = parsed(body)
        return str(answer.get("output", "")).strip() if isinstance(answer, dict) else ""

    def upload(self, folder: str, name: str, content: bytes) -> tuple[bytes, bytes]:
        """Store a file."""
        kind, body = multipart(name, content, {"target_path": f"{folder}/{name}"})
        return head(
            self.site, "POST", "/upload", self.key_header, kind, len(body), "Connection: close\r\n"
        ), body

    def download(self, folder: str) -> bytes:
        """Not there: files come back one by one, as text in JSON.

        Raises:
            NotOffered: always.
        """
        raise NotOffered

    def _path(self, name: str) -> str:
        return f"{self.site.folder}/{name}"

    def _post(self, path: str, body: Mapping[str, object], judge: Callable[[Any], bool]) -> Request:
        raw = http(self.site, "POST", f"/{path}", self.key_header, json.dumps(body).encode())
        return Request(raw, when(judge))

    def _writes(self, client: int) -> Script:
        path = self._path(f"write{client}.txt")
        return [
            self._post("write_file", {"path": path, "content": letter * 199 + "\n"}, lambda a: a == {})
            for letter in "ab"
        ]

    def _in_session(self, command: str, judge: Callable[[Any], bool], session: str = _MAIN) -> Request:
        action = {
            "session": session,
            "command": command,
            "timeout": 60,
            "check": "silent",
            "action_type": "bash",
        }
        return self._post("run_in_session", action, judge)

    def _run(self, command: str, session: str = _MAIN) -> Request:
        printed = command.removeprefix("echo ")
        return self._in_session(
            command, lambda a: a["output"].strip() == printed and a["exit_code"] == 0, session
        )

    def _execute(self, command: str) -> Request:
        printed = command.removeprefix("echo ")
        body = {"command": command, "shell": True, "timeout": 60}
        return self._post("execute", body, lambda a: a["stdout"].strip() == printed and a["exit_code"] == 0)
