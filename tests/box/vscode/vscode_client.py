"""VS Code of a running box, as its users meet it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil

from tests.support.running import RunningBox


class Editor:
    """Asks a box about its VS Code, and VS Code itself."""

    def __init__(self, box: RunningBox) -> None:
        self.box = box

    @property
    def token(self) -> str | None:
        answer = self.box.client.get("/vscode/connection_token")
        assert answer.status_code == 200, answer.text
        token: str | None = answer.json()["token"]
        return token

    @property
    def info(self) -> dict[str, Any]:
        told: dict[str, Any] = self.box.client.get("/plugins/vscode").json()
        return told

    @property
    def health(self) -> dict[str, Any]:
        assert self.token  # once there is one, the plugin has started
        info = self.info
        assert info["healthy"], info
        health: dict[str, Any] = info["health"]
        return health

    @property
    def url(self) -> str:
        health = self.health
        return f"http://127.0.0.1:{health['port']}{health['path']}/"

    @property
    def page(self) -> str:
        """What people open."""
        return f"{self.url}?tkn={self.token}&folder={quote(str(self.box.workspace))}"

    def get(self, url: str, **cookies: str) -> httpx.Response:
        with httpx.Client(trust_env=False, timeout=60, cookies=cookies) as client:
            return client.get(url)


def command_lines() -> str:
    """The command lines of every process of the machine."""
    return "\n".join(" ".join(words) for words in _all_words())


def _all_words() -> Iterator[list[str]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            yield process.cmdline()


def family(box: RunningBox) -> list[psutil.Process]:
    """The process of a box and all that descend from it."""
    server = psutil.Process(box.process.pid)
    return [server, *server.children(recursive=True)]


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended."""
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def environment(server: Path, **more: str) -> dict[str, str]:
    """What tells a box which server to use."""
    return {"GLOVEBOX_VSCODE": str(server), "XDG_DATA_HOME": "", "PATH": os.environ["PATH"], **more}
