"""The tools of a box: calls in, actions through the executor, results out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from glovebox.box.executor import Executor
from glovebox.box.machine import MainShell
from glovebox.errors import GloveboxError, SessionExists, UnknownTool
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.files import FILE_ACTIONS
from glovebox.protocol.observations import SuccessObservation
from glovebox.protocol.terminal import CommandAction, CommandInputAction
from glovebox.protocol.tools.base import Tool, ToolCall, ToolResult

_MAIN = "main"
_FILES = "files"
_FILE_ACTIONS = (FileReadAction, FileWriteAction, FileEditAction, *FILE_ACTIONS)
#: How many names of tools the error for an unknown one lists.
_MOST_NAMES = 60
_LONGEST_NAME = 200


class ToolSource(Protocol):
    """Tools that `call_tool_mcp` calls by name."""

    async def tools(self, taken: Collection[str] = ()) -> list[Tool]:
        """All tools, by names that `call_tool_mcp` takes and that are not `taken`."""

    async def knows(self, name: str) -> bool:
        """Whether `call_tool_mcp` takes that name. Does not wait if it is known already."""

    def missing(self) -> list[str]:
        """Why the tools of some servers are missing."""


class ToolProvider(Protocol):
    """The parts of a box's services that the tools need."""

    @property
    def routed(self) -> ToolSource | None: ...

    @property
    def shell(self) -> MainShell | None: ...


@runtime_checkable
class Sessions(Protocol):
    """A shell that can be replaced by a new one."""

    async def end(self, name: str) -> None:
        """End a session and everything in it."""

    async def create(self, name: str) -> object: ...


class Toolbox:
    """The tools of a box: its own, and those of MCP servers."""

    def __init__(
        self, executor: Executor, actions: Collection[type[Action[Any]]], source: ToolProvider
    ) -> None:
        """`actions`: those that this box carries out."""
        self.executor = executor
        self._actions = frozenset(actions)
        self._source = source
        self._turns: dict[str, asyncio.Lock] = {}

    async def tools(self) -> list[Tool]:
        """All tools, the box's own first. Names are unique."""
        from glovebox.protocol.tools.actions import own_tools

        return [*own_tools(self._actions), *await self._routed()]

    async def action(self, call: ToolCall) -> Action[Any]:
        """The action of a call.

        Raises:
            UnknownTool: there is no such tool.
            WrongToolArguments: it does not take these arguments.
        """
        if (action := self._own_action(call)) is not None:
            return action
        source = self._source.routed
        if source is not None and await source.knows(call.name):
            return MCPAction(name=call.name, arguments=call.arguments)
        unknown = self._unknown(call.name, [tool.name for tool in await self._routed()])
        raise UnknownTool(" ".join([unknown, *(source.missing() if source is not None else [])]))

    async def call(
        self, call: ToolCall, *, action_id: str | None = None, contract: bool = False
    ) -> ToolResult:
        """Carry out a call. Errors are results for the model, too.

        `contract`: commands are those of the contract, with its rules and observations.
        """
        from glovebox.protocol.tools.actions import is_restart, native_action
        from glovebox.protocol.tools.results import failed, result

        if call.problem:
            return failed(call.problem)
        try:
            if CmdRunAction in self._actions and is_restart(call):
                return await self._restart()
            action = await self.action(call)
            if not contract and CommandAction in self._actions:
                action = native_action(action)
            async with self._turn(action):
                observation = await self.executor.execute(action, self.executor.call(action_id))
        except GloveboxError as error:
            return failed(error.message)
        return result(observation)

    async def call_all(self, calls: Sequence[ToolCall], *, contract: bool = False) -> list[ToolResult]:
        """Carry out calls of one turn: at once where they share no session, in order where they do.

        What is done to files is done before later calls begin: a model that writes a program and runs it in
        the same turn means that order. It does not wait for commands that were begun before.
        """
        from glovebox.protocol.tools.results import failed

        tasks: list[asyncio.Task[ToolResult]] = []
        latest: dict[str, asyncio.Task[ToolResult]] = {}
        async with asyncio.TaskGroup() as group:
            for call in calls:
                session = self._session(call)
                before = {latest[name] for name in (_FILES, session) if name in latest}
                task = group.create_task(self._call_after(before, call, contract))
                tasks.append(task)
                if session is not None:
                    latest[session] = task
        return [failed("The call was cancelled.") if task.cancelled() else task.result() for task in tasks]

    async def _call_after(
        self, before: Iterable[asyncio.Task[ToolResult]], call: ToolCall, contract: bool
    ) -> ToolResult:
        if waited_for := set(before):
            await asyncio.wait(waited_for)  # however they end
        return await self.call(call, contract=contract)

    def _turn(self, action: Action[Any]) -> AbstractAsyncContextManager[object]:
        """A command waits for earlier calls that wait for one in the same session; input does not."""
        if isinstance(action, CommandAction):
            return self._turns.setdefault(action.session, asyncio.Lock())
        return contextlib.nullcontext()

    def _own_action(self, call: ToolCall) -> Action[Any] | None:
        """The action of a call of one of the box's own tools, else None."""
        from glovebox.protocol.tools.actions import ENTRIES, alias_action, aliases_of, own_action

        if call.name in ENTRIES and ENTRIES[call.name].action in self._actions:
            return own_action(call.name, call.arguments)
        if call.name in aliases_of(self._actions):
            return alias_action(call.name, call.arguments)
        return None

    def _session(self, call: ToolCall) -> str | None:
        if call.problem:
            return None
        try:
            action = self._own_action(call)
        except GloveboxError:  # which will be its result
            return None
        return session_of(action) if action is not None else None

    async def _routed(self) -> list[Tool]:
        source = self._source.routed
        return [] if source is None else await source.tools(self._own_names())

    def _own_names(self) -> list[str]:
        """The names of the box's own tools, and their aliases."""
        from glovebox.protocol.tools.actions import aliases_of, own_tools

        return [*(tool.name for tool in own_tools(self._actions)), *aliases_of(self._actions)]

    async def _restart(self) -> ToolResult:
        from glovebox.protocol.tools.actions import RESTARTED
        from glovebox.protocol.tools.results import failed, result

        shell = self._source.shell
        if not isinstance(shell, Sessions):
            return failed("The shell of this box cannot be restarted.")
        await shell.end(_MAIN)
        with contextlib.suppress(SessionExists):  # another call was faster
            await shell.create(_MAIN)
        return result(SuccessObservation(content=RESTARTED))

    def _unknown(self, name: str, routed: list[str]) -> str:
        from glovebox.protocol.tools.actions import aliases_of, own_tools
        from glovebox.protocol.tools.arguments import TOOL_WORDS, nearest

        listed = list(dict.fromkeys([*(tool.name for tool in own_tools(self._actions)), *routed]))
        text = f"Unknown tool: {name[:_LONGEST_NAME]}."
        if guess := nearest(name, [*listed, *aliases_of(self._actions)], TOOL_WORDS):
            text += f" Did you mean {guess}?"
        more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
        return f"{text} Tools: {', '.join(listed[:_MOST_NAMES])}{more}."


def session_of(action: Action[Any]) -> str | None:
    """The session that an action uses exclusively; None if it uses none."""
    match action:
        case CmdRunAction(is_static=False) | CommandInputAction():
            return f"shell {action.session}"
        case IPythonRunCellAction():
            return f"kernel {action.kernel}"
        case BrowseURLAction() | BrowseInteractiveAction():
            return "browser"
    return _FILES if isinstance(action, _FILE_ACTIONS) else None
