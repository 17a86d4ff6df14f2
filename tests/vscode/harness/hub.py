"""A hub as users start it: the process `glovebox hub`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from glovebox.settings import host
from glovebox.settings.host import HostSettings
from tests.support.running import wait_until
from tests.support.waiting import LIMIT

#: Seconds; long enough for a reload of a window on a very busy machine.
HEARTBEAT = 10.0
GRACE = 60.0
#: Options for tests that wait until a lost window is removed.
SHORT_GRACE = ("--heartbeat", "4", "--grace", "10", "--reload", "20")


class Hub:
    """A hub process that can be stopped and started again at the same address."""

    def __init__(self, state: Path, *flags: str) -> None:
        self.state = state
        self.home = state.parent
        self.file = state / "glovebox/hub/address.json"
        self.log = state.parent / f"{state.name}-hub.log"
        self._flags = flags
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        self.key = ""

    def start(self) -> None:
        """Start the hub, and wait until it answers."""
        self.state.mkdir(parents=True, exist_ok=True)
        times = ["--heartbeat", str(HEARTBEAT), "--grace", str(GRACE)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "glovebox", "hub", str(self._port), *times, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
            )
        wait_until(self._answers, what="a hub that answers")
        self.key = json.loads(self.file.read_text())["key"]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text("utf-8", "replace")
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/alive", trust_env=False).is_success and self.file.exists()
        return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the hub with a signal."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        self._process = None

    def environment(self) -> dict[str, str]:
        """The environment of programs of the same user."""
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**inherited, "HOME": str(self.home), "XDG_STATE_HOME": str(self.state)}

    @property
    def settings(self) -> HostSettings:
        """Settings for a runtime to find this hub, whatever its address file contains."""
        variables = {"GLOVEBOX_HUB_URL": self.url, "GLOVEBOX_HUB_KEY": self.key}
        return host.load({**self.environment(), **variables})

    def request(self, method: str, path: str, json: Any = None) -> httpx.Response:
        """Send a request with the key of the hub."""
        headers = {"X-Session-API-Key": self.key}
        return httpx.request(
            method, f"{self.url}{path}", headers=headers, json=json, timeout=4 * LIMIT, trust_env=False
        )

    def windows(self, folder: Path | None = None) -> list[dict[str, Any]]:
        """The windows in the list of the hub: all, or those of a folder."""
        answer = self.request("GET", "/api/vscode/discover")
        assert answer.status_code == 200, answer.text
        found: Any = answer.json()
        listed: list[dict[str, Any]] = found if isinstance(found, list) else found["windows"]
        if folder is None:
            return listed
        return [one for one in listed if str(folder) in [each["path"] for each in one["folders"]]]

    def status(self, folder: Path) -> str:
        """The status of the window of a folder; `gone` if there is none."""
        found = self.windows(folder)
        assert len(found) < 2, found
        return found[0]["status"] if found else "gone"

    def wait_for(self, folder: Path, status: str, seconds: float = LIMIT) -> None:
        """Wait until the window of a folder has a status."""
        wait_until(lambda: self.status(folder) == status, seconds, f"a window that is {status}")

    def window_id(self, folder: Path) -> str:
        """The id of the window of a folder."""
        (window,) = self.windows(folder)
        found: str = window["id"]
        return found

    @contextlib.contextmanager
    def address_file(self, url: str = "", key: str = "") -> Iterator[None]:
        """Put another address or key into the address file of this hub."""
        original = self.file.read_text()
        content = json.loads(original)
        self.file.write_text(
            json.dumps({**content, "url": url or content["url"], "key": key or content["key"]})
        )
        try:
            yield
        finally:
            self.file.write_text(original)


@contextlib.contextmanager
def running_hub(state: Path, *flags: str) -> Iterator[Hub]:
    """Start a hub with its state below a directory, and stop it at the end."""
    hub = Hub(state, *flags)
    hub.start()
    try:
        yield hub
    finally:
        hub.stop()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
