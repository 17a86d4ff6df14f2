"""Waits until a page has done what an action made it do: no longer than needed, and never for ever."""

from __future__ import annotations

import asyncio
import time

from playwright.async_api import BrowserContext, Page, Request
from playwright.async_api import Error as PlaywrightError

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
