"""MCP as a plugin: a router to MCP servers, and the box itself as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Call, Handler
from glovebox.box.mcp import config, router
from glovebox.box.mcp.config import McpOptions, Server, parse_servers
from glovebox.box.mcp.endpoints import STREAMS, mcp_endpoints
from glovebox.box.mcp.router import ListedServer, RoutedTools, Router
from glovebox.box.mcp.transports import PROCESS_PREFIX, process_name
from glovebox.box.mcp.upstream import Unavailable
from glovebox.box.plugin import Context, Plugin
from glovebox.errors import SettingsError, UnknownTool, UnsupportedAction
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.actions import MCPAction
from glovebox.protocol.mcp import McpServers
from glovebox.protocol.observations import MCPObservation

if TYPE_CHECKING:
    from glovebox.box.mcp.http_transport import Served

Answers = Callable[[Request], Awaitable[Response]]


class McpPlugin(Plugin):
    """Brings the tools of MCP servers into the box. What speaks MCP is loaded when it is first needed."""

    name = "mcp"
    needs = ("terminal",)
    options = McpOptions
    starts = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options(McpOptions)
        self.router = Router(keeper=lambda: context.keeper, threads=context.threads, options=self._options)
        context.services.routed = RoutedTools(self.router)
        self._posted: list[Server] = []
        self._config = config.McpConfig()
        self._profile = ""
        self._opening = asyncio.Lock()
        self._routing: Served | None = None
        self._box: Served | None = None

    def handlers(self) -> Iterable[Handler]:
        return [self.call_tool_mcp]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        """`/update_mcp_server`, the mounts, and how servers are."""
        return mcp_endpoints(self)

    def gauges(self) -> Mapping[str, float]:
        """How many servers there are, and how many are ready."""
        upstreams = self.router.upstreams
        return {"mcp_servers": len(upstreams), "mcp_servers_ready": sum(one.ready for one in upstreams)}

    async def start(self) -> None:
        """Begin with the servers of the configuration, and those that were posted to an earlier server."""
        if self._options.config:
            self._config = await self.context.threads.run(config.load, self._options.config)
        self._profile = self._options.profile or self._config.profile
        if self._profile and self._profile not in self._config.profiles:
            known = ", ".join(self._config.profiles) or "none"
            raise SettingsError(f"There is no profile {self._profile!r} of MCP servers. Profiles: {known}.")
        if file := self._file():
            self._posted = await self.context.threads.run(config.read, file)
        self._apply()
        await self._end_unknown()

    async def stop(self) -> None:
        """End all sessions and servers."""
        served = [one for one in (self._routing, self._box) if one is not None]
        self._routing = self._box = None
        self.router.forget_listeners()
        await asyncio.gather(*(one.close() for one in served))
        await self.router.close()

    async def health(self) -> dict[str, Any]:
        """The state of each server."""
        infos = [upstream.info() for upstream in self.router.upstreams]
        return {"servers": {info.name: info.state for info in infos}}

    async def call_tool_mcp(self, action: MCPAction, call: Call) -> MCPObservation:
        """Call a tool of a server."""
        if not self.router.mounted:
            # The contract's words, which its clients show to people.
            raise UnsupportedAction("'ActionExecutor' object has no attribute 'call_tool_mcp'")
        await self._load()
        from mcp.shared.exceptions import MCPError

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if message:
                call.output(message if message.endswith("\n") else f"{message}\n")

        try:
            result = await self.router.call(
                action.name, action.arguments, limit=action.timeout, progress=tell
            )
            content = router.observed(result.model_dump(by_alias=True, mode="json", exclude_none=True))
        except UnknownTool as error:
            text = f"No matching MCP agent found for tool name: {action.name}"
            raise UnknownTool(f"{text}. {error}") from error
        except TimeoutError:
            limit = action.timeout or self.router.limit_of(action.name)
            content = router.failed(router.timed_out(action.name, limit))
        except (MCPError, Unavailable) as error:
            content = router.failed(str(error))
        return MCPObservation(content=content, name=action.name, arguments=action.arguments)

    async def post(self, posted: list[Any]) -> None:
        """Have the servers of a list that the contract's clients post.

        Raises:
            RequestError: an entry breaks a rule.
        """
        await self._replace(list(parse_servers(posted)))

    async def put(self, given: Any) -> None:
        """Have the servers of such an object as configurations are.

        Raises:
            BadMcpConfig: it breaks a rule.
        """
        await self._replace(list(config.parse(given).servers.values()))

    async def use(self, profile: str) -> None:
        """Have the servers of another profile; of none, all of the configuration.

        Raises:
            NoSuchMcpProfile: there is no such profile.
        """
        self._config.chosen(profile)
        self._profile = profile
        self._apply()

    def report(self) -> McpServers:
        return McpServers(
            servers=[upstream.info() for upstream in self.router.upstreams],
            profile=self._profile,
            profiles=self._config.profiles,
        )

    async def streamable(self, request: Request) -> Response:
        """The router over streamable HTTP."""
        return _delegated((await self._served()).streamable)

    def events(self, messages: str) -> Answers:
        """The router over server-sent events, for clients that post to that path."""

        async def answer(request: Request) -> Response:
            return _delegated((await self._served()).events(messages))

        return answer

    def posts(self, messages: str) -> Answers:
        """What takes the messages of these clients."""

        async def answer(request: Request) -> Response:
            return _delegated((await self._served()).posts(messages))

        return answer

    async def own(self, request: Request) -> Response:
        """The box itself over streamable HTTP."""
        async with self._opening:
            if self._box is None:
                await self._load()
                from glovebox.box.mcp.http_transport import Served
                from glovebox.box.mcp.server.server import BoxServer

                own = BoxServer(self.context.toolbox, self.context.services)
                self.router.listen(own.tools_changed)
                largest = self.context.settings.max_body_size
                self._box = Served(own.server, close=own.close, largest_body=largest)
        return _delegated(self._box.streamable)

    async def _served(self) -> Served:
        async with self._opening:
            if self._routing is None:
                await self._load()
                from glovebox.box.mcp.http_transport import Audience, Served
                from glovebox.box.mcp.router_server import Belongings, routing_server

                audience = Audience()
                self.router.listen(audience.tools_changed)
                others = Belongings(self.router, self._options.start_limit)
                server = routing_server(self.router, audience, others)
                self._routing = Served(
                    server,
                    close=audience.close,
                    largest_body=self.context.settings.max_body_size,
                    messages=tuple(STREAMS.values()),
                )
        return self._routing

    async def _load(self) -> None:
        from glovebox.box.mcp.transports import load_sdk

        await self.context.threads.run(load_sdk)

    async def _replace(self, servers: list[Server]) -> None:
        self._posted = servers
        self._apply()
        if file := self._file():
            await self.context.threads.run(config.write, file, servers)

    def _apply(self) -> None:
        """Put the list together: of the configuration, and of clients, who win where names are the same."""
        posted = {server.name for server in self._posted}
        chosen = [one for one in self._config.chosen(self._profile) if one.name not in posted]
        self.router.update(
            [
                *(ListedServer(one, "file") for one in chosen),
                *(ListedServer(one, "posted") for one in self._posted),
            ]
        )

    async def _end_unknown(self) -> None:
        """End programs of an earlier server that are not on the list any more."""
        known = {process_name(upstream.server.name) for upstream in self.router.upstreams}
        for name in self.context.keeper.names():
            left = self.context.keeper.kept(name)
            if name.startswith(PROCESS_PREFIX) and name not in known and left is not None:
                await left.close()

    def _file(self) -> str | None:
        return self.context.keeper.state_file("mcp-servers")


def _delegated(application: Any) -> Response:
    from glovebox.box.mcp.http_transport import Delegated

    return Delegated(application)
