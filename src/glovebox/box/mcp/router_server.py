"""The router as an MCP server: what clients of the box see of the servers behind it."""

from __future__ import annotations

from typing import Any

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from glovebox import __version__
from glovebox.box.mcp.notifications import Audience, ChangingServer
from glovebox.box.mcp.prompts_and_resources import Belongings
from glovebox.box.mcp.router import Router
from glovebox.box.mcp.tool_results import timed_out
from glovebox.box.mcp.upstream import Unavailable
from glovebox.errors import UnknownTool


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
