"""A browser in a thread of its own, so that tests can block without blocking its pages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psutil
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, Playwright, sync_playwright

from tests.support.chromium import CHROMIUM, FLAGS
from tests.support.waiting import LIMIT

T = TypeVar("T")
SIZE = (1280, 800)
#: Names of other machines are not resolved.
LOOPBACK_ONLY = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


class Browser:
    """A headless Chromium; one profile for all its pages."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "browser")
        self._playwright: Playwright
        self._chromium: Chromium
        self._context: BrowserContext
        self.pid = 0

    def run(self, work: Callable[[], T]) -> T:
        """Run a function in the browser's thread: Playwright may be used in one thread only."""
        return self._thread.submit(work).result()

    def start(self) -> None:
        """Start the browser."""
        self.run(self._start)

    def _start(self) -> None:
        self._playwright = sync_playwright().start()
        before = _chromiums()
        self._chromium = self._playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS, LOOPBACK_ONLY]
        )
        (self.pid,) = _chromiums() - before
        width, height = SIZE
        self._context = self._chromium.new_context(viewport={"width": width, "height": height})
        self._context.set_default_timeout(1000 * LIMIT)

    def page(self) -> Page:
        """Open a tab."""
        return self.run(self._context.new_page)

    def kill(self) -> None:
        """Kill all its processes."""
        process = psutil.Process(self.pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs([process], 10)

    def stop(self) -> None:
        """Stop the browser."""
        self.run(self._stop)
        self._thread.shutdown()

    def _stop(self) -> None:
        self._chromium.close()
        self._playwright.stop()


def _chromiums() -> set[int]:
    """The main processes of the browsers that this process has started."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            arguments = process.cmdline()
            if any(a.startswith("--remote-debugging") for a in arguments) and not any(
                a.startswith("--type=") for a in arguments
            ):
                found.add(process.pid)
    return found


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """Start a browser, and stop it at the end."""
    browser = Browser()
    browser.start()
    try:
        yield browser
    finally:
        browser.stop()
