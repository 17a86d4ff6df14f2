"""SWE-ReX's `swerex-remote`, and its own API."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import SWEREX
from benchmarks.load import Request
from benchmarks.peers.server import READ_TEXT, Api, Peer, cache_folder, install_package, package_version
from benchmarks.processes import Unavailable

VERSION = "1.4.0"


class SweRexApi(Api):
    """SWE-ReX's API: sessions, files, upload."""

    key_header = "X-API-Key"
    output_field = "output"

    def alive(self) -> Request:
        return self.get("/is_alive", lambda a: a["is_alive"] is True)

    def opening(self) -> Sequence[Request]:
        return [self.session("default"), self.echo("first")]

    def command(self, text: str) -> Request:
        return self._run(text, lambda a: "output" in a)

    def echo(self, text: str, session: str | None = None) -> Request:
        def is_right(answer: Any) -> bool:
            return bool(answer["output"].strip() == text and answer["exit_code"] == 0)

        return self._run(f"echo {text}", is_right, session)

    def session(self, name: str) -> Request:
        body = {"session": name, "session_type": "bash", "startup_timeout": 10}
        return self.post("/create_session", body, lambda a: a["session_type"] == "bash")

    def script(self, name: str, client: int) -> Sequence[Request]:
        words = [f"hi{client}.{n}" for n in range(4)]
        match name:
            case "alive":
                return [self.alive()]
            case "read":
                path = {"path": f"{self.site.folder}/read.txt"}
                return [self.post("/read_file", path, lambda a: a["content"] == READ_TEXT)]
            case "write":
                path = {"path": f"{self.site.folder}/write{client}.txt"}
                bodies = [{**path, "content": letter * 199 + "\n"} for letter in "ab"]
                return [self.post("/write_file", body, lambda a: a == {}) for body in bodies]
            case "run":
                return [self.echo(word) for word in words]
            case "static":
                return [self._execute(word) for word in words]
        raise Unavailable

    def upload(self, folder: str, name: str, content: bytes) -> tuple[bytes, bytes]:
        return self.site.upload("/upload", name, content, target_path=f"{folder}/{name}")

    def _run(self, command: str, check: Callable[[Any], bool], session: str | None = None) -> Request:
        action = {"session": session or "default", "command": command, "timeout": 60, "check": "silent"}
        return self.post("/run_in_session", {**action, "action_type": "bash"}, check)

    def execute(self, number: int) -> Request:
        return self.post("/execute", {"command": ["true"], "timeout": 60}, lambda a: a["exit_code"] == 0)

    def _execute(self, word: str) -> Request:
        body = {"command": f"echo {word}", "shell": True, "timeout": 60}
        return self.post("/execute", body, lambda a: a["stdout"].strip() == word and a["exit_code"] == 0)


class SweRex(Peer):
    """SWE-ReX's server, on loopback only; it takes its key on the command line."""

    name = SWEREX
    api = SweRexApi

    def __init__(self) -> None:
        self.folder = cache_folder() / "swerex"

    def install(self) -> None:
        # Its client imports aiohttp, for which its package does not ask.
        install_package(self.folder, lambda: Path(sys.executable), f"swe-rex=={VERSION}", "aiohttp")

    def version(self) -> str:
        return f"SWE-ReX {package_version(self.python, 'swe-rex')}"

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        program = str(self.folder / "bin" / "swerex-remote")
        return [program, "--host", "127.0.0.1", "--port", str(port), "--auth-token", key]
