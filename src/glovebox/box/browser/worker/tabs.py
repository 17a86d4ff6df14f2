"""The open pages, which of them is active, and their events: dialogs, crashes, downloads, requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Page, Request
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire
from glovebox.box.browser.addresses import file_allowed, why_closed
from glovebox.box.browser.chromium import Setup
from glovebox.box.supervised import spawn

_BLANK = "about:blank"
#: Seconds that a page may take to close.
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
        """Open a page, and follow new ones."""
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
        """The index of the active one."""
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
            IndexError: there are fewer.
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
        """The CDP session of a page, which refuses files outside the workspace."""
        task = self._sessions.get(page)
        if task is None:
            task = self._sessions[page] = asyncio.create_task(self._attach(page))
        return await asyncio.shield(task)

    def take_dialogs(self) -> list[wire.Dialog]:
        """The dialogs since the last call."""
        dialogs, self._dialogs = self._dialogs, []
        return dialogs

    async def replace(self, page: Page, why: str) -> None:
        """Replace a page that cannot be used any more by an empty one."""
        self._dead.add(page)
        self._crashed(why)
        await self.open()
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(_CLOSE_LIMIT):
                await page.close()

    async def leave_forbidden(self) -> str | None:
        """Leave pages that show a forbidden address, however they got there; returns why."""
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
        page.on("dialog", lambda dialog: spawn(self._tasks, self._answer(dialog)))
        page.on("download", lambda download: self.downloads.append(download))
        page.on("crash", lambda page: spawn(self._tasks, self.replace(page, "A page has crashed.")))
        page.on("close", self._forget)
        self._active = page
        spawn(self._tasks, self._prepare(page))
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
        session.on("Fetch.requestPaused", lambda request: spawn(self._tasks, self._let(session, request)))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "file://*"}]})
        return session

    async def _let(self, session: CDPSession, request: dict[str, Any]) -> None:
        """Allow a file to be opened, or refuse it."""
        request_id = {"requestId": request["requestId"]}
        with contextlib.suppress(PlaywrightError):  # the page is gone
            if file_allowed(request["request"]["url"], self._setup.workspace):
                await session.send("Fetch.continueRequest", request_id)
            else:
                await session.send("Fetch.failRequest", {**request_id, "errorReason": "AccessDenied"})

    async def _answer(self, dialog: Dialog) -> None:
        """Accept to leave a page; answer other dialogs as the options say."""
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


def downloads_directory(setup: Setup) -> str:
    """Where Chromium puts what it downloads."""
    return os.path.join(setup.workspace, ".downloads")


#: Seconds to wait for requests; a page may keep one open for ever.
_DATA_LIMIT = 1.0
_DOCUMENT_LIMIT = 3.0
_AWAITED = frozenset({"document", "xhr", "fetch", "script"})


class NetworkActivity:
    """The requests of pages."""

    def __init__(self, context: BrowserContext) -> None:
        self._running: set[Request] = set()
        self._changed = asyncio.Event()
        self._last = time.monotonic()
        context.on("request", self._begun)
        context.on("requestfinished", self._ended)
        context.on("requestfailed", self._ended)

    async def settle(self, quiet: float) -> None:
        """Wait until no request is open and none was sent for `quiet` seconds, up to the limits."""
        begun = self._last = time.monotonic()
        while True:
            now = time.monotonic()
            limit = _DOCUMENT_LIMIT if self._navigating() else _DATA_LIMIT
            if self._running:
                left = begun + limit - now
            else:
                left = min(self._last + quiet, begun + _DOCUMENT_LIMIT) - now
            if left <= 0:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _navigating(self) -> bool:
        return any(request.is_navigation_request() for request in self._running)

    def _begun(self, request: Request) -> None:
        if request.resource_type in _AWAITED:
            self._running.add(request)
            self._touch()

    def _ended(self, request: Request) -> None:
        if request in self._running:
            self._running.discard(request)
            self._touch()

    def _touch(self) -> None:
        self._last = time.monotonic()
        self._changed.set()


async def wait_for_documents(page: Page) -> None:
    """Wait until the documents of a page are loaded, up to a limit."""
    for frame in page.frames:
        try:
            await frame.wait_for_load_state("domcontentloaded", timeout=_DOCUMENT_LIMIT * 1000)
        except PlaywrightError:
            return
