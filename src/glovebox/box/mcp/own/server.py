"""What a box tells and does as an MCP server, over whatever transport."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from glovebox import __version__
from glovebox.box.mcp.audience import Audience, ChangingServer
from glovebox.box.mcp.own.interrupting import give_up
from glovebox.box.mcp.own.progress import tell_output
from glovebox.box.mcp.own.resources import Resources
from glovebox.box.mcp.own.text import valid
from glovebox.box.plugin import Services
from glovebox.box.tools import Toolbox
from glovebox.protocol.tools.base import ImagePart, Part, Tool, ToolCall, ToolResult

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = """\
A sandbox to work in: a Linux machine with shells, files and more. Its working directory is {working_dir}.

Commands run in persistent shells: directory, variables and background jobs stay from one call to the next. \
A session of another name is another shell, and sessions work side by side. A command that prints nothing \
for {silence} seconds is answered with what it has printed so far and goes on: ask for more, send it input, \
or interrupt it with C-c.

Relative paths start from the directory of the main shell. The files of the working directory are also \
resources, with file:// addresses."""


class BoxServer:
    """A box as an MCP server: `server` is what a transport serves.

    It belongs to one event loop, and may be served to any number of clients at once.
    """

    def __init__(self, toolbox: Toolbox, services: Services) -> None:
        self._toolbox = toolbox
        self._services = services
        self._audience = Audience()
        self._work: set[asyncio.Task[None]] = set()
        threads = services.user_threads or services.threads
        self.server = self._make(Resources(toolbox.executor, threads, services.settings.working_dir))

    def tools_changed(self) -> None:
        """Tell all clients that there may be other tools now."""
        self._audience.tools_changed()

    def close(self) -> None:
        """End what has no end of its own; the transports are closed by whoever opened them."""
        self._audience.close()
        for task in self._work:
            task.cancel()

    def _make(self, resources: Resources) -> Server[Any]:
        settings = self._services.settings
        return ChangingServer(
            "glovebox",
            version=__version__,
            title="Glovebox",
            description="A sandbox for AI agents: shells, files, notebooks and a browser.",
            instructions=INSTRUCTIONS.format(
                working_dir=settings.working_dir, silence=settings.no_change_timeout_seconds
            ),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=resources.list,
            on_list_resource_templates=resources.templates,
            on_read_resource=resources.read,
            on_subscriptions_listen=self._audience.listening,
        )

    async def _list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = await self._toolbox.tools()
        self._audience.listed(context)
        return types.ListToolsResult(tools=[_described(tool) for tool in tools])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = ToolCall(name=params.name, arguments=params.arguments or {})
        action_id = uuid.uuid4().hex
        after = self._toolbox.executor.events.last
        running = asyncio.create_task(self._toolbox.call(call, action_id=action_id))
        try:
            if (context.meta or {}).get("progress_token") is None:
                await asyncio.wait([running])
            else:
                tell = context.session.report_progress
                await tell_output(self._services, action_id, after, running, tell)
        except asyncio.CancelledError:
            self._do(give_up(self._services.shell, action_id, running))
            raise
        return _answer(running.result())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done that nobody waits for."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title or None,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def _answer(result: ToolResult) -> types.CallToolResult:
    return types.CallToolResult(
        content=[_content(part) for part in result.parts],
        structured_content=result.structured,
        is_error=result.is_error,
    )


def _content(part: Part) -> types.ContentBlock:
    if isinstance(part, ImagePart):
        return types.ImageContent(data=part.data, mime_type=part.media_type)
    return types.TextContent(text=valid(part.text))
