"""Carries out what agents ask of the browser, call by call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame, FrameLocator, Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from glovebox.box.browser.addresses import ERROR_PAGE
from glovebox.box.browser.calls import BadCall, BrowserCall, bind, parse

#: Takes the arguments of a call by name.
_Action = Callable[..., Awaitable[object]]

#: Seconds after the limit for loading a page that an unresponsive page gets for a call.
_GRACE = 5.0
#: Seconds that a page may take for each character that is typed into it.
_PER_CHARACTER = 0.02


class TabList(Protocol):
    """The open pages, of which one is active."""

    @property
    def page(self) -> Page: ...

    @property
    def pages(self) -> list[Page]: ...

    async def open(self) -> None:
        """Open another; it becomes the active one."""

    async def close(self) -> None:
        """Close the active one. The last of the others becomes active."""

    async def focus(self, index: int) -> None:
        """Make another the active one.

        Raises:
            IndexError: there are fewer.
        """

    def check(self, url: str) -> None:
        """Check an address before it is visited.

        Raises:
            ValueError: it may not be visited.
        """


class PageActions:
    """Carries out calls on the active page.

    Pages may take `load_limit` seconds to load, and elements `element_limit` seconds to be ready for an
    action; the defaults are the contract's.
    """

    def __init__(
        self,
        tabs: TabList,
        *,
        load_limit: float,
        workspace: str,
        coordinates: bool,
        element_limit: float = 0.5,
    ) -> None:
        self.messages: list[str] = []
        self._tabs = tabs
        self._load_limit = load_limit
        self._element_limit = element_limit * 1000
        self._workspace = workspace
        self._coordinates = coordinates
        self._actions = {
            **self._element_actions(),
            **self._page_actions(),
            **self._mouse_actions(),
            **self._keyboard_actions(),
        }

    async def perform(self, text: str) -> str:
        """Carry out the calls in a text, up to the first that fails.

        Returns the error as `Type: message`, empty if there is none.
        """
        # Pages may have half characters, which come along when an error shows an element; none can be sent.
        return (await self._attempt(text)).encode(errors="replace").decode()

    def take_messages(self) -> list[str]:
        """The messages of the agent to the user since the last call."""
        messages, self.messages = self.messages, []
        return messages

    async def _attempt(self, text: str) -> str:
        try:
            for call in parse(text, coordinates=self._coordinates):
                await self._carry_out(call)
        except BadCall as error:
            return str(error)
        except PlaywrightTimeout as error:
            return f"TimeoutError: {error}"
        except PlaywrightError as error:
            return f"Error: {error}"
        except (ValueError, IndexError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def _carry_out(self, call: BrowserCall) -> None:
        arguments = bind(call)
        limit = self._limit(call.name, arguments)
        try:
            async with asyncio.timeout(limit) as guard:
                await self._actions[call.name](**arguments)
        except TimeoutError as error:
            if not guard.expired():
                raise
            raise TimeoutError(f"{call.name}() got no answer from the page within {limit:g} s.") from error

    def _limit(self, name: str, arguments: dict[str, object]) -> float | None:
        """Seconds that a call may take. Most have limits of their own that end them long before."""
        match name, arguments:
            case "noop", _:
                return None
            case "keyboard_type", {"text": str(text)}:
                return self._load_limit + _GRACE + _PER_CHARACTER * len(text)
            case _:
                return self._load_limit + _GRACE

    def _element_actions(self) -> dict[str, _Action]:
        limit = self._element_limit

        def on_element(action: Callable[..., Awaitable[object]]) -> _Action:
            async def run(bid: str, **arguments: object) -> None:
                await action(await find_element(self._tabs.page, bid), timeout=limit, **arguments)

            return run

        return {
            "fill": on_element(Locator.fill),
            "select_option": on_element(
                lambda element, options, timeout: element.select_option(options, timeout=timeout)
            ),
            "click": on_element(Locator.click),
            "dblclick": on_element(Locator.dblclick),
            "hover": on_element(Locator.hover),
            "press": on_element(lambda element, key_comb, timeout: element.press(key_comb, timeout=timeout)),
            "focus": on_element(Locator.focus),
            "clear": on_element(Locator.clear),
            "drag_and_drop": self._drag_and_drop,
            "upload_file": self._upload_file,
        }

    def _page_actions(self) -> dict[str, _Action]:
        tabs, limit = self._tabs, self._load_limit * 1000

        async def goto(url: str) -> None:
            tabs.check(url)
            await visit(tabs.page, url, limit)

        async def send_msg_to_user(text: str) -> None:
            self.messages.append(text)

        return {
            "noop": lambda wait_ms: asyncio.sleep(wait_ms / 1000),
            "send_msg_to_user": send_msg_to_user,
            "report_infeasible": lambda reason: send_msg_to_user(reason),
            "go_back": lambda: tabs.page.go_back(timeout=limit),
            "go_forward": lambda: tabs.page.go_forward(timeout=limit),
            "goto": goto,
            "new_tab": tabs.open,
            "tab_close": tabs.close,
            "tab_focus": tabs.focus,
        }

    def _mouse_actions(self) -> dict[str, _Action]:
        tabs = self._tabs

        async def drag(from_x: float, from_y: float, to_x: float, to_y: float) -> None:
            mouse = tabs.page.mouse
            await mouse.move(from_x, from_y)
            await mouse.down()
            await mouse.move(to_x, to_y)
            await mouse.up()

        async def up(x: float, y: float, **button: Any) -> None:
            mouse = tabs.page.mouse
            await mouse.move(x, y)
            await mouse.up(**button)

        async def down(x: float, y: float, **button: Any) -> None:
            mouse = tabs.page.mouse
            await mouse.move(x, y)
            await mouse.down(**button)

        async def upload(x: float, y: float, file: str | list[str]) -> None:
            paths = _paths_of(file, self._workspace)
            page = tabs.page
            await _choose_files(page, lambda: page.mouse.click(x, y), paths)

        return {
            "scroll": lambda delta_x, delta_y: tabs.page.mouse.wheel(delta_x, delta_y),
            "mouse_move": lambda x, y: tabs.page.mouse.move(x, y),
            "mouse_up": up,
            "mouse_down": down,
            "mouse_click": lambda x, y, button: tabs.page.mouse.click(x, y, button=button),
            "mouse_dblclick": lambda x, y, button: tabs.page.mouse.dblclick(x, y, button=button),
            "mouse_drag_and_drop": drag,
            "mouse_upload_file": upload,
        }

    def _keyboard_actions(self) -> dict[str, _Action]:
        tabs = self._tabs
        return {
            "keyboard_down": lambda key: tabs.page.keyboard.down(key),
            "keyboard_up": lambda key: tabs.page.keyboard.up(key),
            "keyboard_press": lambda key: tabs.page.keyboard.press(key),
            "keyboard_type": lambda text: tabs.page.keyboard.type(text),
            "keyboard_insert_text": lambda text: tabs.page.keyboard.insert_text(text),
        }

    async def _drag_and_drop(self, from_bid: str, to_bid: str) -> None:
        page = self._tabs.page
        source, target = await find_element(page, from_bid), await find_element(page, to_bid)
        await source.hover(timeout=self._element_limit)
        await page.mouse.down()
        try:
            await target.hover(timeout=self._element_limit)
        finally:
            await page.mouse.up()

    async def _upload_file(self, bid: str, file: str | list[str]) -> None:
        paths = _paths_of(file, self._workspace)
        page, limit = self._tabs.page, self._element_limit
        element = await find_element(page, bid)
        if await element.evaluate(_IS_FILE_INPUT, timeout=limit):
            await element.set_input_files(paths, timeout=_CHOOSER_LIMIT)  # whether it is visible or not
        else:
            await _choose_files(page, lambda: element.click(timeout=limit), paths)


#: Milliseconds that a page may take to open a file chooser after a click, and to take the files.
_CHOOSER_LIMIT = 5000
_IS_FILE_INPUT = "element => element instanceof HTMLInputElement && element.type === 'file'"


def _paths_of(files: str | list[str], workspace: str) -> list[str]:
    """The paths of files that an agent named, relative to its workspace.

    Raises:
        OSError: one does not exist.
    """
    paths = [Path(workspace, name) for name in ([files] if isinstance(files, str) else files)]
    for path in paths:
        path.stat()
    return [os.fspath(path) for path in paths]


async def _choose_files(page: Page, click: Callable[[], Awaitable[None]], paths: list[str]) -> None:
    """Click something that opens a file chooser, and choose files."""
    async with page.expect_file_chooser(timeout=_CHOOSER_LIMIT) as opened:
        # A click may overtake the request to report the chooser, unless the page has answered since.
        await page.evaluate("0")
        await click()
    chooser = await opened.value
    await chooser.set_files(paths, timeout=_CHOOSER_LIMIT)


_INTERRUPTED = f'interrupted by another navigation to "{ERROR_PAGE}"'
#: Seconds that Chromium may take to show the error page; it comes after the error was reported.
_ERROR_LIMIT = 1.0


async def visit(page: Page, url: str, limit: float) -> None:
    """Go to an address, and wait up to `limit` milliseconds for it to load.

    Raises:
        PlaywrightError: it could not be reached, or has not loaded.
    """
    failed = asyncio.Event()

    def look(frame: Frame) -> None:
        if frame.url == ERROR_PAGE:
            failed.set()

    page.on("framenavigated", look)
    try:
        await page.goto(url, timeout=limit)
    except PlaywrightError as error:
        if _INTERRUPTED in error.message:
            await _arrive(page, url, limit)
            return
        if "net::ERR_" in error.message and "net::ERR_ABORTED" not in error.message:
            # Navigation or observation before the error page is shown would be interrupted by it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ERROR_LIMIT):
                    await failed.wait()
        raise
    finally:
        page.remove_listener("framenavigated", look)


async def _arrive(page: Page, url: str, limit: float) -> None:
    """Wait for a page that still loads although the error page of an earlier one was shown in between."""
    if page.url == ERROR_PAGE:
        await page.wait_for_event("framenavigated", lambda frame: frame == page.main_frame, timeout=limit)
    if page.url == ERROR_PAGE:
        await page.goto(url, timeout=limit)
    else:
        await page.wait_for_load_state(timeout=limit)


#: `ab12` is element 12 in frame `ab`, which is in frame `a`. Ids of frames are letters, and those of more
#: than one letter go on in capitals: `aB3` is in frame `aB` of the page itself.
_BID = re.compile(r"((?:[a-z][A-Z]*)*)([0-9]*)")
_FRAME = re.compile(r"[a-z][A-Z]*")


async def find_element(page: Page, bid: str) -> Locator:
    """The element with an id, in any frame.

    Raises:
        ValueError: there is none.
    """
    parts = _BID.fullmatch(bid)
    if parts is None or not bid:
        raise _missing(bid)
    ends = [letters.end() for letters in _FRAME.finditer(parts[1])]
    # The id of a frame is that of an element, too.
    around = ends if parts[2] else ends[:-1]
    place: Page | FrameLocator = page
    for end in around:
        place = (await _present(place, bid[:end], bid)).content_frame
    return await _present(place, bid, bid)


async def _present(place: Page | FrameLocator, id_: str, wanted: str) -> Locator:
    element = place.get_by_test_id(id_)
    if not await element.count():
        raise _missing(wanted)
    return element


def _missing(bid: str) -> ValueError:
    return ValueError(f'Could not find element with bid "{bid}"')
