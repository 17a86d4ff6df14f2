"""A machine with a hub, a VS Code and a browser, on which windows are opened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from glovebox import BoxSpec, SyncRuntime
from tests.support.waiting import wait_until
from tests.vscode.harness.browser import Browser
from tests.vscode.harness.editor import Editor
from tests.vscode.harness.hub import Hub
from tests.vscode.harness.page import WindowPage

#: All pages that are open, for pictures of what was seen when a test failed.
OPEN: list[WindowPage] = []


class Window(WindowPage):
    """A window, and the agent's way into it."""

    def __init__(self, browser: Browser, folder: Path, hub: Hub) -> None:
        super().__init__(browser, folder)
        self.hub = hub

    def connect(self) -> None:
        """Connect it as a user does, and wait until an agent can use it."""
        self.command("Glovebox: Connect")
        self.hub.wait_for(self.folder, "connected")
        wait_until(lambda: "connected" in self.status(), what="a status bar that says so")

    @contextlib.contextmanager
    def agent(self) -> Iterator[SyncRuntime]:
        """A runtime that works in this window."""
        spec = BoxSpec(workspace=str(self.folder))
        with SyncRuntime("vscode", spec, settings=self.hub.settings, patience=2) as runtime:
            yield runtime


class Desk:
    """What tests have in common."""

    def __init__(self, hub: Hub, editor: Editor, browser: Browser, place: Path) -> None:
        self.hub = hub
        self.editor = editor
        self.browser = browser
        self.place = place

    def folder(self, name: str, files: Mapping[str, str] | None = None) -> Path:
        """A new folder with files."""
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
        """A window for a folder, or for a workspace whose first folder it is, until it is closed."""
        window = Window(browser or self.browser, folder, self.hub)
        OPEN.append(window)
        try:
            window.open(self.editor.address(workspace or folder))
            yield window
        finally:
            OPEN.remove(window)
            window.close()

    @contextlib.contextmanager
    def empty_window(self) -> Iterator[Window]:
        """A window without a folder, until it is closed."""
        window = Window(self.browser, Path("/"), self.hub)
        OPEN.append(window)
        try:
            window.open(self.editor.address(None), shows=".statusbar-item")
            yield window
        finally:
            OPEN.remove(window)
            window.close()
