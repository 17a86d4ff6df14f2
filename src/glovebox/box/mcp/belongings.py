"""What MCP servers have besides tools: prompts and resources, under one roof like these.

They are asked for when somebody wants to know. A server that does not answer is left out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

from glovebox.box.mcp.router import Router
from glovebox.box.mcp.upstream import Unavailable, Upstream

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.server.context import ServerRequestContext

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)(.*)", re.DOTALL)
_MOST_PAGES = 100

T = TypeVar("T")
Page = Callable[["ClientSession", types.PaginatedRequestParams], Awaitable[tuple[Sequence[T], str | None]]]


class Belongings:
    """Prompts and resources of all servers."""

    def __init__(self, router: Router, limit: float) -> None:
        """`limit`: seconds that a server may take to list what it has."""
        self._router = router
        self._limit = limit

    async def prompts(self, ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListPromptsResult:
        """`prompts/list`."""

        async def page(session: ClientSession, at: types.PaginatedRequestParams) -> Any:
            found = await session.list_prompts(params=at)
            return found.prompts, found.next_cursor

        prompts = [
            prompt.model_copy(update={"name": self._name(upstream, prompt.name)})
            for upstream, prompt in await self._all("prompts", page)
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def prompt(
        self, ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """`prompts/get`."""
        # The longest name first: `a_b_c` is rather `c` of `a_b` than `b_c` of `a`.
        for upstream in sorted(self._router.upstreams, key=lambda one: len(one.name), reverse=True):
            if self._alone or params.name.startswith(f"{upstream.name}_"):
                name = params.name if self._alone else params.name.removeprefix(f"{upstream.name}_")
                session = await _session(upstream)
                return await session.get_prompt(name, params.arguments)
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")

    async def resources(self, ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListResourcesResult:
        """`resources/list`."""

        async def page(session: ClientSession, at: types.PaginatedRequestParams) -> Any:
            found = await session.list_resources(params=at)
            return found.resources, found.next_cursor

        resources = [
            resource.model_copy(update={"uri": self._address(upstream, resource.uri)})
            for upstream, resource in await self._all("resources", page)
        ]
        return types.ListResourcesResult(resources=resources)

    async def templates(
        self, ctx: ServerRequestContext[Any, Any], params: Any
    ) -> types.ListResourceTemplatesResult:
        """`resources/templates/list`."""

        async def page(session: ClientSession, at: types.PaginatedRequestParams) -> Any:
            found = await session.list_resource_templates(params=at)
            return found.resource_templates, found.next_cursor

        templates = [
            one.model_copy(update={"uri_template": self._address(upstream, one.uri_template)})
            for upstream, one in await self._all("resources", page)
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(
        self, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """`resources/read`."""
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

    async def _all(self, kind: str, page: Page[T]) -> list[tuple[Upstream, T]]:
        upstreams = self._router.upstreams
        await asyncio.gather(*(upstream.known.wait() for upstream in upstreams))
        found = await asyncio.gather(*(self._listed(upstream, kind, page) for upstream in upstreams))
        return [(upstream, one) for upstream, own in zip(upstreams, found, strict=True) for one in own]

    async def _listed(self, upstream: Upstream, kind: str, page: Page[T]) -> list[T]:
        found: list[T] = []
        cursor: str | None = None
        if not upstream.ready:
            return []
        try:
            session = await upstream.session()
            if getattr(session.server_capabilities, kind, None) is None:
                return []
            async with asyncio.timeout(self._limit):
                for _ in range(_MOST_PAGES):
                    own, cursor = await page(session, types.PaginatedRequestParams(cursor=cursor))
                    found += own
                    if not cursor:
                        break
        except (Unavailable, MCPError, TimeoutError, ValueError):
            return found
        return found


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
