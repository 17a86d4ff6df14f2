"""uvicorn, made to wait for its end instead of asking for it ten times a second."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from types import FrameType
from typing import Any, cast

from starlette.types import ASGIApp

from glovebox.server.connection import ConnectionLimits, bounded
from glovebox.server.lazy_uvicorn import Config, Server

#: Clients keep connections for whole conversations; closing an idle one under them costs a failed call.
KEEP_ALIVE_SECONDS = 600
#: uvicorn counts in tenths of a second, and renews the date of its answers whenever ten have passed.
_TICKS = 10


def _websocket(**parts: Any) -> asyncio.Protocol:
    """The protocol of a WebSocket. The library is loaded with the first one: most boxes never see any."""
    from glovebox.server.websocket import WebSocketConnection

    return WebSocketConnection(**parts)


def server_config(
    app: ASGIApp, limits: ConnectionLimits, *, longest_message: int, grace_seconds: int
) -> Config:
    """How an application is served.

    `longest_message`: of a WebSocket, in bytes. `grace_seconds`: how long answers may still be written once
    what is served has ended.
    """
    return Config(
        app,
        http=bounded(limits),
        ws=cast("type[asyncio.Protocol]", _websocket),
        ws_max_size=longest_message,
        ws_per_message_deflate=False,  # costs more than it saves on terminal output
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=grace_seconds,
    )


class QuietServer(Server):
    """A server that sleeps until there is something to do, and leaves signals to whoever wants them."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal; a second interrupt does not wait for requests to end."""
        super().handle_exit(sig, frame)
        self._stopping.set()

    async def main_loop(self) -> None:
        """Serve until told to stop."""
        while not await self.on_tick(_TICKS):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end; then close connections too that were accepted while everything was closing."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class SignalledServer(QuietServer):
    """A server that stops on a signal, which is not raised again: there is more to close than the server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listen to signals while serving."""
        loop = asyncio.get_running_loop()
        stops = (signal.SIGINT, signal.SIGTERM)
        for stop in stops:
            loop.add_signal_handler(stop, self.handle_exit, stop, None)
        try:
            yield
        finally:
            for stop in stops:
                loop.remove_signal_handler(stop)
