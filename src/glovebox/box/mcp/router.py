"""All MCP servers of a box as one: one list of tools, and each call goes to the server of its tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from glovebox.box.mcp.config import McpOptions, RemoteServer, Server
from glovebox.box.mcp.upstream import Unavailable, Upstream
from glovebox.box.services import Keeper
from glovebox.box.supervised import spawn
from glovebox.box.threads import Threads
from glovebox.errors import NoSuchMcpServer, UnknownTool

if TYPE_CHECKING:
    import mcp_types
    from mcp.shared.dispatcher import ProgressFnT

    from glovebox.protocol.tools.base import Tool

Source = Literal["posted", "file"]


class ListedServer(NamedTuple):
    """A server, and which list it is from."""

    server: Server
    source: Source


class Router:
    """Keeps the servers of a list ready, and finds the server of a tool."""

    def __init__(self, *, keeper: Callable[[], Keeper], threads: Threads, options: McpOptions) -> None:
        self.threads = threads
        self._keeper = keeper
        self._options = options
        self._upstreams: dict[str, Upstream] = {}
        self._listeners: list[Callable[[], None]] = []
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def mounted(self) -> bool:
        """Whether there is any server."""
        return bool(self._upstreams)

    @property
    def upstreams(self) -> list[Upstream]:
        """The servers, in their order."""
        return list(self._upstreams.values())

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` when tools may have changed."""
        self._listeners.append(changed)

    def forget_listeners(self) -> None:
        self._listeners.clear()

    def upstream(self, name: str) -> Upstream:
        """The server of a name.

        Raises:
            NoSuchMcpServer: there is none.
        """
        if name not in self._upstreams:
            raise NoSuchMcpServer(f"There is no MCP server {name!r}.")
        return self._upstreams[name]

    def update(self, servers: Sequence[ListedServer]) -> None:
        """Replace the list of servers. Those that stay the same keep running, with their calls."""
        before, self._upstreams = self._upstreams, {}
        wanted = {listed.server.name: listed for listed in servers}
        stay = {
            name for name, listed in wanted.items() if name in before and before[name].server == listed.server
        }
        for name, upstream in before.items():
            if name not in stay:
                self._end(upstream)
        for name, listed in wanted.items():
            if name in stay:
                before[name].source = listed.source
            self._upstreams[name] = before[name] if name in stay else self._begin(listed)
        self._changed()

    def place(self, name: str) -> Place | None:
        """The tool of a name, among those that are known now."""
        return find(name, self._tool_names())

    async def knows(self, name: str) -> bool:
        """Whether a name is that of a tool. Waits for servers that start only if it is not known."""
        await self._known(name)
        down = self._down(name)
        return self.place(name) is not None or (down is not None and name.startswith(f"{down.name}_"))

    async def sdk_tools(self) -> list[tuple[str, mcp_types.Tool]]:
        """All tools with their public names, once every server has listed its own or failed."""
        await self._all_known()
        by_server = {name: {tool.name: tool for tool in one.tools} for name, one in self._upstreams.items()}
        names = public_names({server: list(own) for server, own in by_server.items()})
        return [(name, by_server[place.server][place.tool]) for name, place in names.items()]

    async def tools(self, taken: Collection[str] = ()) -> list[Tool]:
        """All tools in the box's own format. If a name is taken, that of the server is put before it."""
        from glovebox.protocol.tools.base import Tool

        if not self.mounted:
            return []
        found = []
        for public, tool in await self.sdk_tools():
            name = public
            if name in taken and (place := self.place(name)):
                name = f"{place.server}_{place.tool}"
            if name in taken:
                continue
            hints = tool.annotations
            found.append(
                Tool(
                    name=name,
                    description=tool.description or tool.title or "",
                    input_schema=tool.input_schema,
                    title=tool.title or "",
                    read_only=bool(hints and hints.read_only_hint),
                    destructive=not (hints and hints.destructive_hint is False),
                    idempotent=bool(hints and hints.idempotent_hint),
                    open_world=not (hints and hints.open_world_hint is False),
                )
            )
        return found

    def missing(self) -> list[str]:
        """Why some servers cannot be called."""
        return [one.unavailable() for one in self.upstreams if not one.ready]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        limit: float | None = None,
        progress: ProgressFnT | None = None,
    ) -> mcp_types.CallToolResult:
        """Call a tool.

        Raises:
            UnknownTool: no server has it.
            MCPError: the server answered with an error.
            Unavailable: the server cannot be called.
            TimeoutError: it took too long.
        """
        await self._known(name)
        place = self.place(name)
        if place is None:
            if down := self._down(name):
                raise Unavailable(down.unavailable())
            raise UnknownTool(_describe_unknown(name, public_names(self._tool_names())))
        upstream = self._upstreams[place.server]
        own = upstream.server.timeout if isinstance(upstream.server, RemoteServer) else None
        async with asyncio.timeout(limit if limit is not None else own):
            return await upstream.call(place.tool, arguments, progress)

    def limit_of(self, name: str) -> float | None:
        """Seconds that a call of a tool may take, if its server has a limit."""
        place = self.place(name)
        server = self._upstreams[place.server].server if place else None
        return server.timeout if isinstance(server, RemoteServer) else None

    async def close(self) -> None:
        upstreams, self._upstreams = self.upstreams, {}
        for upstream in upstreams:
            self._end(upstream)
        await asyncio.gather(*self._ending)

    def _down(self, name: str) -> Upstream | None:
        """The server that most likely has a tool of that name, if it cannot be called."""
        alone = len(self._upstreams) == 1
        for upstream in self._upstreams.values():
            if not upstream.ready and (alone or name.startswith(f"{upstream.name}_")):
                return upstream
        return None

    def _tool_names(self) -> dict[str, list[str]]:
        return {name: [tool.name for tool in one.tools] for name, one in self._upstreams.items()}

    async def _all_known(self) -> None:
        """Wait until every server was ready once, or has failed."""
        await asyncio.gather(*(upstream.known.wait() for upstream in self.upstreams))

    async def _known(self, name: str) -> None:
        """Wait until the tool of a name is known: no longer than its own server needs, if it has one."""
        own = [upstream for upstream in self.upstreams if name.startswith(f"{upstream.name}_")]
        if name not in public_names(self._tool_names()):
            await asyncio.gather(*(upstream.settled.wait() for upstream in own))
        if name not in public_names(self._tool_names()):
            await self._all_known()

    def _begin(self, listed: ListedServer) -> Upstream:
        earlier = [task for task in self._ending if task.get_name() == listed.server.name]
        return Upstream(
            listed.server, listed.source, keeper=self._keeper(), threads=self.threads,
            options=self._options, changed=self._changed, after=earlier,
        )  # fmt: skip

    def _end(self, upstream: Upstream) -> None:
        spawn(self._ending, upstream.close(), name=upstream.name)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()


class Place(NamedTuple):
    """A tool of a server, by the names that both have for themselves."""

    server: str
    tool: str


def public_names(tools: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """The tools of each server by the names that clients see.

    As the contract has it: one server's tools keep their names, those of several begin with its name.
    """
    alone = len(tools) == 1
    names: dict[str, Place] = {}
    for server, own in tools.items():
        for tool in own:
            names.setdefault(tool if alone else f"{server}_{tool}", Place(server, tool))
    return names


def find(name: str, tools: Mapping[str, Sequence[str]]) -> Place | None:
    """The tool of a name, also of one that it had while there were more servers, or fewer."""
    if place := public_names(tools).get(name):
        return place
    places = [Place(server, tool) for server, own in tools.items() for tool in own]
    for place in places:
        if name == f"{place.server}_{place.tool}":
            return place
    same = [place for place in places if place.tool == name]
    return same[0] if len(same) == 1 else None


def _describe_unknown(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Unknown tool: {name}" + (f". Did you mean {near[0]}?" if near else "")


_KNOWN: dict[str, tuple[str, ...]] = {
    "text": ("type", "text", "annotations", "meta"),
    "image": ("type", "data", "mimeType", "annotations", "meta"),
    "audio": ("type", "data", "mimeType", "annotations", "meta"),
    "resource": ("type", "resource", "annotations", "meta"),
    "resource_link": (
        "name", "title", "uri", "description", "mimeType", "size", "annotations", "meta", "type",
    ),
}  # fmt: skip


def result_json(result: dict[str, Any]) -> str:
    """A result of the SDK as the contract's observation has it: each field, null where there is none."""
    return _json(
        {
            "meta": result.get("_meta"),
            "content": [_block(block) for block in result.get("content", [])],
            "structuredContent": result.get("structuredContent"),
            "isError": bool(result.get("isError")),
        }
    )


def failure_json(text: str) -> str:
    """The same for a call without a result."""
    return _json({"isError": True, "error": text, "content": []})


def _json(value: dict[str, Any]) -> str:
    import json

    return json.dumps(value)  # spaced and escaped as the contract's observations are


def _block(block: dict[str, Any]) -> dict[str, Any]:
    given = {("meta" if key == "_meta" else key): value for key, value in block.items()}
    known = _KNOWN.get(given.get("type", ""), ())
    return {**{key: given.get(key) for key in known}, **given}


def describe_timeout(name: str, seconds: float | None) -> str:
    """The error of a call that took too long."""
    shown = int(seconds) if seconds is not None and float(seconds).is_integer() else seconds
    return f'Tool "{name}" timed out after {shown} seconds'
