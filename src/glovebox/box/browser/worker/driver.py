"""One browser from the inside: started when needed, again after a crash, and driven step by step."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from playwright.async_api import (
    BrowserContext,
    CDPSession,
    Download,
    Page,
    Playwright,
    Request,
    async_playwright,
)
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire
from glovebox.box.browser.calls import BadCall, parse
from glovebox.box.browser.chromium import Setup, flags, how_to_get
from glovebox.box.browser.worker.actions import Acting
from glovebox.box.browser.worker.downloads import Downloads, save
from glovebox.box.browser.worker.page.observer import PageObserver, PageSnapshot
from glovebox.box.browser.worker.tabs import Tabs, downloads_directory

_CRASHED = "Chromium has crashed and is started again; its pages are gone."
#: Addresses and what pages say can be of any length.
_LONGEST_ERROR = 10_000
#: Whatever a page does, its answer comes before the server gives the process up.
_STEP_LIMIT = 110.0


class Driver:
    """Carries out steps."""

    def __init__(self, setup: Setup, tell: Callable[[wire.Reply], None]) -> None:
        self._setup = setup
        self._tell = tell
        self._chromium = Chromium(setup, self._ended)
        self._running: _Running | None = None
        self._downloads = Downloads(setup.workspace)
        self._watched = False
        self._stopping = False
        self._turn = asyncio.Lock()

    @property
    def version(self) -> str:
        return self._chromium.version

    async def start(self) -> _Running:
        """Have a Chromium that runs.

        Raises:
            NoChromium: it does not start.
        """
        if self._running is None:
            context = await self._chromium.start()
            tabs = Tabs(context, self._setup, lambda what: self._tell(wire.Crashed(what=what)))
            await tabs.begin()
            self._running = _Running(self._setup, tabs, Activity(context), self._tell)
            self._running.casting.want(self._watched)
        return self._running

    async def stop(self) -> None:
        self._stopping = True
        await self._chromium.stop()

    async def step(self, asked: wire.BrowserStep) -> wire.Seen:
        """Carry out calls, and look at the page then.

        Raises:
            NoChromium: there is none any more.
            PlaywrightError, TimeoutError: the page cannot be looked at.
        """
        async with self._turn, asyncio.timeout(_STEP_LIMIT):
            running = await self.start()
            try:
                error = await self._act(running, asked.actions)
                sight = await running.look(asked)
            except (PlaywrightError, ValueError):
                if self._running is running:
                    raise
                running = await self.start()
                error = f"Error: {_CRASHED}"
                sight = await running.look(asked)
            self._downloads.add(running.take_downloads())
            downloads = await self._downloads.finished()
            path = await asyncio.to_thread(save, sight.screenshot, self._setup.workspace)
            return _seen(asked, running, sight, error, downloads, path)

    async def look(self, asked: wire.Observe) -> wire.Picture:
        """How the active page looks.

        Raises:
            PlaywrightError, TimeoutError: that cannot be said.
        """
        running = await self.start()
        page = await running.tabs.ensure()
        observer = await running.observer(page)
        image = await observer.picture(asked.format)
        return wire.Picture(id=asked.id, image=image, url=page.url, title=await _title(page))

    async def survey(self, asked: wire.Survey) -> wire.OpenTabs:
        running = await self.start()
        await running.tabs.ensure()
        pages = running.tabs.pages
        titles = await asyncio.gather(*map(_title, pages))
        return wire.OpenTabs(
            id=asked.id,
            urls=[page.url for page in pages],
            titles=list(titles),
            active=running.tabs.active_index,
            pid=self._chromium.pid,
        )

    def watch(self, on: bool) -> None:
        """Show the active page whenever it changes, or no more."""
        self._watched = on
        if self._running is not None:
            self._running.casting.want(on)

    async def _act(self, running: _Running, actions: str) -> str:
        error = await running.acting.perform(actions)
        if self._running is not running:
            raise PlaywrightError(_CRASHED)
        if not _only_waits(actions, self._setup.coordinates):
            await running.activity.settle(self._setup.settle)
            await loaded(await running.tabs.ensure())
        if forbidden := await running.tabs.leave_forbidden():
            error = f"ValueError: {forbidden}"
        return error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}..."

    def _ended(self) -> None:
        self._running = None
        if not self._stopping:
            self._tell(wire.Crashed(what=_CRASHED))


class _Running:
    """All that belongs to one run of Chromium."""

    def __init__(
        self, setup: Setup, tabs: Tabs, activity: Activity, tell: Callable[[wire.Reply], None]
    ) -> None:
        self.tabs = tabs
        self.activity = activity
        self.acting = Acting(
            tabs, load_limit=setup.load_limit, workspace=setup.workspace, coordinates=setup.coordinates
        )
        self.casting = Casting(tabs, tell)
        tabs.changed = self.casting.follow
        self._limit = setup.tree_limit
        self._observers: dict[Page, PageObserver] = {}

    async def observer(self, page: Page) -> PageObserver:
        """What looks at a page."""
        for gone in [known for known in self._observers if known.is_closed()]:
            del self._observers[gone]
        if page not in self._observers:
            self._observers[page] = PageObserver(page, await self.tabs.session(page), limit=self._limit)
        return self._observers[page]

    async def look(self, asked: wire.BrowserStep) -> PageSnapshot:
        """See the active page; one that does not answer at all is given up."""
        page = await self.tabs.ensure()
        try:
            return await (await self.observer(page)).look(as_text=asked.as_text, raw=asked.raw)
        except TimeoutError:
            await self.tabs.replace(page, f"{page.url[:200]} does not answer, and was closed.")
            raise

    def take_downloads(self) -> list[Download]:
        """Downloads that have begun since the last time."""
        begun, self.tabs.downloads[:] = list(self.tabs.downloads), []
        return begun


def _seen(
    asked: wire.BrowserStep,
    running: _Running,
    sight: PageSnapshot,
    error: str,
    downloads: list[wire.Download],
    path: str | None,
) -> wire.Seen:
    tabs = running.tabs
    return wire.Seen(
        id=asked.id,
        url=tabs.page.url,
        open_pages_urls=[page.url for page in tabs.pages],
        active_page_index=tabs.active_index,
        focused_element_bid=sight.focused,
        screenshot=sight.screenshot,
        set_of_marks=sight.set_of_marks,
        screenshot_path=path,
        error=error,
        text=sight.text,
        tree=sight.tree,
        axtree=sight.axtree,
        properties=sight.properties,
        messages=running.acting.take_messages(),
        dialogs=tabs.take_dialogs(),
        downloads=downloads,
    )


def _only_waits(actions: str, coordinates: bool) -> bool:
    """Whether nothing was done that a page could still be busy with."""
    try:
        return all(call.name == "noop" for call in parse(actions, coordinates=coordinates))
    except BadCall:
        return True


async def _title(page: Page) -> str:
    with contextlib.suppress(PlaywrightError, TimeoutError):
        async with asyncio.timeout(1):
            return await page.title()
    return ""


#: How long requests are waited for; a page may keep one open for ever.
_DATA_LIMIT = 1.0
_DOCUMENT_LIMIT = 3.0
_AWAITED = frozenset({"document", "xhr", "fetch", "script"})


class Activity:
    """What pages ask the network for."""

    def __init__(self, context: BrowserContext) -> None:
        self._running: set[Request] = set()
        self._changed = asyncio.Event()
        self._last = time.monotonic()
        context.on("request", self._begun)
        context.on("requestfinished", self._ended)
        context.on("requestfailed", self._ended)

    async def settle(self, quiet: float) -> None:
        """Wait until all was answered and nothing was asked for that long; no longer than the limits say."""
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


async def loaded(page: Page) -> None:
    """Wait until the documents of a page are there, if that does not take too long."""
    for frame in page.frames:
        try:
            await frame.wait_for_load_state("domcontentloaded", timeout=_DOCUMENT_LIMIT * 1000)
        except PlaywrightError:
            return


#: The next picture is asked for when this long has passed.
_INTERVAL = 0.1
_QUALITY = 60


class Casting:
    """A screencast that follows the active page."""

    def __init__(self, tabs: Tabs, show: Callable[[wire.Frame], None]) -> None:
        self._tabs = tabs
        self._show = show
        self._wanted = False
        self._session: CDPSession | None = None
        self._listening: set[CDPSession] = set()
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def want(self, on: bool) -> None:
        self._wanted = on
        self.follow()

    def follow(self) -> None:
        """The active page may be another one."""
        if self._wanted or self._session is not None:
            self._start(self._follow())

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
            session.on("Page.screencastFrame", lambda told: self._start(self._pass_on(session, told)))
        await session.send("Page.startScreencast", {"format": "jpeg", "quality": _QUALITY})

    async def _pass_on(self, session: CDPSession, told: dict[str, Any]) -> None:
        if session is self._session:
            shape = told["metadata"]
            self._show(
                wire.Frame(
                    image=base64.b64decode(told["data"]),
                    url=self._tabs.page.url,
                    width=int(shape["deviceWidth"]),
                    height=int(shape["deviceHeight"]),
                )
            )
        await asyncio.sleep(_INTERVAL)
        with contextlib.suppress(PlaywrightError):
            await session.send("Page.screencastFrameAck", {"sessionId": told["sessionId"]})

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


#: How much of what Chromium printed is shown to people.
_LINES = 10
#: All pages share it: any page that takes longer is left as it is then.
_ACTION_LIMIT = 100_000


class NoChromium(Exception):
    """Chromium could not be started; the text says what to do."""


class Chromium:
    """Playwright and one Chromium with its own profile."""

    def __init__(self, setup: Setup, ended: Callable[[], None]) -> None:
        self._setup = setup
        self._ended = ended
        self._playwright: Playwright | None = None
        self._context: BrowserContext | None = None
        self.version = ""
        self.pid = 0

    async def start(self) -> BrowserContext:
        """Start Chromium, again if it ran before.

        Raises:
            NoChromium: it does not start.
        """
        if self._playwright is None:
            self._playwright = await async_playwright().start()
            self._playwright.selectors.set_test_id_attribute("bid")
        setup = self._setup
        executable = setup.executable or self._playwright.chromium.executable_path
        if not await asyncio.to_thread(os.path.exists, executable):
            raise NoChromium(f"There is no Chromium at {executable}. {how_to_get(sys.executable)}")
        try:
            context = await self._playwright.chromium.launch_persistent_context(
                setup.profile,
                executable_path=executable,
                headless=True,
                args=flags(setup.closed_ports),
                viewport={"width": setup.width, "height": setup.height},
                accept_downloads=True,
                downloads_path=downloads_directory(setup),
            )
        except PlaywrightError as error:
            raise NoChromium(f"Chromium at {executable} does not start: {_said(error)}") from error
        context.set_default_timeout(_ACTION_LIMIT)
        context.on("close", lambda _: self._ended())
        self._context = context
        await self._identify(context)
        return context

    async def stop(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            try:
                await context.close()
            except PlaywrightError as error:
                print(f"Chromium did not end by itself: {error}", file=sys.stderr)
        if self._playwright is not None:
            playwright, self._playwright = self._playwright, None
            await playwright.stop()

    async def _identify(self, context: BrowserContext) -> None:
        browser = context.browser
        if browser is None:
            return
        self.version = browser.version
        session = await browser.new_browser_cdp_session()
        told = await session.send("SystemInfo.getProcessInfo")
        self.pid = next(one["id"] for one in told["processInfo"] if one["type"] == "browser")
        await session.detach()


def _said(error: PlaywrightError) -> str:
    """What matters of a start that failed: what Playwright thinks, and what Chromium itself printed last."""
    first, *others = str(error).splitlines()
    printed = [line.partition("[err]")[2].strip() for line in others if "[err]" in line]
    return "\n".join([first, *printed[-_LINES:]])
