"""Serves a box: opens it, answers requests, and closes it in the right order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from glovebox.box.box import Box
from glovebox.box.events import EventLog
from glovebox.box.executor import Observer
from glovebox.box.services import Launched
from glovebox.box.startup import Startup
from glovebox.secret_environment import forbid_inspection
from glovebox.server.app import create_app
from glovebox.server.connection import bounded
from glovebox.server.logins import Logins
from glovebox.server.port import address_of
from glovebox.server.uvicorn import serve_app
from glovebox.server.viewer.server import start_viewer
from glovebox.settings import Settings

#: Gets the address, the milliseconds until the box was ready, commands that a person may want to type, and
#: what makes links for web browsers.
Announce = Callable[[str, float, list[str], Logins], None]


class Watcher(Observer, Protocol):
    """Shows a person what the box does."""

    async def follow(self, events: EventLog) -> None:
        """Follow the events until it is cancelled."""


#: What a person may paste at once, in bytes.
LONGEST_MESSAGE = 1 << 20


async def serve(
    settings: Settings,
    startup: Startup,
    announce: Announce,
    listener: socket.socket,
    launched: Launched | None = None,
    watcher: Watcher | None = None,
) -> None:
    """Serve until a signal. `launched` is the process that holds the shells, if it was started already.

    `watcher` sees every action and every event.

    Raises:
        StartupError: the box cannot be opened.
    """
    address, port = address_of(listener), listener.getsockname()[1]
    observers = () if watcher is None else (watcher,)
    async with Box(settings, startup, ports=(port,), launched=launched, observers=observers) as box:
        with startup.step("application"):
            logins = Logins()
            app = create_app(box, logins)
        with startup.step("file viewer"):
            viewer = await start_viewer(settings, port + 1, box.services.user_id)

        watching: list[asyncio.Task[None]] = []

        async def begin() -> None:
            box.begin()
            if watcher is not None:
                watching.append(asyncio.create_task(watcher.follow(box.executor.events)))
            await box.threads.run(forbid_inspection)  # only now, so that nothing waits for it

        async def close() -> None:
            for task in watching:
                task.cancel()
            await asyncio.gather(box.close(), viewer.close())

        try:
            await serve_app(
                app,
                listener,
                bounded(settings),
                longest_message=LONGEST_MESSAGE,
                announce=lambda: announce(address, startup.ready(), box.plugins.hints(), logins),
                begin=begin,
                close=close,
                leaves_requests=settings.keep_sessions,
            )
        finally:
            await close()
