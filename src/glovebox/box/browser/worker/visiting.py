"""Going to an address, also right after one that could not be reached."""

from __future__ import annotations

import asyncio
import contextlib

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame, Page

from glovebox.box.browser.addresses import ERROR_PAGE

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
