"""A box as an MCP server, for any transport."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from glovebox import __version__
from glovebox.box.events import EventLog
from glovebox.box.machine import MainShell, Outputs
from glovebox.box.mcp.http_transport import Audience, ChangingServer
from glovebox.box.mcp.server.resources import WorkspaceResources, valid
from glovebox.box.plugin import Services
from glovebox.box.supervised import spawn
from glovebox.box.tools import Toolbox
from glovebox.errors import CommandEnded, NoSuchCommand, OutputGone
from glovebox.protocol.events import ActionOutput
from glovebox.protocol.tools.base import ImagePart, Part, Tool, ToolCall, ToolResult

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = """\
A sandbox to work in: a Linux machine with shells, files and more. Its working directory is {working_dir}.

Commands run in persistent shells: directory, variables and background jobs stay from one call to the next. \
A session of another name is another shell, and sessions work side by side. A command that waits for input, \
or takes longer than the time it was given, is answered with what it has printed so far and goes on: ask for \
more, send it input, or interrupt it with C-c.

Relative paths start from the directory of the main shell. The files of the working directory are also \
resources, with file:// addresses."""


class BoxServer:
    """A box for any number of MCP clients: `server` is what a transport serves."""

    def __init__(self, toolbox: Toolbox, services: Services) -> None:
        self._toolbox = toolbox
        self._services = services
        self._audience = Audience()
        self._work: set[asyncio.Task[None]] = set()
        threads = services.user_threads or services.threads
        self.server = self._make(WorkspaceResources(toolbox.executor, threads, services.settings.working_dir))

    def tools_changed(self) -> None:
        self._audience.tools_changed()

    def close(self) -> None:
        """End streams and background work; the caller closes its transports."""
        self._audience.close()
        for task in self._work:
            task.cancel()

    def _make(self, resources: WorkspaceResources) -> Server[Any]:
        settings = self._services.settings
        return ChangingServer(
            "glovebox",
            version=__version__,
            title="Glovebox",
            description="A sandbox for AI agents: shells, files, notebooks and a browser.",
            instructions=INSTRUCTIONS.format(working_dir=settings.working_dir),
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
        self._audience.add(context)
        return types.ListToolsResult(tools=[_sdk_tool(tool) for tool in tools])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = ToolCall(name=params.name, arguments=params.arguments or {})
        action_id = uuid.uuid4().hex
        after = self._toolbox.executor.events.last
        running = asyncio.create_task(self._toolbox.call(call, action_id=action_id))
        try:
            if (context.meta or {}).get("progress_token") is None:
                await asyncio.wait([running])
            else:
                report = context.session.report_progress
                await report_output(self._services, action_id, after, running, report)
        except asyncio.CancelledError:
            spawn(self._work, end_action(self._services.shell, action_id, running))
            raise
        return _answer(running.result())


def _sdk_tool(tool: Tool) -> types.Tool:
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


#: Signals that a command gets in turn, until it ends.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
#: Seconds that it may take to end after each.
_PATIENCE = 1.0


class Signalled(Protocol):
    """A command that runs in a shell."""

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground.

        Raises:
            CommandEnded: there is nothing to signal.
        """


@runtime_checkable
class InterruptibleShell(Protocol):
    """A shell that knows its commands."""

    def command(self, command_id: str) -> Signalled:
        """The command that an action began.

        Raises:
            NoSuchCommand: it began none.
        """


async def end_action(shell: MainShell | None, action_id: str, running: asyncio.Future[Any]) -> None:
    """End an action whose client has cancelled it.

    A command that it began is interrupted and awaited, so that the shell is free for the next one. An
    action that only observes a command, or waits for its turn, is dropped.
    """
    try:
        command = _command(shell, action_id)
        if command is None:
            return
        for name in _SIGNALS:
            with contextlib.suppress(CommandEnded):  # or it has not begun yet
                await command.signal(name)
            if (await asyncio.wait([running], timeout=_PATIENCE))[0]:
                return
    finally:
        running.cancel()


def _command(shell: MainShell | None, action_id: str) -> Signalled | None:
    try:
        return shell.command(action_id) if isinstance(shell, InterruptibleShell) else None
    except NoSuchCommand:
        return None


#: `await report(progress, total, message)`.
Report = Callable[[float, float | None, str | None], Awaitable[None]]

#: Seconds between two messages: output meanwhile is part of the next.
_PAUSE = 0.07
#: The most characters of a message.
_LONGEST = 131_072


async def report_output(
    services: Services, action_id: str, after: int, running: asyncio.Future[Any], report: Report
) -> None:
    """Report the output of an action until `running` is done. `after`: the last event before the action.

    The progress is the number of bytes that were reported.
    """
    follower = _Follower(services.events, services.outputs, action_id, after)
    reported = 0
    while True:
        ended = running.done()  # checked first: output before the end is in the log by now
        async for text in follower.take():
            for begin in range(0, len(text), _LONGEST):
                piece = valid(text[begin : begin + _LONGEST])
                reported += len(piece.encode())
                await report(reported, None, piece)
        if ended:
            return
        await services.events.more(follower.seq, running)
        if not running.done():
            await asyncio.wait([running], timeout=_PAUSE)


class _Follower:
    """The output of one action; events that were dropped are replaced from the command's own log."""

    def __init__(self, events: EventLog, outputs: Outputs | None, action_id: str, after: int) -> None:
        self.seq = after
        self._events = events
        self._outputs = outputs
        self._id = action_id
        self._position: int | None = None

    async def take(self) -> AsyncGenerator[str, None]:
        """The output since the last call, in pieces."""
        waiting = [
            event
            for event in self._events.since(self.seq)
            if isinstance(event, ActionOutput) and event.action_id == self._id
        ]
        self.seq = self._events.last
        text: list[str] = []
        for event in waiting:
            if self._position is None:  # an action that observes an earlier command reports only new output
                self._position = 0 if event.command_id in (None, self._id) else event.offset
            if event.offset > self._position:
                yield "".join(text)
                text = []
                async for piece in self._missed(event.command_id, self._position, event.offset):
                    yield piece
            if event.end > self._position:
                self._position = event.end
                text.append(event.text)
        yield "".join(text)

    async def _missed(self, command_id: str | None, start: int, end: int) -> AsyncGenerator[str, None]:
        if self._outputs is None or command_id is None:
            return
        try:
            async for piece in self._outputs.reread(command_id, start, end):
                start = piece.end
                yield piece.text
        except (NoSuchCommand, OutputGone):
            yield f"\n[{end - start} bytes are missing here]\n"
