"""The tools of a box: calls in, actions through the executor, results out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from glovebox.box.executor import Executor
from glovebox.protocol.base import Action
from glovebox.protocol.tools.base import Tool, ToolCall, ToolResult


class ToolSource(Protocol):
    """Who has tools that `call_tool_mcp` calls by name."""

    async def tools(self) -> list[Tool]:
        """Those there are now, by the names that `call_tool_mcp` takes."""


class Source(Protocol):
    """Who knows where tools of MCP servers come from."""

    @property
    def routed(self) -> ToolSource | None:
        """None if there is nothing of the kind."""


class Toolbox:
    """What models can call in a box: its own abilities, and the tools of MCP servers."""

    def __init__(self, executor: Executor, actions: Collection[type[Action[Any]]], source: Source) -> None:
        """`actions`: those that this box carries out."""
        self.executor = executor
        self._actions = frozenset(actions)
        self._source = source

    async def tools(self) -> list[Tool]:
        """All of them, the box's own first."""
        raise NotImplementedError

    async def action(self, call: ToolCall) -> Action[Any]:
        """What a call asks for.

        Raises:
            UnknownTool: there is no such tool.
            WrongToolArguments: it does not take these arguments.
        """
        raise NotImplementedError

    async def call(self, call: ToolCall, *, action_id: str | None = None) -> ToolResult:
        """Carry out a call. Whatever goes wrong is a result that tells the model so."""
        raise NotImplementedError

    async def call_all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Carry out calls of one turn: at once where they share no session, in order where they do."""
        raise NotImplementedError
