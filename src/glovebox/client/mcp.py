"""The MCP servers of an agent: programs in its box, and remote servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from glovebox.errors import BadAnswer
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message

if TYPE_CHECKING:
    from glovebox.client.runtime import Runtime

log = logging.getLogger(__name__)

_LIMIT = 60.0


class StdioServerConfig(Message):
    """A program that the box starts."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    #: Its environment, mostly secrets.
    env: dict[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"StdioServer(name={self.name!r}, command={self.command!r})"


class RemoteServerConfig(Message):
    """A server that the agent connects to."""

    url: str
    api_key: str | None = None
    #: The limit of a call in seconds, if the transport has one.
    timeout: float | None = None

    def __repr__(self) -> str:
        return f"RemoteServer({self.url.partition('?')[0]!r})"


class McpConfig(Message):
    """All MCP servers of an agent, by transport."""

    stdio_servers: tuple[StdioServerConfig, ...] = ()
    sse_servers: tuple[RemoteServerConfig, ...] = ()
    shttp_servers: tuple[RemoteServerConfig, ...] = ()


class _Update(Message):
    router_error_log: str = ""


class StartedServers:
    """The programs that a box runs as MCP servers."""

    def __init__(self, box: Runtime, config: McpConfig | None = None) -> None:
        self._box = box
        self._config = config or McpConfig()
        self._posted: tuple[StdioServerConfig, ...] = ()
        self._posting = asyncio.Lock()

    async def get_mcp_config(self, extra_stdio_servers: Iterable[StdioServerConfig] = ()) -> McpConfig:
        """The servers an agent connects to: remote ones, and the box for all programs together.

        New programs are sent to the box. Those it has stay, unless one of the same name replaces them.

        Raises:
            GloveboxError: the box did not accept the list.
        """
        wanted = {server.name: server for server in (*self._config.stdio_servers, *extra_stdio_servers)}
        async with self._posting:
            if any(server not in self._posted for server in wanted.values()):
                known = (server for server in self._posted if server.name not in wanted)
                await self._post((*wanted.values(), *known))
            posted = self._posted
        if not posted:
            return self._config
        address = f"{self._box.url.rstrip('/')}/mcp/sse"
        box = RemoteServerConfig(url=address, api_key=self._box.session_api_key or None)
        return msgspec.structs.replace(self._config, sse_servers=(*self._config.sse_servers, box))

    async def _post(self, servers: tuple[StdioServerConfig, ...]) -> None:
        body = msgspec.json.encode(sorted(servers, key=lambda server: server.name))
        answer = await self._box.call("POST", "/update_mcp_server", body=body, limit=_LIMIT)
        try:
            update = decode_json(answer, _Update)
        except msgspec.DecodeError as error:
            raise BadAnswer(f"The box did not say what became of its MCP servers: {error}") from error
        self._posted = servers
        if update.router_error_log:
            log.warning("Some MCP servers failed to be added: %s", update.router_error_log)
