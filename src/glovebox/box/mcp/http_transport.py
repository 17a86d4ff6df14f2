"""An MCP server over HTTP: server-sent events as the contract has them, and streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send


class Delegated(Response):
    """A response that another application gives."""

    def __init__(self, application: ASGIApp) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


class Served:
    """A server of the SDK, open until it is closed. Every client has a session of its own."""

    def __init__(
        self,
        server: Server[Any],
        *,
        close: Callable[[], None],
        largest_body: int,
        messages: tuple[str, ...] = (),
    ) -> None:
        """`close` ends what the server has under way; to `messages` clients of server-sent events post."""
        self._server = server
        self._close = close
        self._manager = StreamableHTTPSessionManager(server, max_request_body_size=largest_body)
        self._transports = {
            path: SseServerTransport(path, max_request_body_size=largest_body) for path in messages
        }
        self._closing = asyncio.Event()
        self._open = asyncio.Event()
        self._sessions: set[asyncio.Task[None]] = set()
        self._managing = asyncio.create_task(self._manage())

    async def streamable(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._open.wait()
        await self._until_closed(lambda: self._manager.handle_request(scope, receive, send))

    def events(self, messages: str) -> ASGIApp:
        """Application: the stream of a client that posts to that path."""
        transport = self._transports[messages]

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await self._until_closed(lambda: self._follow(transport, scope, receive, send))

        return application

    def posts(self, messages: str) -> ASGIApp:
        """Application: takes the messages of these clients."""
        return self._transports[messages].handle_post_message

    async def close(self) -> None:
        self._close()
        self._closing.set()
        for session in list(self._sessions):
            session.cancel()
        await asyncio.gather(self._managing, *self._sessions, return_exceptions=True)

    async def _follow(
        self, transport: SseServerTransport, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with transport.connect_sse(scope, receive, send) as (read, write):
            await self._server.run(read, write, self._server.create_initialization_options())

    async def _until_closed(self, work: Callable[[], Any]) -> None:
        """Do it in a task that ends with this server: requests here may have no end of their own."""
        task = asyncio.ensure_future(work())
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if not task.cancelled():
            await task

    async def _manage(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            async with self._manager.run():
                self._open.set()
                await self._closing.wait()
