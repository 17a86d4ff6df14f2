"""Shows the active page whenever it changes, to whoever watches."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable
from typing import Any

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire
from glovebox.box.browser.worker.tabs import Tabs

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
        """Begin or end."""
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
