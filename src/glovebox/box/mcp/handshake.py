"""What is said to any MCP server before it can be used, and what its connection says when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mcp_types
    from mcp.client.session import ClientSession

#: Pages of a list of tools; more, and it has no end.
_MOST_PAGES = 100


async def greet(session: ClientSession) -> None:
    """Agree on a version: the older way is understood by all but servers that know only newer ones."""
    import mcp_types
    from mcp.shared.exceptions import MCPError

    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in (mcp_types.UNSUPPORTED_PROTOCOL_VERSION, mcp_types.METHOD_NOT_FOUND):
            raise
        await session.discover()


async def listed(session: ClientSession) -> list[mcp_types.Tool]:
    """All its tools."""
    import mcp_types

    capabilities = session.server_capabilities
    if capabilities is not None and capabilities.tools is None:
        return []
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=mcp_types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def first(group: BaseExceptionGroup[Any]) -> BaseException:
    """The first of several exceptions, however deep."""
    one = group.exceptions[0]
    return first(one) if isinstance(one, BaseExceptionGroup) else one


def is_closed(error: BaseException) -> bool:
    """Whether the SDK says that the connection is closed; servers have the same code for errors of theirs."""
    import mcp_types
    from mcp.shared.exceptions import MCPError

    closed = (mcp_types.CONNECTION_CLOSED, "Connection closed")
    return isinstance(error, MCPError) and (error.code, error.message) == closed


def is_forgotten(error: BaseException) -> bool:
    """Whether a server at an address does not know the session any more; it has done nothing then."""
    import mcp_types
    from mcp.shared.exceptions import MCPError

    forgotten = (mcp_types.INVALID_REQUEST, "Session terminated")
    return isinstance(error, MCPError) and (error.code, error.message) == forgotten
