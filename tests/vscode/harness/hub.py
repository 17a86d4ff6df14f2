"""A hub as users start it."""

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

#: Seconds; long enough for a window that is reloaded on a machine that is very busy.
HEARTBEAT = 10.0
GRACE = 60.0
#: For tests that wait until a window is given up.
BRIEF = ("--heartbeat", "4", "--grace", "10")


class Hub:
    """A process `glovebox hub` that may be stopped and started again at the same address."""

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
        """Start it, and wait until it answers."""
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
        """End it."""
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
        """What programs of the same user find in their environment."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.home), "XDG_STATE_HOME": str(self.state)}

    @property
    def settings(self) -> HostSettings:
        """What a runtime has to know to find this hub, whatever its file says."""
        told = {"GLOVEBOX_HUB_URL": self.url, "GLOVEBOX_HUB_KEY": self.key}
        return host.load({**self.environment(), **told})

    def ask(self, method: str, path: str) -> httpx.Response:
        """Ask the hub something with its key."""
        headers = {"X-Session-API-Key": self.key}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=LIMIT, trust_env=False)

    def windows(self, folder: Path | None = None) -> list[dict[str, Any]]:
        """The windows that it lists; with a folder, those of it."""
        answer = self.ask("GET", "/api/vscode/discover")
        assert answer.status_code == 200, answer.text
        found: Any = answer.json()
        listed: list[dict[str, Any]] = found if isinstance(found, list) else found["windows"]
        if folder is None:
            return listed
        return [one for one in listed if str(folder) in [each["path"] for each in one["folders"]]]

    def status(self, folder: Path) -> str:
        """How the window of a folder is: a status, or `gone`."""
        found = self.windows(folder)
        assert len(found) < 2, found
        return found[0]["status"] if found else "gone"

    def wait_for(self, folder: Path, status: str, seconds: float = LIMIT) -> None:
        """Wait until the window of a folder is so."""
        wait_until(lambda: self.status(folder) == status, seconds, f"a window that is {status}")

    def id_of(self, folder: Path) -> str:
        """The id of the window of a folder."""
        (window,) = self.windows(folder)
        found: str = window["id"]
        return found

    @contextlib.contextmanager
    def known_as(self, url: str = "", key: str = "") -> Iterator[None]:
        """Have another address or key in the file that this has left."""
        kept = self.file.read_text()
        said = json.loads(kept)
        self.file.write_text(json.dumps({**said, "url": url or said["url"], "key": key or said["key"]}))
        try:
            yield
        finally:
            self.file.write_text(kept)


@contextlib.contextmanager
def running_hub(state: Path, *flags: str) -> Iterator[Hub]:
    """A hub whose state is below a directory, and its end."""
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
