"""The open pages: which is active, and what happens in them unasked: pop-ups, dialogs, crashes, downloads."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Page
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire
from glovebox.box.browser.addresses import file_allowed, why_closed
from glovebox.box.browser.chromium import Setup

_BLANK = "about:blank"
#: What a page may do when it is told to go, before it is taken away.
_CLOSE_LIMIT = 5.0
_LONGEST_DIALOG = 2000


class Tabs:
    """The pages of one Chromium."""

    def __init__(self, context: BrowserContext, setup: Setup, crashed: Callable[[str], None]) -> None:
        self.context = context
        #: Downloads that have begun, in order.
        self.downloads: list[Download] = []
        self._setup = setup
        self._crashed = crashed
        self._active: Page | None = None
        self._sessions: dict[Page, asyncio.Task[CDPSession]] = {}
        self._dialogs: list[wire.Dialog] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._dead: set[Page] = set()
        self.changed: Callable[[], None] = lambda: None

    async def begin(self) -> None:
        """Have a page, and hear of new ones."""
        for page in self.context.pages:
            self._adopt(page)
        self.context.on("page", self._adopt)
        if not self.pages:
            await self.context.new_page()
        await self.session(self.page)

    @property
    def pages(self) -> list[Page]:
        """Those that are open, in the order they were opened."""
        return [page for page in self.context.pages if page not in self._dead and not page.is_closed()]

    @property
    def page(self) -> Page:
        """The active one.

        Raises:
            ValueError: none is open.
        """
        pages = self.pages
        if self._active not in pages:
            if not pages:
                raise ValueError("No page is open.")
            self._active = pages[-1]
            self.changed()
        assert self._active is not None
        return self._active

    @property
    def active_index(self) -> int:
        """Where the active one is among them."""
        return self.pages.index(self.page)

    async def ensure(self) -> Page:
        """The active page; a new one if all are closed."""
        if not self.pages:
            await self.open()
        return self.page

    async def open(self) -> None:
        """Open a page, which becomes the active one."""
        page = await self.context.new_page()
        await self._activate(page)

    async def close(self) -> None:
        """Close the active page; the last of the others becomes active."""
        await self.page.close()
        if not self.pages:
            await self.open()
        await self._activate(self.pages[-1])

    async def focus(self, index: int) -> None:
        """Make a page the active one.

        Raises:
            IndexError: there are not that many.
        """
        await self._activate(self.pages[index])

    def check(self, url: str) -> None:
        """Refuse addresses that may not be visited.

        Raises:
            ValueError: this is one.
        """
        reason = why_closed(url, self._setup.closed_ports, self._setup.workspace)
        if reason is not None:
            raise ValueError(reason)

    async def session(self, page: Page) -> CDPSession:
        """The line to Chromium for one page, on which files outside the workspace are refused."""
        task = self._sessions.get(page)
        if task is None:
            task = self._sessions[page] = asyncio.create_task(self._attach(page))
        return await asyncio.shield(task)

    def take_dialogs(self) -> list[wire.Dialog]:
        """What pages asked since the last time."""
        dialogs, self._dialogs = self._dialogs, []
        return dialogs

    async def replace(self, page: Page, why: str) -> None:
        """Give up a page that cannot be used any more, for an empty one."""
        self._dead.add(page)
        self._crashed(why)
        await self.open()
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(_CLOSE_LIMIT):
                await page.close()

    async def leave_forbidden(self) -> str | None:
        """Leave pages that came to show what is closed, whatever way that was: why, if there was one."""
        for page in self.pages:
            # Frames inside of a page may be Chromium's own, to show a PDF.
            inner = [frame.url for frame in page.frames if frame.url.startswith("file:")]
            for url in (page.url, *inner):
                reason = why_closed(url, (), self._setup.workspace)
                if reason is not None:
                    await page.goto(_BLANK)
                    return reason
        return None

    def _adopt(self, page: Page) -> None:
        page.on("dialog", lambda dialog: self._start(self._answer(dialog)))
        page.on("download", lambda download: self.downloads.append(download))
        page.on("crash", lambda page: self._start(self.replace(page, "A page has crashed.")))
        page.on("close", self._forget)
        self._active = page
        self._start(self._prepare(page))
        self.changed()

    async def _prepare(self, page: Page) -> None:
        with contextlib.suppress(PlaywrightError):
            await self.session(page)

    def _forget(self, page: Page) -> None:
        self._dead.discard(page)
        self._sessions.pop(page, None)

    async def _activate(self, page: Page) -> None:
        self._active = page
        await page.bring_to_front()
        self.changed()

    async def _attach(self, page: Page) -> CDPSession:
        session = await self.context.new_cdp_session(page)
        session.on("Fetch.requestPaused", lambda request: self._start(self._let(session, request)))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "file://*"}]})
        return session

    async def _let(self, session: CDPSession, request: dict[str, Any]) -> None:
        """Let a file be opened, or not."""
        request_id = {"requestId": request["requestId"]}
        with contextlib.suppress(PlaywrightError):  # the page is gone
            if file_allowed(request["request"]["url"], self._setup.workspace):
                await session.send("Fetch.continueRequest", request_id)
            else:
                await session.send("Fetch.failRequest", {**request_id, "errorReason": "AccessDenied"})

    async def _answer(self, dialog: Dialog) -> None:
        """Whoever wants to leave a page may; what else pages ask is answered as was set."""
        leaving = dialog.type == "beforeunload"
        accepted = leaving or dialog.type == "alert" or self._setup.dialogs == "accept"
        if not leaving:
            text = dialog.message[:_LONGEST_DIALOG]
            self._dialogs.append(wire.Dialog(kind=dialog.type, text=text, accepted=accepted))
        with contextlib.suppress(PlaywrightError):  # the page is gone
            if accepted:
                await dialog.accept(dialog.default_value)
            else:
                await dialog.dismiss()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def downloads_directory(setup: Setup) -> str:
    """Where Chromium puts what it downloads."""
    return os.path.join(setup.workspace, ".downloads")
