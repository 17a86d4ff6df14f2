"""uvicorn, which here waits for events instead of waking up ten times a second."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Any, cast

from starlette.types import ASGIApp

from glovebox import fast_start

fast_start.defer_uvicorn()

from uvicorn.config import Config  # noqa: E402
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol  # noqa: E402
from uvicorn.server import Server, ServerState  # noqa: E402

__all__ = ["STATUS_LINE", "Config", "HttpToolsProtocol", "QuietServer", "ServerState", "serve_app"]

#: Clients keep connections for whole conversations; closing an idle one under them costs a failed call.
KEEP_ALIVE_SECONDS = 600
#: How long responses may still be written once the application is closed.
GRACE_SECONDS = 5
#: uvicorn counts in tenths of a second, and renews the date of its responses whenever ten have passed.
_TICKS = 10
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class QuietServer(Server):
    """A server that sleeps until it is stopped, and handles no signals."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(_TICKS):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end; then close also connections that were accepted during the shutdown."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _AppServer(QuietServer):
    """Serves until a signal, and closes the application while it waits for requests to end.

    A request that waits for the output of a command ends because the application closes the shell.
    """

    def __init__(
        self,
        config: Config,
        announce: Callable[[], None],
        begin: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
        leaves_requests: bool,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._begin = begin
        self._close = close
        self._leaves_requests = leaves_requests

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal; a second interrupt does not wait for requests to end."""
        super().handle_exit(sig, frame)
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving. They are not raised again: there is more to close than the server."""
        loop = asyncio.get_running_loop()
        for one in _SIGNALS:
            loop.add_signal_handler(one, self.handle_exit, one, None)
        try:
            yield
        finally:
            for one in _SIGNALS:
                loop.remove_signal_handler(one)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._announce()  # first: connections that wait at the port are accepted from the next line on
        await super().startup(sockets)
        # What was loaded so far stays: examining it in every garbage collection would cost milliseconds.
        gc.freeze()
        gc.enable()
        await self._begin()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.gather(super().shutdown(sockets), self._close_app())

    async def _close_app(self) -> None:
        await self._close()
        if self._leaves_requests:
            self.force_exit = True


async def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    protocol: type[asyncio.Protocol],
    *,
    longest_message: int,
    announce: Callable[[], None],
    begin: Callable[[], Awaitable[None]],
    close: Callable[[], Awaitable[None]],
    leaves_requests: bool = False,
) -> None:
    """Serve an application until SIGINT or SIGTERM.

    `protocol` handles an HTTP connection; `longest_message` is that of a WebSocket, in bytes. `announce` is
    called right before the first connection is accepted, `begin` right after, `close` when the server stops.
    `leaves_requests`: commands go on without this server, so it does not wait for their responses.
    """
    config = Config(
        app,
        http=protocol,
        ws=cast("type[asyncio.Protocol]", _websocket),
        ws_max_size=longest_message,
        ws_per_message_deflate=False,  # costs more than it saves on terminal output
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    await _AppServer(config, announce, begin, close, leaves_requests).serve(sockets=[listener])


def _websocket(**parts: Any) -> asyncio.Protocol:
    """The protocol of a WebSocket. The library is loaded with the first one: most boxes never see any."""
    from glovebox.server.websocket import WebSocketConnection

    return WebSocketConnection(**parts)
