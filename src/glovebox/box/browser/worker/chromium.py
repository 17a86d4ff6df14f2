"""Starts Chromium through Playwright, and says what to do if there is none."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from playwright.async_api import BrowserContext, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser.chromium_path import how_to_get
from glovebox.box.browser.wire import Setup
from glovebox.box.browser.worker.flags import flags
from glovebox.box.browser.worker.tabs import downloads_directory

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
