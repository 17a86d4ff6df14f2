"""Actions as methods of a runtime: each takes the action, or its main argument and further fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from glovebox.client import git
from glovebox.client.transfer import files
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
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
)
from glovebox.protocol.terminal import Limits

ActionT = TypeVar("ActionT", bound=Action[Any])


class Limited(TypedDict, total=False):
    """Fields of every action."""

    timeout: float | None


class RunFields(Limited, total=False):
    """Fields of a command; see `CmdRunAction`."""

    is_input: bool
    blocking: bool
    is_static: bool
    cwd: str | None
    hidden: bool
    session: str
    budget: int | None
    limits: Limits | None


class CellFields(Limited, total=False):
    """Fields of a cell."""

    include_extra: bool
    kernel: str


class ReadFields(Limited, total=False):
    """Fields of reading a file."""

    start: int
    end: int
    impl_source: str
    view_range: list[int] | None


class WriteFields(Limited, total=False):
    """Fields of writing a file."""

    start: int
    end: int


class EditFields(Limited, total=False):
    """Fields of an editor command."""

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
    """Fields of browsing."""

    return_axtree: bool


class _Executes(Protocol):
    async def execute(self, action: Action[ObservationT]) -> ObservationT | ErrorObservation: ...


class ActionMethods:
    """Methods over the rest of a runtime."""

    copy_to = files.copy_to
    copy_from = files.copy_from
    download_to = files.download
    list_files = files.list_files
    get_git_changes = git.get_git_changes
    get_git_diff = git.get_git_diff
    get_workspace_branch = git.get_workspace_branch

    async def run(
        self: _Executes, command: str | CmdRunAction, **fields: Unpack[RunFields]
    ) -> CmdOutputObservation | ErrorObservation:
        """Run a command in a persistent shell, or send input to the running one."""
        return await self.execute(_action(CmdRunAction, command, "command", fields))

    async def run_ipython(
        self: _Executes, code: str | IPythonRunCellAction, **fields: Unpack[CellFields]
    ) -> IPythonRunCellObservation | ErrorObservation:
        """Run a cell in the IPython kernel."""
        return await self.execute(_action(IPythonRunCellAction, code, "code", fields))

    async def read(
        self: _Executes, path: str | FileReadAction, **fields: Unpack[ReadFields]
    ) -> FileReadObservation | ErrorObservation:
        return await self.execute(_action(FileReadAction, path, "path", fields))

    async def write(
        self: _Executes, path: str | FileWriteAction, content: str = "", **fields: Unpack[WriteFields]
    ) -> FileWriteObservation | ErrorObservation:
        """Write a file, or lines of it."""
        if isinstance(path, str):
            path = FileWriteAction(path=path, content=content)
        return await self.execute(_action(FileWriteAction, path, "path", fields))

    async def edit(
        self: _Executes, path: str | FileEditAction, **fields: Unpack[EditFields]
    ) -> FileEditObservation | ErrorObservation:
        """Execute an editor command: view, create, str_replace, insert or undo_edit."""
        return await self.execute(_action(FileEditAction, path, "path", fields))

    async def browse(
        self: _Executes, url: str | BrowseURLAction, **fields: Unpack[BrowseFields]
    ) -> BrowserOutputObservation | FileDownloadObservation | ErrorObservation:
        """Open a page and read it."""
        return await self.execute(_action(BrowseURLAction, url, "url", fields))

    async def browse_interactive(
        self: _Executes, browser_actions: str | BrowseInteractiveAction, **fields: Unpack[BrowseFields]
    ) -> BrowserOutputObservation | FileDownloadObservation | ErrorObservation:
        """Act on the page that is open."""
        return await self.execute(
            _action(BrowseInteractiveAction, browser_actions, "browser_actions", fields)
        )

    async def call_tool_mcp(
        self: _Executes,
        name: str | MCPAction,
        arguments: dict[str, Any] | None = None,
        **fields: Unpack[Limited],
    ) -> MCPObservation | ErrorObservation:
        """Call a tool of an MCP server."""
        if isinstance(name, str):
            name = MCPAction(name=name, arguments=arguments or {})
        return await self.execute(_action(MCPAction, name, "name", fields))


def _action(kind: type[ActionT], given: str | ActionT, main: str, fields: Mapping[str, Any]) -> ActionT:
    """The given action, changed by the fields, or a new one."""
    if isinstance(given, str):
        return kind(**{main: given, **fields})
    return msgspec.structs.replace(given, **fields) if fields else given
