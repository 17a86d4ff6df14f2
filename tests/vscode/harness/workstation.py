"""A machine with a hub, a VS Code server and a browser, on which windows are opened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from glovebox import BoxSpec, SyncRuntime
from tests.support.waiting import wait_until
from tests.vscode.harness.browser import Browser
from tests.vscode.harness.hub import Hub
from tests.vscode.harness.vscode_server import VsCodeServer
from tests.vscode.harness.window_page import WindowPage

#: All open pages, for screenshots when a test fails.
OPEN: list[WindowPage] = []


class Window(WindowPage):
    """A window, and how agents connect to it."""

    def __init__(self, browser: Browser, folder: Path, hub: Hub) -> None:
        super().__init__(browser, folder)
        self.hub = hub

    def connect(self, shows: str = "Glovebox: connected") -> None:
        """Connect as a user does, and wait until the status bar shows it."""
        self.command("Glovebox: Connect")
        self.hub.wait_for(self.folder, "connected")
        wait_until(lambda: shows in self.status(), what=f"a status bar with {shows!r}")

    @contextlib.contextmanager
    def agent(self) -> Iterator[SyncRuntime]:
        """A runtime that works in this window."""
        spec = BoxSpec(workspace=str(self.folder))
        with SyncRuntime("vscode", spec, settings=self.hub.settings, patience=2) as runtime:
            yield runtime


class Workstation:
    """A hub, a VS Code server, a browser, and a directory for workspaces."""

    def __init__(self, hub: Hub, server: VsCodeServer, browser: Browser, place: Path) -> None:
        self.hub = hub
        self.server = server
        self.browser = browser
        self.place = place

    def folder(self, name: str, files: Mapping[str, str] | None = None) -> Path:
        """Create a folder with files."""
        folder = self.place / name
        folder.mkdir(parents=True)
        for path, content in {"notes.txt": "one\ntwo\nthree\n", **(files or {})}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return folder

    @contextlib.contextmanager
    def window(
        self, folder: Path, *, workspace: Path | None = None, browser: Browser | None = None
    ) -> Iterator[Window]:
        """Open a window for a folder, or for a workspace whose first folder it is."""
        window = Window(browser or self.browser, folder, self.hub)
        OPEN.append(window)
        try:
            window.open(self.server.address(workspace or folder))
            yield window
        finally:
            OPEN.remove(window)
            window.close()

    @contextlib.contextmanager
    def empty_window(self) -> Iterator[Window]:
        """Open a window without a folder."""
        window = Window(self.browser, Path("/"), self.hub)
        OPEN.append(window)
        try:
            window.open(self.server.address(None), shows=".statusbar-item")
            yield window
        finally:
            OPEN.remove(window)
            window.close()
