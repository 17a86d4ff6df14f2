"""A window as a box, opened when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp

from glovebox.box.box import Box
from glovebox.box.startup import Startup
from glovebox.hub.hands import Hands
from glovebox.hub.window.plugin import WindowPlugin
from glovebox.server.app import create_app
from glovebox.settings import Settings


class WindowBox:
    """The box of one window."""

    def __init__(self, hands: Hands, settings: Callable[[], Settings], turns: asyncio.Lock) -> None:
        """`turns`: opening one takes time, so they take turns, and others are heard in between."""
        self._hands = hands
        self._settings = settings
        self._turns = turns
        self._opening: asyncio.Task[tuple[Box, ASGIApp]] | None = None

    async def app(self) -> ASGIApp:
        """What serves it."""
        failed = self._opening is not None and self._opening.done() and self._opening.exception() is not None
        if self._opening is None or failed:
            self._opening = asyncio.create_task(self._open())
        return (await asyncio.shield(self._opening))[1]

    async def close(self) -> None:
        """End it."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
            if self._opening.exception() is None:
                await self._opening.result()[0].close()

    async def _open(self) -> tuple[Box, ASGIApp]:
        async with self._turns:
            await asyncio.sleep(0)
            return await self._opened()

    async def _opened(self) -> tuple[Box, ASGIApp]:
        startup = Startup()
        box = Box(
            self._settings(),
            startup,
            only={"window": lambda context: WindowPlugin(context, self._hands)},
        )
        await box.__aenter__()
        startup.ready()
        box.begin()
        return box, create_app(box)
