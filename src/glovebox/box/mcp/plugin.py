"""MCP as a plugin: a router to MCP servers, and the box itself as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from glovebox.box.executor import Call, Handler
from glovebox.box.mcp import config
from glovebox.box.mcp.config import McpOptions, Server, parse_servers
from glovebox.box.mcp.endpoints import STREAMS, mcp_endpoints
from glovebox.box.mcp.router import ListedServer, Router, describe_timeout, failure_json, result_json
from glovebox.box.mcp.transports import PROCESS_PREFIX, load_sdk, process_name
from glovebox.box.mcp.upstream import Unavailable
from glovebox.box.plugin import Context, Plugin
from glovebox.box.supervised import Supervised, end_unknown
from glovebox.errors import SettingsError, UnknownTool, UnsupportedAction
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.actions import MCPAction
from glovebox.protocol.observations import MCPObservation
from glovebox.protocol.status import McpServers

if TYPE_CHECKING:
    from glovebox.box.mcp.http_transport import HttpServer


class McpPlugin(Plugin):
    """Brings the tools of MCP servers into the box. The SDK is loaded when it is first needed."""

    name = "mcp"
    needs = ("terminal",)
    options = McpOptions
    starts = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options(McpOptions)
        self.router = Router(keeper=lambda: context.keeper, threads=context.threads, options=self._options)
        context.services.routed = self.router
        self._posted: list[Server] = []
        self._config = config.ConfigFile()
        self._profile = ""
        #: The router and the box itself as MCP servers.
        self.router_server = Supervised(self._serve_router)
        self.box_server = Supervised(self._serve_box)

    def handlers(self) -> Iterable[Handler]:
        return [self.call_tool_mcp]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        return mcp_endpoints(self)

    def gauges(self) -> Mapping[str, float]:
        upstreams = self.router.upstreams
        return {"mcp_servers": len(upstreams), "mcp_servers_ready": sum(one.ready for one in upstreams)}

    async def start(self) -> None:
        """Start the servers of the configuration, and those that were posted to an earlier server."""
        if self._options.config:
            self._config = await self.context.threads.run(config.load, self._options.config)
        self._profile = self._options.profile or self._config.profile
        if self._profile and self._profile not in self._config.profiles:
            known = ", ".join(self._config.profiles) or "none"
            raise SettingsError(f"There is no profile {self._profile!r} of MCP servers. Profiles: {known}.")
        if file := self._file():
            self._posted = await self.context.threads.run(config.read, file)
        self._apply()
        on_list = {process_name(upstream.name) for upstream in self.router.upstreams}
        await end_unknown(self.context.keeper, PROCESS_PREFIX, on_list)

    async def stop(self) -> None:
        """End all sessions and servers."""
        self.router.forget_listeners()
        for supervised in (self.router_server, self.box_server):
            await supervised.stop()
            served, supervised.current = supervised.current, None
            if served is not None:
                await served.close()
        await self.router.close()

    async def health(self) -> dict[str, Any]:
        infos = [upstream.info() for upstream in self.router.upstreams]
        return {"servers": {info.name: info.state for info in infos}}

    async def call_tool_mcp(self, action: MCPAction, call: Call) -> MCPObservation:
        """Call a tool of a server."""
        if not self.router.mounted:
            # The contract's words, which its clients show to people.
            raise UnsupportedAction("'ActionExecutor' object has no attribute 'call_tool_mcp'")
        await self.context.threads.run(load_sdk)
        from mcp.shared.exceptions import MCPError

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if message:
                call.output(message if message.endswith("\n") else f"{message}\n")

        try:
            result = await self.router.call(
                action.name, action.arguments, limit=action.timeout, progress=tell
            )
            content = result_json(result.model_dump(by_alias=True, mode="json", exclude_none=True))
        except UnknownTool as error:
            text = f"No matching MCP agent found for tool name: {action.name}"
            raise UnknownTool(f"{text}. {error}") from error
        except TimeoutError:
            limit = action.timeout or self.router.limit_of(action.name)
            content = failure_json(describe_timeout(action.name, limit))
        except (MCPError, Unavailable) as error:
            content = failure_json(str(error))
        return MCPObservation(content=content, name=action.name, arguments=action.arguments)

    async def post(self, posted: list[Any]) -> None:
        """Replace the posted servers by a list, as the contract's clients post it.

        Raises:
            RequestError: an entry breaks a rule.
        """
        await self._replace(list(parse_servers(posted)))

    async def put(self, given: Any) -> None:
        """Replace the posted servers by those of a configuration.

        Raises:
            BadMcpConfig: it breaks a rule.
        """
        await self._replace(list(config.parse(given).servers.values()))

    async def use(self, profile: str) -> None:
        """Use the servers of another profile; with none, all of the configuration.

        Raises:
            NoSuchMcpProfile: there is no such profile.
        """
        self._config.select(profile)
        self._profile = profile
        self._apply()

    def report(self) -> McpServers:
        return McpServers(
            servers=[upstream.info() for upstream in self.router.upstreams],
            profile=self._profile,
            profiles=self._config.profiles,
        )

    async def _serve_box(self) -> HttpServer:
        await self.context.threads.run(load_sdk)
        from glovebox.box.mcp.http_transport import HttpServer
        from glovebox.box.mcp.server.server import BoxServer

        own = BoxServer(self.context.toolbox, self.context.services)
        self.router.listen(own.tools_changed)
        return HttpServer(own.server, close=own.close, largest_body=self.context.settings.max_body_size)

    async def _serve_router(self) -> HttpServer:
        await self.context.threads.run(load_sdk)
        from glovebox.box.mcp.http_transport import Audience, HttpServer
        from glovebox.box.mcp.router_server import RouterServer

        audience = Audience()
        self.router.listen(audience.tools_changed)
        return HttpServer(
            RouterServer(self.router, audience, self._options.start_limit).server,
            close=audience.close,
            largest_body=self.context.settings.max_body_size,
            messages=tuple(STREAMS.values()),
        )

    async def _replace(self, servers: list[Server]) -> None:
        self._posted = servers
        self._apply()
        if file := self._file():
            await self.context.threads.run(config.write, file, servers)

    def _apply(self) -> None:
        """Put the list together; a posted server replaces one of the configuration with the same name."""
        posted = {server.name for server in self._posted}
        chosen = [one for one in self._config.select(self._profile) if one.name not in posted]
        self.router.update(
            [
                *(ListedServer(one, "file") for one in chosen),
                *(ListedServer(one, "posted") for one in self._posted),
            ]
        )

    def _file(self) -> str | None:
        return self.context.keeper.state_file("mcp-servers")
