"""A box that is killed and comes back with the same state directory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.support.running import KEY, announced
from tests.support.waiting import LIMIT


class MortalBox:
    """A server process that can be killed and started again."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        self.workspace = directory / "workspace"
        self.workspace.mkdir()
        self.state = directory / "state"
        self._flags = flags
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self, *more: str) -> None:
        """Serve, on any port."""
        inherited = {name: value for name, value in os.environ.items() if name != "SESSION_API_KEY"}
        inherited |= {
            "HOME": str(self.directory),
            "SESSION_API_KEY": KEY,
            "GLOVEBOX_VIEWER_URL_FILE": str(self.directory / "viewer-url"),
        }
        command = [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(self.workspace)]
        self.process = subprocess.Popen(
            [*command, "--state-dir", str(self.state), *self._flags, *more],
            stdout=subprocess.PIPE,
            text=True,
            env=inherited,
        )
        self.url = announced(self.process)

    def kill(self) -> None:
        """End the server without a chance to do anything."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End the server in good order."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(LIMIT)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def client(self) -> httpx.Client:
        """Whoever calls the box."""
        return httpx.Client(
            base_url=self.url, headers={"X-Session-API-Key": KEY}, timeout=60, trust_env=False
        )

    def execute(self, action: str, *, key: str | None = None, **args: Any) -> dict[str, Any]:
        """Carry out an action that must be answered with an observation."""
        timeout = args.pop("timeout", None)
        envelope = {"action": action, "args": args, "timeout": timeout}
        with self.client() as client:
            body = {"action": envelope, "idempotency_key": key or uuid.uuid4().hex, "details": True}
            answer = client.post("/execute_action", json=body)
        assert answer.status_code == 200, answer.text
        observation: dict[str, Any] = answer.json()
        return observation

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        """Ask for something that must be there."""
        with self.client() as client:
            answer = client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer


@contextlib.contextmanager
def mortal_box(directory: Path, *flags: str) -> Iterator[MortalBox]:
    """A box that serves; in the end it and everything it held is gone."""
    box = MortalBox(directory, *flags)
    box.start()
    try:
        yield box
    finally:
        if box.process is None or "--keep-sessions" in flags:
            box.kill()
            box.start("--no-keep-sessions")
        box.stop()
