"""Serves a box: opens it, answers requests, and closes it in the right order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from glovebox.box.box import Box
from glovebox.box.services import Launched
from glovebox.box.startup import Startup
from glovebox.secret_environment import forbid_inspection
from glovebox.server.app import create_app
from glovebox.server.connection import bounded
from glovebox.server.port import address_of
from glovebox.server.uvicorn import serve_app
from glovebox.server.viewer.server import start_viewer
from glovebox.settings import Settings

#: Gets the address, the milliseconds until the box was ready, and commands that a person may want to type.
Announce = Callable[[str, float, list[str]], None]

#: What a person may paste at once, in bytes.
LONGEST_MESSAGE = 1 << 20


async def serve(
    settings: Settings,
    startup: Startup,
    announce: Announce,
    listener: socket.socket,
    launched: Launched | None = None,
) -> None:
    """Serve until a signal. `launched` is the process that holds the shells, if it was started already.

    Raises:
        StartupError: the box cannot be opened.
    """
    address, port = address_of(listener), listener.getsockname()[1]
    async with Box(settings, startup, ports=(port,), launched=launched) as box:
        with startup.step("application"):
            app = create_app(box)
        with startup.step("file viewer"):
            viewer = await start_viewer(settings, port + 1, box.services.user_id)

        async def begin() -> None:
            box.begin()
            await box.threads.run(forbid_inspection)  # only now, so that nothing waits for it

        async def close() -> None:
            await asyncio.gather(box.close(), viewer.close())

        try:
            await serve_app(
                app,
                listener,
                bounded(settings),
                longest_message=LONGEST_MESSAGE,
                announce=lambda: announce(address, startup.ready(), box.plugins.hints()),
                begin=begin,
                close=close,
                leaves_requests=settings.keep_sessions,
            )
        finally:
            await close()
