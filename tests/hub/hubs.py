"""A real hub in a process of its own, as users start it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.support.running import announced, wait_until
from tests.support.waiting import LIMIT

KEY = "a-key-for-hubs-0123456789"
#: Seconds; short enough to wait for, long enough for a busy machine.
QUICK = ("--heartbeat", "2", "--grace", "6", "--reload", "12")


class RunningHub:
    """A hub process and a client that knows its key."""

    def __init__(self, home: Path, flags: tuple[str, ...], key: str) -> None:
        self.home = home
        self.key = key
        self.log = home / "hub.log"
        self._flags = flags
        self.start(port=0)

    def start(self, port: int) -> None:
        """Start it; again with the same state after `end` or `kill`."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "glovebox", "hub", str(port), *self._flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(self.home, self.key),
            )
        self.url = announced(self.process)
        headers = {"X-Session-API-Key": self.key}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    @property
    def address_file(self) -> Path:
        """Where it says where it is."""
        return self.home / "state/glovebox/hub/address.json"

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, and start it again where it was."""
        port = self.port
        self.end(how)
        self.start(port)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it."""
        self.client.close()
        self.process.send_signal(how)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()

    def windows(self, **query: str) -> list[dict[str, Any]]:
        """The windows there are."""
        answer = self.client.get("/api/vscode/discover", params=query)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def status(self, window_id: str) -> str:
        """How a window is; `gone` if it is."""
        return next((one["status"] for one in self.windows(id=window_id)), "gone")

    def wait_for(self, window_id: str, status: str) -> None:
        """Wait until a window is in a state."""
        wait_until(lambda: self.status(window_id) == status, what=f"the window to be {status}")

    def act(self, window_id: str, action: str, **args: Any) -> httpx.Response:
        """Have a window's box carry out an action."""
        body = {"action": {"action": action, "args": args}}
        return self.client.post(f"/vscode/windows/{window_id}/execute_action", json=body)

    def run(self, window_id: str, command: str) -> str:
        """The output of a command that must succeed in a window."""
        answer = self.act(window_id, "run", command=command)
        assert answer.status_code == 200, answer.text
        observation = answer.json()
        assert observation["extras"]["metadata"]["exit_code"] == 0, observation
        content: str = observation["content"]
        return content


def environment(home: Path, key: str = "") -> dict[str, str]:
    """What a hub sees of a user with nothing in it."""
    seen = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    return {**seen, "GLOVEBOX_HUB_KEY": key} if key else seen


@contextlib.contextmanager
def running_hub(home: Path, *flags: str, key: str = KEY) -> Iterator[RunningHub]:
    """Start a hub, and end it."""
    hub = RunningHub(home, flags, key)
    try:
        yield hub
    finally:
        if hub.process.poll() is None:
            hub.end()
