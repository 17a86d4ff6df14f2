"""A VS Code window in a page of a browser, as its user sees it."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from playwright.sync_api import Error, Locator, Page, TimeoutError

from tests.support.waiting import LIMIT
from tests.vscode.harness.browser import Browser

P = ParamSpec("P")
T = TypeVar("T")
#: Seconds until a window must show what it is expected to.
PATIENCE = 3 * LIMIT
#: How often a page is loaded before a test fails.
MAX_LOADS = 3
TOAST = ".notification-toast"
FILES = ".explorer-folders-view .monaco-list-row, .explorer-empty-view"
BUTTONS = ".notification-list-item-buttons-container .monaco-button"
#: Queues what WebSockets send until `releaseMessages` is called.
HOLD = """() => {
    const send = WebSocket.prototype.send;
    const held = [];
    WebSocket.prototype.send = function (data) { held.push([this, data]); };
    window.releaseMessages = () => {
        WebSocket.prototype.send = send;
        held.forEach(([socket, data]) => socket.send(data));
    };
}"""


def in_browser_thread(
    method: Callable[Concatenate[WindowPage, P], T],
) -> Callable[Concatenate[WindowPage, P], T]:
    """Run a method in the thread of the browser."""

    @functools.wraps(method)
    def wrapped(self: WindowPage, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.browser.run(lambda: method(self, *args, **kwargs))

    return wrapped


class WindowPage:
    """The actions of a user in a window, and what the window shows."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.folder = folder
        self._page: Page = browser.page()

    @in_browser_thread
    def open(self, address: str, shows: str = FILES) -> None:
        """Open the window, and wait until it shows its files, or another element."""
        self._page.goto(address)
        self._wait_until_loaded(shows)

    @in_browser_thread
    def reload(self) -> None:
        """Reload the page."""
        self._page.reload()
        self._wait_until_loaded()

    def _wait_until_loaded(self, shows: str = FILES) -> None:
        for _ in range(MAX_LOADS - 1):
            try:
                self._page.locator(shows).first.wait_for(timeout=1000 * LIMIT)
                return
            except TimeoutError:  # now and then the page stays half loaded; a user would load it again
                self._page.reload()
        self._page.locator(shows).first.wait_for(timeout=1000 * PATIENCE)

    @in_browser_thread
    def press_trust(self) -> None:
        """Trust the authors of the files in the folder, in the editor for that."""
        editor = self._page.locator(".workspace-trust-editor")
        editor.get_by_role("button", name="Trust", exact=True).click()
        editor.locator(".workspace-trust-trusted").first.wait_for()
        self._page.keyboard.press("Control+F4")

    @in_browser_thread
    def leave(self) -> None:
        """Go to another page, as a user does who has finished."""
        self._page.goto("about:blank")

    @in_browser_thread
    def close(self) -> None:
        """Close the tab."""
        self._page.close()

    @in_browser_thread
    def bring_to_front(self) -> None:
        """Bring this tab to the front."""
        self._page.bring_to_front()

    # Actions of the user.

    @in_browser_thread
    def command(self, title: str) -> None:
        """Choose a command in the palette; those of extensions appear seconds after the window."""
        self._pick("F1", f">{title}", title)

    @in_browser_thread
    def open_file(self, name: str) -> None:
        """Open a file of the folder in an editor, with the focus."""
        self._pick("Control+p", str(self.folder / name), Path(name).name)
        self._tab(Path(name).name).first.wait_for()
        self._page.locator(".editor-instance .monaco-editor.focused").first.wait_for()

    def _pick(self, key: str, typed: str, row: str) -> None:
        """Choose a row of the list that a key opens; retry until the row is there."""
        page = self._page
        box = page.locator(".quick-input-widget input[type=text]")
        found = page.locator(".quick-input-list .monaco-list-row", has_text=row).first
        deadline = time.monotonic() + PATIENCE
        while True:
            page.keyboard.press(key)
            box.wait_for()
            box.fill(typed)
            try:
                found.wait_for(timeout=5000)
                found.click(timeout=5000)
                return
            except Error:
                assert time.monotonic() < deadline, f"there is no {row!r}"
                page.keyboard.press("Escape")

    @in_browser_thread
    def press(self, keys: str) -> None:
        """Press keys together, such as Control+End."""
        self._page.keyboard.press(keys)

    @in_browser_thread
    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self._page.keyboard.type(text)

    @in_browser_thread
    def choose_in_menu(self, text: str) -> list[str]:
        """Choose a row of the menu that the status bar opens; return all rows."""
        page = self._page
        menu = page.locator(".quick-input-widget", has=page.get_by_text("Glovebox", exact=True))
        rows = menu.locator(".quick-input-list .monaco-list-row")
        deadline = time.monotonic() + PATIENCE
        while True:
            self._status().click()
            try:
                rows.filter(has_text=text).first.wait_for(timeout=5000)
                found = rows.all_inner_texts()
                rows.filter(has_text=text).first.click(timeout=5000)
                return found
            except Error:  # it closes when the window loses the focus, and its rows depend on the state
                assert time.monotonic() < deadline, f"the menu has no {text!r}"
                page.keyboard.press("Escape")

    @in_browser_thread
    def answer(self, text: str) -> None:
        """Type into the input box, and confirm."""
        page = self._page
        page.locator(".quick-input-widget input").last.fill(text)
        page.keyboard.press("Enter")

    @contextlib.contextmanager
    def held_messages(self) -> Iterator[None]:
        """Delay everything that the window sends, as a slow network does, until the end of the block."""
        self._evaluate(HOLD)
        try:
            yield
        finally:
            self._evaluate("() => window.releaseMessages()")

    @in_browser_thread
    def _evaluate(self, script: str) -> None:
        self._page.evaluate(script)

    @in_browser_thread
    def press_button(self, message: str, button: str) -> None:
        """Press a button of a notification."""
        toast = self._page.locator(TOAST, has_text=message).first
        toast.wait_for()
        toast.get_by_role("button", name=button, exact=True).first.click()

    @in_browser_thread
    def press_link(self, message: str, link: str) -> None:
        """Press a link in the message of a notification."""
        toast = self._page.locator(TOAST, has_text=message).first
        toast.wait_for()
        toast.locator(".notification-list-item-message a", has_text=link).first.click()

    @in_browser_thread
    def allow_tool(self, is_done: Callable[[], bool]) -> None:
        """Confirm the dialog that VS Code shows before it calls a tool, unless the call is done without."""
        allow = self._page.locator(".monaco-dialog-box").get_by_role("button", name="Yes")
        deadline = time.monotonic() + PATIENCE
        while not is_done() and time.monotonic() < deadline:
            try:
                allow.first.click(timeout=1000)
                return
            except Error:
                continue

    @in_browser_thread
    def tidy(self) -> None:
        """Close notifications and menus."""
        page = self._page
        page.keyboard.press("Escape")
        for _ in range(10):
            close = page.locator(f"{TOAST} .codicon-notifications-clear")
            if not close.count():
                break
            close.first.click(force=True)

    # The views of Glovebox.

    def show_view(self) -> None:
        """Open the side bar of Glovebox."""
        if not self._has_view():
            self.command("View: Show Glovebox")

    @in_browser_thread
    def _has_view(self) -> bool:
        return self._page.locator(".composite.title", has_text="Glovebox").count() > 0

    @in_browser_thread
    def rows(self, view: str) -> list[str]:
        """The accessible names of the visible rows of a view."""
        found: list[str] = self._rows(view).evaluate_all(
            "rows => rows.sort((a, b) => a.dataset.index - b.dataset.index).map(row => row.ariaLabel)"
        )
        return found

    @in_browser_thread
    def click_row(self, view: str, text: str) -> None:
        """Click a row of a view."""
        self._rows(view).filter(has_text=text).first.click()

    @in_browser_thread
    def hover_row(self, view: str, text: str) -> None:
        """Move the mouse over a row, so that it shows its buttons."""
        self._rows(view).filter(has_text=text).first.hover()

    @in_browser_thread
    def press_in_row(self, view: str, text: str, button: str) -> None:
        """Press a button of a row."""
        row = self._rows(view).filter(has_text=text).first
        row.hover()
        row.get_by_role("button", name=button).first.click()

    @in_browser_thread
    def press_in_title(self, view: str, button: str) -> None:
        """Press a button in the title of a view."""
        pane = self._pane(view)
        pane.hover()
        pane.locator(".pane-header").get_by_role("button", name=button).first.click()

    @in_browser_thread
    def press_in_dialog(self, button: str) -> None:
        """Press a button of a modal dialog."""
        self._page.locator(".monaco-dialog-box").get_by_role("button", name=button, exact=True).click()

    def _pane(self, view: str) -> Locator:
        header = self._page.locator(f'.pane-header[aria-label^="{view}"]')
        return self._page.locator(".pane", has=header)

    def _rows(self, view: str) -> Locator:
        return self._pane(view).locator(".monaco-list-row")

    # What the window shows.

    @in_browser_thread
    def status(self) -> str:
        """The text of the status bar item of Glovebox; empty if there is none."""
        return self._status().inner_text().strip() if self._status().count() else ""

    @in_browser_thread
    def notifications(self) -> list[str]:
        """The messages of the notifications."""
        return self._page.locator(f"{TOAST} .notification-list-item-message").all_inner_texts()

    @in_browser_thread
    def buttons(self) -> list[str]:
        """The buttons of all notifications."""
        return self._page.locator(
            f"{TOAST} .notification-list-item-buttons-container .monaco-button"
        ).all_inner_texts()

    @in_browser_thread
    def editor_text(self) -> str:
        """The visible text of the active editor."""
        lines = self._page.locator(".editor-group-container.active .monaco-editor .view-lines").last
        found: list[list[Any]] = lines.evaluate(
            "all => [...all.children].map(line => [parseFloat(line.style.top), line.innerText])"
        )
        return "\n".join(text.replace("\xa0", " ").rstrip("\n") for _, text in sorted(found))

    @in_browser_thread
    def tabs(self) -> list[str]:
        """The names of the open editors; one with unsaved changes has a star."""
        found: list[str] = self._page.locator(".tabs-container .tab").evaluate_all(
            "tabs => tabs.map(tab => tab.dataset.resourceName + (tab.classList.contains('dirty') ? '*' : ''))"
        )
        return found

    @in_browser_thread
    def terminal_text(self) -> str:
        """The visible text of the active terminal."""
        rows = self._page.locator(".terminal-wrapper.active .xterm-rows > div").all_inner_texts()
        return "\n".join(row.replace("\xa0", " ").rstrip() for row in rows).rstrip()

    @in_browser_thread
    def has_focus(self, selector: str) -> bool:
        """Whether an element of the window has the focus."""
        found: bool = self._page.evaluate(
            "where => !!document.activeElement && !!document.activeElement.closest(where)", selector
        )
        return found

    @in_browser_thread
    def has(self, selector: str) -> bool:
        """Whether the window has an element."""
        return self._page.locator(selector).count() > 0

    @in_browser_thread
    def text_of(self, selector: str) -> str:
        """The text of an element of the window."""
        return "\n".join(self._page.locator(selector).all_inner_texts()).replace("\xa0", " ")

    @in_browser_thread
    def screenshot(self, file: Path) -> None:
        """Save a screenshot of the window."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._page.screenshot(path=file)

    def _status(self) -> Locator:
        return self._page.locator(".statusbar-item", has_text=re.compile("glovebox", re.IGNORECASE)).first

    def _tab(self, name: str) -> Locator:
        return self._page.locator(f'.tabs-container .tab[data-resource-name="{name}"]')
