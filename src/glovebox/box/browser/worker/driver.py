"""Chromium: started through Playwright, again after a crash, and driven step by step."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Download,
    Page,
    Playwright,
    async_playwright,
)
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire
from glovebox.box.browser.calls import BadCall, parse
from glovebox.box.browser.chromium import Setup, flags, how_to_get
from glovebox.box.browser.worker.actions import PageActions
from glovebox.box.browser.worker.downloads import Downloads, save_screenshot
from glovebox.box.browser.worker.page.observer import PageObserver, PageSnapshot
from glovebox.box.browser.worker.tabs import NetworkActivity, Tabs, downloads_directory, wait_for_documents
from glovebox.box.supervised import Supervised, spawn

_CRASHED = "Chromium has crashed and is started again; its pages are gone."
#: Addresses and messages of pages can be of any length.
_LONGEST_ERROR = 10_000
#: Seconds after which a step fails, before the server ends the process.
_STEP_LIMIT = 110.0


class Driver:
    """Carries out steps."""

    def __init__(self, setup: Setup, send: Callable[[wire.Reply], None]) -> None:
        self._setup = setup
        self._send = send
        self.version = ""
        self._pid = 0
        self._playwright: Playwright | None = None
        self._context: BrowserContext | None = None
        self._supervised = Supervised(self._start)
        self._downloads = Downloads(setup.workspace)
        self._watched = False
        self._stopping = False
        self._turn = asyncio.Lock()

    async def start(self) -> _Running:
        """Start Chromium, unless it runs.

        Raises:
            NoChromium: it does not start.
        """
        return await self._supervised.get()

    async def stop(self) -> None:
        self._stopping = True
        context, self._context = self._context, None
        if context is not None:
            try:
                await context.close()
            except PlaywrightError as error:
                print(f"Chromium did not end by itself: {error}", file=sys.stderr)
        if self._playwright is not None:
            playwright, self._playwright = self._playwright, None
            await playwright.stop()

    async def step(self, request: wire.BrowserStep) -> wire.Seen:
        """Carry out calls, and observe the page.

        Raises:
            NoChromium: it does not start again.
            PlaywrightError, TimeoutError: the page cannot be observed.
        """
        async with self._turn, asyncio.timeout(_STEP_LIMIT):
            running = await self.start()
            try:
                error = await self._act(running, request.actions)
                page = await running.look(request)
            except (PlaywrightError, ValueError):
                if self._supervised.current is running:
                    raise
                running = await self.start()
                error = f"Error: {_CRASHED}"
                page = await running.look(request)
            self._downloads.add(running.take_downloads())
            downloads = await self._downloads.take_finished()
            path = await asyncio.to_thread(save_screenshot, page.screenshot, self._setup.workspace)
            return _seen(request, running, page, error, downloads, path)

    async def look(self, request: wire.Observe) -> wire.Picture:
        """A picture of the active page.

        Raises:
            PlaywrightError, TimeoutError: there is none.
        """
        running = await self.start()
        page = await running.tabs.ensure()
        observer = await running.observer(page)
        image = await observer.picture(request.format)
        return wire.Picture(id=request.id, image=image, url=page.url, title=await _title(page))

    async def survey(self, request: wire.Survey) -> wire.OpenTabs:
        running = await self.start()
        await running.tabs.ensure()
        pages = running.tabs.pages
        titles = await asyncio.gather(*map(_title, pages))
        return wire.OpenTabs(
            id=request.id,
            urls=[page.url for page in pages],
            titles=list(titles),
            active=running.tabs.active_index,
            pid=self._pid,
        )

    def watch(self, on: bool) -> None:
        """Begin or end a screencast."""
        self._watched = on
        if (running := self._supervised.current) is not None:
            running.screencast.switch(on)

    async def _act(self, running: _Running, actions: str) -> str:
        error = await running.actions.perform(actions)
        if self._supervised.current is not running:
            raise PlaywrightError(_CRASHED)
        if not _only_waits(actions, self._setup.coordinates):
            await running.activity.settle(self._setup.settle)
            await wait_for_documents(await running.tabs.ensure())
        if forbidden := await running.tabs.leave_forbidden():
            error = f"ValueError: {forbidden}"
        return error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}..."

    async def _start(self) -> _Running:
        if self._playwright is None:
            self._playwright = await async_playwright().start()
            self._playwright.selectors.set_test_id_attribute("bid")
        context = self._context = await _launch(self._playwright, self._setup)
        context.on("close", lambda _: self._ended())
        if (browser := context.browser) is not None:
            self.version, self._pid = browser.version, await _process_id(browser)
        tabs = Tabs(context, self._setup, lambda what: self._send(wire.Crashed(what=what)))
        await tabs.begin()
        running = _Running(self._setup, tabs, NetworkActivity(context), self._send)
        running.screencast.switch(self._watched)
        return running

    def _ended(self) -> None:
        self._supervised.current = None
        if not self._stopping:
            self._send(wire.Crashed(what=_CRASHED))


class _Running:
    """All that belongs to one run of Chromium."""

    def __init__(
        self, setup: Setup, tabs: Tabs, activity: NetworkActivity, send: Callable[[wire.Reply], None]
    ) -> None:
        self.tabs = tabs
        self.activity = activity
        self.actions = PageActions(
            tabs, load_limit=setup.load_limit, workspace=setup.workspace, coordinates=setup.coordinates
        )
        self.screencast = Screencast(tabs, send)
        tabs.changed = self.screencast.follow
        self._limit = setup.tree_limit
        self._observers: dict[Page, PageObserver] = {}

    async def observer(self, page: Page) -> PageObserver:
        for gone in [known for known in self._observers if known.is_closed()]:
            del self._observers[gone]
        if page not in self._observers:
            self._observers[page] = PageObserver(page, await self.tabs.session(page), limit=self._limit)
        return self._observers[page]

    async def look(self, request: wire.BrowserStep) -> PageSnapshot:
        """Observe the active page; one that does not answer is closed."""
        page = await self.tabs.ensure()
        try:
            return await (await self.observer(page)).look(as_text=request.as_text, raw=request.raw)
        except TimeoutError:
            await self.tabs.replace(page, f"{page.url[:200]} does not answer, and was closed.")
            raise

    def take_downloads(self) -> list[Download]:
        """Downloads that have begun since the last time."""
        begun, self.tabs.downloads[:] = list(self.tabs.downloads), []
        return begun


def _seen(
    request: wire.BrowserStep,
    running: _Running,
    page: PageSnapshot,
    error: str,
    downloads: list[wire.Download],
    path: str | None,
) -> wire.Seen:
    tabs = running.tabs
    return wire.Seen(
        id=request.id,
        url=tabs.page.url,
        open_pages_urls=[tab.url for tab in tabs.pages],
        active_page_index=tabs.active_index,
        focused_element_bid=page.focused,
        screenshot=page.screenshot,
        set_of_marks=page.set_of_marks,
        screenshot_path=path,
        error=error,
        text=page.text,
        tree=page.tree,
        axtree=page.axtree,
        properties=page.properties,
        messages=running.actions.take_messages(),
        dialogs=tabs.take_dialogs(),
        downloads=downloads,
    )


def _only_waits(actions: str, coordinates: bool) -> bool:
    """Whether no call can have made the page busy."""
    try:
        return all(call.name == "noop" for call in parse(actions, coordinates=coordinates))
    except BadCall:
        return True


async def _title(page: Page) -> str:
    with contextlib.suppress(PlaywrightError, TimeoutError):
        async with asyncio.timeout(1):
            return await page.title()
    return ""


#: Seconds between two pictures.
_INTERVAL = 0.1
_QUALITY = 60


class Screencast:
    """A screencast that follows the active page."""

    def __init__(self, tabs: Tabs, send: Callable[[wire.Frame], None]) -> None:
        self._tabs = tabs
        self._send = send
        self._wanted = False
        self._session: CDPSession | None = None
        self._listening: set[CDPSession] = set()
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def switch(self, on: bool) -> None:
        self._wanted = on
        self.follow()

    def follow(self) -> None:
        """Follow the active page, which may be another one."""
        if self._wanted or self._session is not None:
            spawn(self._tasks, self._follow())

    async def _follow(self) -> None:
        async with self._turn:
            wanted: CDPSession | None = None
            with contextlib.suppress(PlaywrightError, ValueError):
                wanted = await self._tabs.session(self._tabs.page) if self._wanted else None
            if wanted is self._session:
                return
            previous, self._session = self._session, wanted
            if previous is not None:
                with contextlib.suppress(PlaywrightError):  # its page is gone
                    await previous.send("Page.stopScreencast")
            if wanted is not None:
                with contextlib.suppress(PlaywrightError):
                    await self._begin(wanted)

    async def _begin(self, session: CDPSession) -> None:
        if session not in self._listening:
            self._listening.add(session)
            session.on(
                "Page.screencastFrame", lambda event: spawn(self._tasks, self._forward(session, event))
            )
        await session.send("Page.startScreencast", {"format": "jpeg", "quality": _QUALITY})

    async def _forward(self, session: CDPSession, event: dict[str, Any]) -> None:
        if session is self._session:
            shape = event["metadata"]
            self._send(
                wire.Frame(
                    image=base64.b64decode(event["data"]),
                    url=self._tabs.page.url,
                    width=int(shape["deviceWidth"]),
                    height=int(shape["deviceHeight"]),
                )
            )
        await asyncio.sleep(_INTERVAL)
        with contextlib.suppress(PlaywrightError):
            await session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})


#: How many lines of its output are part of the error.
_LINES = 10
#: Milliseconds after which any call of Playwright fails.
_ACTION_LIMIT = 100_000


class NoChromium(Exception):
    """Chromium could not be started; the text says what to do."""


async def _launch(playwright: Playwright, setup: Setup) -> BrowserContext:
    """Start a Chromium with its own profile.

    Raises:
        NoChromium: it does not start.
    """
    executable = setup.executable or playwright.chromium.executable_path
    if not await asyncio.to_thread(os.path.exists, executable):
        raise NoChromium(f"There is no Chromium at {executable}. {how_to_get(sys.executable)}")
    try:
        context = await playwright.chromium.launch_persistent_context(
            setup.profile,
            executable_path=executable,
            headless=True,
            args=flags(setup.closed_ports),
            viewport={"width": setup.width, "height": setup.height},
            accept_downloads=True,
            downloads_path=downloads_directory(setup),
        )
    except PlaywrightError as error:
        problem = _describe_start_error(error)
        raise NoChromium(f"Chromium at {executable} does not start: {problem}") from error
    context.set_default_timeout(_ACTION_LIMIT)
    return context


async def _process_id(browser: Browser) -> int:
    session = await browser.new_browser_cdp_session()
    processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    await session.detach()
    return next(int(one["id"]) for one in processes if one["type"] == "browser")


def _describe_start_error(error: PlaywrightError) -> str:
    """Why a start failed: what Playwright says, and the last output of Chromium itself."""
    first, *others = str(error).splitlines()
    printed = [line.partition("[err]")[2].strip() for line in others if "[err]" in line]
    return "\n".join([first, *printed[-_LINES:]])
