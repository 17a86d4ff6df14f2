"""The router as an MCP server: what clients of the box see of the servers behind it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import mcp_types
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from glovebox import __version__
from glovebox.box.mcp.http_transport import Audience, ChangingServer
from glovebox.box.mcp.router import Router, timed_out
from glovebox.box.mcp.upstream import Unavailable, Upstream
from glovebox.errors import UnknownTool

if TYPE_CHECKING:
    from mcp.client.session import ClientSession


def routing_server(router: Router, audience: Audience, others: Belongings) -> ChangingServer:
    """A server of the SDK that passes everything on."""

    async def tools(
        ctx: ServerRequestContext[Any, Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        found = await router.tools()
        audience.listed(ctx)
        return mcp_types.ListToolsResult(
            tools=[tool.model_copy(update={"name": name}) for name, tool in found]
        )

    async def call(
        ctx: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        return await called(router, params.name, params.arguments or {}, ctx)

    return ChangingServer(
        "glovebox",
        version=__version__,
        on_list_tools=tools,
        on_call_tool=call,
        on_list_prompts=others.prompts,
        on_get_prompt=others.prompt,
        on_list_resources=others.resources,
        on_list_resource_templates=others.templates,
        on_read_resource=others.read,
        on_subscriptions_listen=audience.listening,
    )


async def called(
    router: Router, name: str, arguments: dict[str, Any], ctx: ServerRequestContext[Any, Any]
) -> mcp_types.CallToolResult:
    """The result of a call; what goes wrong with its server is a result, too."""
    asked = bool(ctx.meta and ctx.meta.get("progress_token") is not None)
    try:
        return await router.call(name, arguments, progress=ctx.session.report_progress if asked else None)
    except UnknownTool as error:
        return failed(str(error))
    except TimeoutError:
        return failed(timed_out(name, router.limit_of(name)))
    except (MCPError, Unavailable) as error:
        return failed(f"Error calling tool '{name}': {error}")


def failed(text: str) -> mcp_types.CallToolResult:
    """A result that says what went wrong."""
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=text)], is_error=True)


_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)(.*)", re.DOTALL)
_MOST_PAGES = 100

T = TypeVar("T")
PageT = TypeVar("PageT", bound=types.PaginatedResult)
Ask = Callable[["ClientSession", types.PaginatedRequestParams], Awaitable[PageT]]


class Belongings:
    """Prompts and resources of all servers."""

    def __init__(self, router: Router, limit: float) -> None:
        """`limit`: seconds that a server may take to list what it has."""
        self._router = router
        self._limit = limit

    async def prompts(self, ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListPromptsResult:
        found = await self._all(
            "prompts", lambda session, at: session.list_prompts(params=at), lambda page: page.prompts
        )
        prompts = [
            prompt.model_copy(update={"name": self._name(upstream, prompt.name)})
            for upstream, prompt in found
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def prompt(
        self, ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        # The longest name first: `a_b_c` is rather `c` of `a_b` than `b_c` of `a`.
        for upstream in sorted(self._router.upstreams, key=lambda one: len(one.name), reverse=True):
            if self._alone or params.name.startswith(f"{upstream.name}_"):
                name = params.name if self._alone else params.name.removeprefix(f"{upstream.name}_")
                session = await _session(upstream)
                return await session.get_prompt(name, params.arguments)
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")

    async def resources(self, ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListResourcesResult:
        found = await self._all(
            "resources", lambda session, at: session.list_resources(params=at), lambda page: page.resources
        )
        resources = [
            resource.model_copy(update={"uri": self._address(upstream, resource.uri)})
            for upstream, resource in found
        ]
        return types.ListResourcesResult(resources=resources)

    async def templates(
        self, ctx: ServerRequestContext[Any, Any], params: Any
    ) -> types.ListResourceTemplatesResult:
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

    async def read(
        self, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
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
        """What all servers have of a kind: `ask` gets a page of one of them, with these `items`."""
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
        cursor: str | None = None
        with contextlib.suppress(Unavailable, MCPError, TimeoutError, ValueError):
            session = await upstream.session()
            if getattr(session.server_capabilities, kind, None) is None:
                return pages
            async with asyncio.timeout(self._limit):
                while len(pages) < _MOST_PAGES:
                    pages.append(await ask(session, types.PaginatedRequestParams(cursor=cursor)))
                    cursor = pages[-1].next_cursor
                    if not cursor:
                        break
        return pages


async def _session(upstream: Upstream) -> ClientSession:
    try:
        return await upstream.session()
    except Unavailable as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error


def _without(server: str, uri: str) -> str | None:
    """The address as that server has it; None if it is another's."""
    parts = _URI.match(uri)
    if parts is None or not parts[2].startswith(f"{server}/"):
        return None
    return parts[1] + parts[2].removeprefix(f"{server}/")
