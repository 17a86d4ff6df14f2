"""One browser from the inside: started when needed, again after a crash, and driven step by step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from playwright.async_api import Download, Page
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire
from glovebox.box.browser.calls import BadCall, parse
from glovebox.box.browser.wire import Setup
from glovebox.box.browser.worker.acting import Acting
from glovebox.box.browser.worker.casting import Casting
from glovebox.box.browser.worker.chromium import Chromium
from glovebox.box.browser.worker.downloads import Downloads
from glovebox.box.browser.worker.observing import Observer, Sight
from glovebox.box.browser.worker.screenshots import save
from glovebox.box.browser.worker.settling import Activity, loaded
from glovebox.box.browser.worker.tabs import Tabs

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
        """Which Chromium it is."""
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
        """End Chromium."""
        self._stopping = True
        await self._chromium.stop()

    async def step(self, asked: wire.Step) -> wire.Seen:
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

    async def look(self, asked: wire.Look) -> wire.Picture:
        """How the active page looks.

        Raises:
            PlaywrightError, TimeoutError: that cannot be said.
        """
        running = await self.start()
        page = await running.tabs.ensure()
        observer = await running.observer(page)
        image = await observer.picture(asked.format)
        return wire.Picture(id=asked.id, image=image, url=page.url, title=await _title(page))

    async def survey(self, asked: wire.Survey) -> wire.Tabs:
        """Which pages are open."""
        running = await self.start()
        await running.tabs.ensure()
        pages = running.tabs.pages
        titles = await asyncio.gather(*map(_title, pages))
        return wire.Tabs(
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
        self._observers: dict[Page, Observer] = {}

    async def observer(self, page: Page) -> Observer:
        """What looks at a page."""
        for gone in [known for known in self._observers if known.is_closed()]:
            del self._observers[gone]
        if page not in self._observers:
            self._observers[page] = Observer(page, await self.tabs.session(page), limit=self._limit)
        return self._observers[page]

    async def look(self, asked: wire.Step) -> Sight:
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
    asked: wire.Step,
    running: _Running,
    sight: Sight,
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
