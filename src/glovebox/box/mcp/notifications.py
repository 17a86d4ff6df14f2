"""Tells the clients of an MCP server that its lists have changed, in the way each of them understands."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

_LIMIT = 5.0


class ChangingServer(Server[Any]):
    """One whose transports say, without being told to, that the list of tools may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Audience:
    """Who has a list. Older clients are told by a notification, newer ones on the stream they opened."""

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._bus = InMemorySubscriptionBus()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Serves `subscriptions/listen`.
        self.listening = ListenHandler(self._bus)

    def listed(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Whoever asks this has just been given a list, and wants to know when it changes.

        Before that, there is nothing of theirs that could be out of date; and simple clients take whatever
        comes next for the answer to their first question.
        """
        if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            # The SDK hands out the connection only through the session of a request.
            self._connections.add(ctx.session._connection)

    def tools_changed(self) -> None:
        """Tell everyone that there may be other tools."""
        task = asyncio.create_task(self._tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        await self._bus.publish(ToolsListChanged())
        await asyncio.gather(*map(_tell, list(self._connections)))

    def close(self) -> None:
        self.listening.close()


async def _tell(connection: Connection) -> None:
    # Whoever does not read, or is gone, misses it.
    with contextlib.suppress(TimeoutError, MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with asyncio.timeout(_LIMIT):
            await connection.send_tool_list_changed()
