"""Serves a box: opens it, answers, and closes it in the right order."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import Awaitable, Callable

from glovebox.box.box import Box
from glovebox.box.services import Launched
from glovebox.box.startup import Startup
from glovebox.secret_environment import forbid_inspection
from glovebox.server.app import create_app
from glovebox.server.connection import ConnectionLimits
from glovebox.server.lazy_uvicorn import Config
from glovebox.server.port import address_of
from glovebox.server.uvicorn import SignalledServer, server_config
from glovebox.server.viewer.server import start_viewer
from glovebox.settings import Settings

log = logging.getLogger(__name__)

#: Hears the address, the milliseconds it took to be ready, and lines that a person may want to type.
Announce = Callable[[str, float, list[str]], None]

#: How long answers may still be written once the box is closed.
GRACE_SECONDS = 5
#: What a person may paste at once.
LONGEST_MESSAGE = 1 << 20


class _Server(SignalledServer):
    """A uvicorn that says when it listens, and closes what it serves while it waits for requests to end.

    A command that waits for output is answered because its shell is closed, not the other way round.
    """

    def __init__(
        self,
        config: Config,
        announce: Callable[[], None],
        ready: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
        *,
        leaves: bool,
    ) -> None:
        """`leaves`: commands go on without this server, so nobody waits here for their answers."""
        super().__init__(config)
        self._announce = announce
        self._ready = ready
        self._close = close
        self._leaves = leaves

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # First: whoever waits at the port already is answered from the next line on.
        self._announce()
        await super().startup(sockets)
        # What serving needs is there to stay; looking for garbage in it again and again costs milliseconds.
        gc.freeze()
        gc.enable()
        await self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.gather(super().shutdown(sockets), self._close_box())

    async def _close_box(self) -> None:
        await self._close()
        if self._leaves:
            self.force_exit = True


async def serve(
    settings: Settings,
    startup: Startup,
    announce: Announce,
    listener: socket.socket,
    launched: Launched | None = None,
) -> None:
    """Serve until told to stop, and announce when it begins. `launched` is what is to hold the shells.

    Raises:
        StartupError: the box cannot be opened.
    """
    address = address_of(listener)
    async with Box(settings, startup, ports=(listener.getsockname()[1],), launched=launched) as box:
        with startup.step("application"):
            config = server_config(
                create_app(box),
                ConnectionLimits.of(settings),
                longest_message=LONGEST_MESSAGE,
                grace_seconds=GRACE_SECONDS,
            )
        with startup.step("file viewer"):
            viewer = await start_viewer(settings, listener.getsockname()[1] + 1, box.services.user_id)

        async def begin() -> None:
            box.begin()
            await box.threads.run(forbid_inspection)  # only now: nothing is to wait for it

        async def close() -> None:
            await asyncio.gather(box.close(), viewer.close())

        try:
            server = _Server(
                config,
                lambda: announce(address, startup.ready(), box.plugins.hints()),
                begin,
                close,
                leaves=settings.keep_sessions,
            )
            await server.serve(sockets=[listener])
        finally:
            await close()
