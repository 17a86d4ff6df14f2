"""The router as an MCP server: tools, prompts and resources of all servers behind it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from glovebox import __version__
from glovebox.box.mcp.http_transport import Audience, ChangingServer
from glovebox.box.mcp.router import Router, describe_timeout
from glovebox.box.mcp.transports import list_pages
from glovebox.box.mcp.upstream import Unavailable, Upstream
from glovebox.errors import UnknownTool

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

Context = ServerRequestContext[Any, Any]

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)(.*)", re.DOTALL)

T = TypeVar("T")
PageT = TypeVar("PageT", bound=types.PaginatedResult)
Ask = Callable[["ClientSession", types.PaginatedRequestParams], Awaitable[PageT]]


class RouterServer:
    """Passes requests on to the servers: `server` is what a transport serves.

    Prompts and resources are listed on request; a server that does not answer is left out.
    """

    def __init__(self, router: Router, audience: Audience, limit: float) -> None:
        """`limit`: seconds that a server may take to list its prompts or resources."""
        self._router = router
        self._audience = audience
        self._limit = limit
        self.server = ChangingServer(
            "glovebox",
            version=__version__,
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
            on_list_resources=self._resources,
            on_list_resource_templates=self._templates,
            on_read_resource=self._read,
            on_subscriptions_listen=audience.listening,
        )

    async def _tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        found = await self._router.sdk_tools()
        self._audience.add(ctx)
        return types.ListToolsResult(tools=[tool.model_copy(update={"name": name}) for name, tool in found])

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool; an error of its server is a result, too."""
        name = params.name
        with_progress = ctx.meta and ctx.meta.get("progress_token") is not None
        progress = ctx.session.report_progress if with_progress else None
        try:
            return await self._router.call(name, params.arguments or {}, progress=progress)
        except UnknownTool as error:
            text = str(error)
        except TimeoutError:
            text = describe_timeout(name, self._router.limit_of(name))
        except (MCPError, Unavailable) as error:
            text = f"Error calling tool '{name}': {error}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)

    async def _prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        found = await self._all(
            "prompts", lambda session, at: session.list_prompts(params=at), lambda page: page.prompts
        )
        prompts = [
            prompt.model_copy(update={"name": self._name(upstream, prompt.name)})
            for upstream, prompt in found
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def _prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        # The longest name first: `a_b_c` is rather `c` of `a_b` than `b_c` of `a`.
        for upstream in sorted(self._router.upstreams, key=lambda one: len(one.name), reverse=True):
            if self._alone or params.name.startswith(f"{upstream.name}_"):
                name = params.name if self._alone else params.name.removeprefix(f"{upstream.name}_")
                session = await _session(upstream)
                return await session.get_prompt(name, params.arguments)
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")

    async def _resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        found = await self._all(
            "resources", lambda session, at: session.list_resources(params=at), lambda page: page.resources
        )
        resources = [
            resource.model_copy(update={"uri": self._address(upstream, resource.uri)})
            for upstream, resource in found
        ]
        return types.ListResourcesResult(resources=resources)

    async def _templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        found = await self._all(
            "resources",
            lambda session, at: session.list_resource_templates(params=at),
            lambda page: page.resource_templates,
        )
        templates = [
            template.model_copy(update={"uri_template": self._address(upstream, template.uri_template)})
            for upstream, template in found
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        for upstream in self._router.upstreams:
            uri = params.uri if self._alone else _without(upstream.name, params.uri)
            if uri is not None:
                session = await _session(upstream)
                return await session.read_resource(uri)
        raise MCPError(types.INVALID_PARAMS, f"Unknown resource: {params.uri}")

    @property
    def _alone(self) -> bool:
        return len(self._router.upstreams) == 1

    def _name(self, upstream: Upstream, name: str) -> str:
        return name if self._alone else f"{upstream.name}_{name}"

    def _address(self, upstream: Upstream, uri: str) -> str:
        """With several servers, the name of each begins the path: `docs://one/guide`."""
        parts = _URI.match(uri)
        return uri if self._alone or parts is None else f"{parts[1]}{upstream.name}/{parts[2]}"

    async def _all(
        self, kind: str, ask: Ask[PageT], items: Callable[[PageT], Sequence[T]]
    ) -> list[tuple[Upstream, T]]:
        """The prompts or resources of all servers: `ask` gets a page of one server, with these `items`."""
        upstreams = self._router.upstreams
        await asyncio.gather(*(upstream.known.wait() for upstream in upstreams))
        pages = await asyncio.gather(*(self._pages(upstream, kind, ask) for upstream in upstreams))
        return [
            (upstream, item)
            for upstream, own in zip(upstreams, pages, strict=True)
            for page in own
            for item in items(page)
        ]

    async def _pages(self, upstream: Upstream, kind: str, ask: Ask[PageT]) -> list[PageT]:
        pages: list[PageT] = []
        if not upstream.ready:
            return pages
        with contextlib.suppress(Unavailable, MCPError, TimeoutError, ValueError):
            session = await upstream.session()
            if getattr(session.server_capabilities, kind, None) is not None:
                async with asyncio.timeout(self._limit):
                    async for page in list_pages(lambda at: ask(session, at)):
                        pages.append(page)
        return pages


async def _session(upstream: Upstream) -> ClientSession:
    try:
        return await upstream.session()
    except Unavailable as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error


def _without(server: str, uri: str) -> str | None:
    """The address as that server knows it; None if it is another server's."""
    parts = _URI.match(uri)
    if parts is None or not parts[2].startswith(f"{server}/"):
        return None
    return parts[1] + parts[2].removeprefix(f"{server}/")
