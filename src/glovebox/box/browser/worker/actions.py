"""Carrying out what agents ask of the browser, call by call."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, Protocol

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame, FrameLocator, Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from glovebox.box.browser.addresses import ERROR_PAGE
from glovebox.box.browser.calls import BadCall, BrowserCall, bind, parse
from glovebox.box.browser.worker import pointer
from glovebox.box.browser.worker.pointer import Pointing

_Button = Literal["left", "middle", "right"]
_Modifiers = list[Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]]

#: A page that is too busy to answer is given up this many seconds after the limit for loading one.
_GRACE = 5.0
#: How long a page may take for each character that is typed into it, in seconds.
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
        """Look at an address before it is visited.

        Raises:
            ValueError: it may not be visited.
        """


class Acting:
    """An agent's hands in the browser.

    Pages may take `load_limit` seconds to load, and elements `element_limit` seconds to be ready for what is
    done with them; the contract says how long that is.
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
        self._doing: dict[str, Callable[..., Awaitable[None]]] = {
            "noop": self._noop,
            "send_msg_to_user": self._send_msg_to_user,
            "report_infeasible": self._report_infeasible,
            "scroll": self._scroll,
            "fill": self._fill,
            "select_option": self._select_option,
            "click": self._click,
            "dblclick": self._dblclick,
            "hover": self._hover,
            "press": self._press,
            "focus": self._focus,
            "clear": self._clear,
            "drag_and_drop": self._drag_and_drop,
            "upload_file": self._upload_file,
            "go_back": self._go_back,
            "go_forward": self._go_forward,
            "goto": self._goto,
            "tab_close": self._tab_close,
            "tab_focus": self._tab_focus,
            "new_tab": self._new_tab,
            **Pointing(lambda: tabs.page, workspace).doing,
        }

    async def perform(self, text: str) -> str:
        """Carry out the calls in a text, up to the first that fails.

        Answers with what went wrong, as `Type: message`; with nothing if nothing did.
        """
        # Pages may have half characters, which come along when an error shows an element; none can be sent.
        return (await self._attempt(text)).encode(errors="replace").decode()

    def take_messages(self) -> list[str]:
        """What the agent has told the user since this was asked last."""
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
                await self._doing[call.name](**arguments)
        except TimeoutError as error:
            if not guard.expired():
                raise
            raise TimeoutError(f"{call.name}() got no answer from the page within {limit:g} s.") from error

    def _limit(self, name: str, arguments: dict[str, object]) -> float | None:
        """How long a call may take, in seconds. Most have limits of their own that end them long before."""
        match name, arguments:
            case "noop", _:
                return None
            case "keyboard_type", {"text": str(text)}:
                return self._load_limit + _GRACE + _PER_CHARACTER * len(text)
            case _:
                return self._load_limit + _GRACE

    async def _element(self, bid: str) -> Locator:
        return await element_of(self._tabs.page, bid)

    # Waiting, and speaking to the user.

    async def _noop(self, wait_ms: float) -> None:
        await asyncio.sleep(wait_ms / 1000)

    async def _send_msg_to_user(self, text: str) -> None:
        self.messages.append(text)

    async def _report_infeasible(self, reason: str) -> None:
        self.messages.append(reason)

    # Elements.

    async def _scroll(self, delta_x: float, delta_y: float) -> None:
        await self._tabs.page.mouse.wheel(delta_x, delta_y)

    async def _fill(self, bid: str, value: str) -> None:
        await (await self._element(bid)).fill(value, timeout=self._element_limit)

    async def _select_option(self, bid: str, options: str | list[str]) -> None:
        await (await self._element(bid)).select_option(options, timeout=self._element_limit)

    async def _click(self, bid: str, button: _Button, modifiers: _Modifiers) -> None:
        element = await self._element(bid)
        await element.click(button=button, modifiers=modifiers, timeout=self._element_limit)

    async def _dblclick(self, bid: str, button: _Button, modifiers: _Modifiers) -> None:
        element = await self._element(bid)
        await element.dblclick(button=button, modifiers=modifiers, timeout=self._element_limit)

    async def _hover(self, bid: str) -> None:
        await (await self._element(bid)).hover(timeout=self._element_limit)

    async def _press(self, bid: str, key_comb: str) -> None:
        await (await self._element(bid)).press(key_comb, timeout=self._element_limit)

    async def _focus(self, bid: str) -> None:
        await (await self._element(bid)).focus(timeout=self._element_limit)

    async def _clear(self, bid: str) -> None:
        await (await self._element(bid)).clear(timeout=self._element_limit)

    async def _drag_and_drop(self, from_bid: str, to_bid: str) -> None:
        source, target = await self._element(from_bid), await self._element(to_bid)
        mouse = self._tabs.page.mouse
        await source.hover(timeout=self._element_limit)
        await mouse.down()
        try:
            await target.hover(timeout=self._element_limit)
        except PlaywrightError:
            await mouse.up()
            raise
        await mouse.up()

    async def _upload_file(self, bid: str, file: str | list[str]) -> None:
        paths = pointer.paths_of(file, self._workspace)
        element = await self._element(bid)
        if await pointer.is_file_input(element, self._element_limit):
            await pointer.give(element, paths)
            return
        click = partial(element.click, timeout=self._element_limit)
        await pointer.give_when_asked(self._tabs.page, click, paths)

    # Navigation.

    async def _goto(self, url: str) -> None:
        self._tabs.check(url)
        await visit(self._tabs.page, url, self._load_limit * 1000)

    async def _go_back(self) -> None:
        await self._tabs.page.go_back(timeout=self._load_limit * 1000)

    async def _go_forward(self) -> None:
        await self._tabs.page.go_forward(timeout=self._load_limit * 1000)

    # Tabs.

    async def _new_tab(self) -> None:
        await self._tabs.open()

    async def _tab_close(self) -> None:
        await self._tabs.close()

    async def _tab_focus(self, index: int) -> None:
        await self._tabs.focus(index)


_INTERRUPTED = f'interrupted by another navigation to "{ERROR_PAGE}"'
#: How long Chromium may take to show it, in seconds. It comes after the error has been told.
_ERROR_LIMIT = 1.0


async def visit(page: Page, url: str, limit: float) -> None:
    """Go to an address, and wait for it to load, at most so many milliseconds.

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
            # Whoever goes elsewhere or looks at the page before it is there is interrupted by it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ERROR_LIMIT):
                    await failed.wait()
        raise
    finally:
        page.remove_listener("framenavigated", look)


async def _arrive(page: Page, url: str, limit: float) -> None:
    """Wait for a page that is still on its way, though what failed before it was shown in between."""
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


async def element_of(page: Page, bid: str) -> Locator:
    """The element with an id, in whatever frame it is.

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
