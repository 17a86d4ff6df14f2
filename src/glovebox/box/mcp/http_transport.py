"""An MCP server over HTTP: server-sent events as the contract has them, and streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.box.supervised import spawn


class HttpServer:
    """A server of the SDK on HTTP. Every client has a session of its own."""

    def __init__(
        self,
        server: Server[Any],
        *,
        close: Callable[[], None],
        largest_body: int,
        messages: tuple[str, ...] = (),
    ) -> None:
        """`close` ends the work of the server. Clients of server-sent events post to `messages`."""
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
        await self._until_closed(self._manager.handle_request(scope, receive, send))

    def events(self, messages: str) -> ASGIApp:
        """Application: the stream of a client that posts to that path."""
        transport = self._transports[messages]

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await self._until_closed(self._follow(transport, scope, receive, send))

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

    async def _until_closed(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it in a task that ends with this server: requests may have no end of their own."""
        task = spawn(self._sessions, work)
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


_LIMIT = 5.0


class ChangingServer(Server[Any]):
    """A server whose transports always announce that the list of tools may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Audience:
    """Clients that have listed tools. Older ones get a notification, newer ones an event on their stream."""

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._bus = InMemorySubscriptionBus()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Serves `subscriptions/listen`.
        self.listening = ListenHandler(self._bus)

    def add(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Notify this client of changes from now on; it has just listed the tools.

        Not before: it has nothing that could be out of date, and simple clients take the next message for
        the reply to their first request.
        """
        if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            # The SDK hands out the connection only through the session of a request.
            self._connections.add(ctx.session._connection)

    def tools_changed(self) -> None:
        spawn(self._tasks, self._notify())

    async def _notify(self) -> None:
        await self._bus.publish(ToolsListChanged())
        await asyncio.gather(*map(_notify, list(self._connections)))

    def close(self) -> None:
        self.listening.close()


async def _notify(connection: Connection) -> None:
    # A client that does not read, or is gone, misses it.
    with contextlib.suppress(TimeoutError, MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with asyncio.timeout(_LIMIT):
            await connection.send_tool_list_changed()
