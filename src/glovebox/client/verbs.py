"""The actions of the contract as methods: each takes the action, or its main argument and further fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
)
from glovebox.protocol.terminal import Limits

ActionT = TypeVar("ActionT", bound=Action[Any])


class Limited(TypedDict, total=False):
    """What any action may have."""

    timeout: float | None


class RunFields(Limited, total=False):
    """What a command may have; `CmdRunAction` says what it means."""

    is_input: bool
    blocking: bool
    is_static: bool
    cwd: str | None
    hidden: bool
    session: str
    budget: int | None
    limits: Limits | None


class CellFields(Limited, total=False):
    """What a cell may have."""

    include_extra: bool
    kernel: str


class ReadFields(Limited, total=False):
    """What may be said about reading."""

    start: int
    end: int
    impl_source: str
    view_range: list[int] | None


class WriteFields(Limited, total=False):
    """What may be said about writing."""

    start: int
    end: int


class EditFields(Limited, total=False):
    """What an editor command may have."""

    command: str
    file_text: str | None
    old_str: str | None
    new_str: str | None
    insert_line: int | None
    content: str
    start: int
    end: int
    impl_source: str


class BrowseFields(Limited, total=False):
    """What may be said about looking at pages."""

    return_axtree: bool


class _Executes(Protocol):
    async def execute(self, action: Action[ObservationT]) -> ObservationT | ErrorObservation: ...


class Verbs:
    """Methods over `execute`."""

    async def run(
        self: _Executes, command: str | CmdRunAction, **fields: Unpack[RunFields]
    ) -> CmdOutputObservation | ErrorObservation:
        """Run a command in a persistent shell, or talk to the one that is running."""
        return await self.execute(made(CmdRunAction, command, "command", fields))

    async def run_ipython(
        self: _Executes, code: str | IPythonRunCellAction, **fields: Unpack[CellFields]
    ) -> IPythonRunCellObservation | ErrorObservation:
        """Run a cell in the IPython kernel."""
        return await self.execute(made(IPythonRunCellAction, code, "code", fields))

    async def read(
        self: _Executes, path: str | FileReadAction, **fields: Unpack[ReadFields]
    ) -> FileReadObservation | ErrorObservation:
        return await self.execute(made(FileReadAction, path, "path", fields))

    async def write(
        self: _Executes, path: str | FileWriteAction, content: str = "", **fields: Unpack[WriteFields]
    ) -> FileWriteObservation | ErrorObservation:
        """Write a file, or lines of it."""
        if isinstance(path, str):
            path = FileWriteAction(path=path, content=content)
        return await self.execute(made(FileWriteAction, path, "path", fields))

    async def browse(
        self: _Executes, url: str | BrowseURLAction, **fields: Unpack[BrowseFields]
    ) -> BrowserOutputObservation | FileDownloadObservation | ErrorObservation:
        """Open a page and read it."""
        return await self.execute(made(BrowseURLAction, url, "url", fields))

    async def browse_interactive(
        self: _Executes, browser_actions: str | BrowseInteractiveAction, **fields: Unpack[BrowseFields]
    ) -> BrowserOutputObservation | FileDownloadObservation | ErrorObservation:
        """Act on the page that is open."""
        return await self.execute(made(BrowseInteractiveAction, browser_actions, "browser_actions", fields))

    async def call_tool_mcp(
        self: _Executes,
        name: str | MCPAction,
        arguments: dict[str, Any] | None = None,
        **fields: Unpack[Limited],
    ) -> MCPObservation | ErrorObservation:
        """Call a tool of an MCP server."""
        if isinstance(name, str):
            name = MCPAction(name=name, arguments=arguments or {})
        return await self.execute(made(MCPAction, name, "name", fields))


def made(kind: type[ActionT], given: str | ActionT, main: str, fields: Mapping[str, Any]) -> ActionT:
    """The action that is meant: the given one, changed by the fields, or a new one."""
    if isinstance(given, str):
        return kind(**{main: given, **fields})
    return msgspec.structs.replace(given, **fields) if fields else given
