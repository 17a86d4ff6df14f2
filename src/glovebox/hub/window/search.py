"""The `glob` and `grep` actions in folders of a window."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from glovebox.box.executor import Call, Handler
from glovebox.box.files.disk.path_errors import FileActionError, in_range
from glovebox.hub.window.files import absolute, attempted, missing
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.files import (
    MAX_LIMIT,
    GlobAction,
    GlobObservation,
    GrepAction,
    GrepMatch,
    GrepObservation,
)
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.window import Found, Glob, Grep, Line, Lines, PathInfo, Stat

if TYPE_CHECKING:  # what searches is loaded with the first search
    from glovebox.box.files.search.glob_pattern import GlobPattern as ParsedGlob

#: How long a search may take unless its action says.
SEARCH_SECONDS = 30.0
#: Searches at the same time; more of them wait.
MAX_SEARCHES = 4
#: A search ends after this many results: they come in one message.
MOST = 10_000


class WindowSearch:
    """The actions that search in a window."""

    def __init__(self, hands: Hands, terminal: WindowTerminal) -> None:
        self._hands = hands
        self._shell = terminal
        self._searches = asyncio.Semaphore(MAX_SEARCHES)

    def handlers(self) -> list[Handler]:
        return [self.glob, self.grep]

    async def glob(self, action: GlobAction, call: Call) -> GlobObservation | ErrorObservation:
        """Find files by a pattern."""

        async def attempt(settled: bool) -> GlobObservation:
            async with self._searches:
                return await self._glob(action, settled=settled)

        return await attempted(self._shell, attempt, action.timeout)

    async def grep(self, action: GrepAction, call: Call) -> GrepObservation | ErrorObservation:
        """Search files for a pattern."""

        async def attempt(settled: bool) -> GrepObservation:
            async with self._searches:
                return await self._grep(action)

        return await attempted(self._shell, attempt, action.timeout)

    async def _glob(self, action: GlobAction, *, settled: bool) -> GlobObservation:
        from glovebox.box.files.search.glob import checked_glob, with_text
        from glovebox.box.files.search.glob_pattern import GlobMatcher

        in_range("offset", action.offset, 0)
        in_range("limit", action.limit, 1, MAX_LIMIT)
        pattern = checked_glob(action.pattern, "pattern")
        if any(one.directories for one in pattern.alternatives):
            raise FileActionError(
                "unsupported", "A VS Code window finds files, not directories. Run find with -type d instead."
            )
        directory = absolute(self._shell.cwd, action.path)
        from_root = pattern.base.startswith("/")
        if not from_root:
            await self._check_directory(directory)
        root = absolute(directory, pattern.base or ".")
        order = Glob(
            path=root,
            pattern=_for_vscode(pattern),
            hidden=action.hidden or _names_hidden(pattern),
            ignored=not action.respect_gitignore,
            most=MOST,
        )
        found = await self._found(order, action.timeout, settled=settled)
        matches = GlobMatcher(pattern, hidden=action.hidden).matches
        prefix = root.rstrip("/") + "/"
        paths = [
            path for path in found.paths if path.startswith(prefix) and matches(path.removeprefix(prefix))
        ]
        answer = GlobObservation(
            pattern=action.pattern,
            path=root if from_root else directory,
            matches=paths[action.offset : action.offset + action.limit],
            total=len(paths),
            incomplete=found.incomplete,
        )
        return with_text(answer, action.offset)

    async def _found(self, order: Glob, timeout: float | None, *, settled: bool) -> Found:
        try:
            return await self._hands.do(order, Found, limit=timeout or SEARCH_SECONDS)
        except OrderRefused as refused:
            if refused.code not in ("not_found", "not_directory"):
                raise
            if not settled:
                raise FileActionError("not_found", f"{order.path} does not exist.") from refused
            return Found(paths=[])  # a directory that only the pattern names

    async def _check_directory(self, path: str) -> None:
        found = await self._hands.do(Stat(path=path), PathInfo)
        if not found.exists:
            raise missing(path)
        if found.type != "directory":
            raise FileActionError(
                "not_a_directory", f"{path} is not a directory. Give the directory to search in."
            )

    async def _grep(self, action: GrepAction) -> GrepObservation:
        from glovebox.box.files.search.grep import with_page

        order = self._order(action)
        found = await self._hands.do(order, Lines, limit=action.timeout or SEARCH_SECONDS)
        if not found.lines and not (await self._hands.do(Stat(path=order.path), PathInfo)).exists:
            raise missing(order.path)
        answer = GrepObservation(
            pattern=action.pattern,
            path=order.path,
            total=len(found.lines),
            files=len({line.path for line in found.lines}),
            incomplete=found.incomplete,
        )
        page = found.lines[action.offset : action.offset + action.limit]
        return with_page(answer, action.offset, map(_match, page))

    def _order(self, action: GrepAction) -> Grep:
        """The order that a grep action becomes.

        Raises:
            FileActionError: an argument is wrong.
        """
        from glovebox.box.files.search.grep import check_numbers, checked_include, context_of

        check_numbers(action)
        if action.include is not None:
            checked_include(action.include)
        before, after = context_of(action)
        return Grep(
            path=absolute(self._shell.cwd, action.path),
            pattern=action.pattern,
            literal=action.literal,
            ignore_case=action.ignore_case,
            include=action.include or "",
            hidden=action.hidden,
            ignored=not action.respect_gitignore,
            before=before,
            after=after,
            most=MOST,
        )


def _for_vscode(pattern: ParsedGlob) -> str:
    """The pattern as VS Code has it. It may find more, and what does not match is left out afterwards."""
    spellings = ["/".join(one.components) for one in pattern.alternatives]
    if any(sign in spelling for spelling in spellings for sign in "\\[{},"):
        return "**/*"  # what is written otherwise there
    return spellings[0] if len(spellings) == 1 else f"{{{','.join(spellings)}}}"


def _names_hidden(pattern: ParsedGlob) -> bool:
    """Whether something that begins with a dot is named."""
    return any(part.startswith(".") for one in pattern.alternatives for part in one.components)


def _match(line: Line) -> GrepMatch:
    from glovebox.box.files.search.grep import clipped

    text, *around = [clipped(text.encode(), 0) for text in (line.text, *line.before, *line.after)]
    end = len(line.before)
    return GrepMatch(path=line.path, line=line.line, text=text, before=around[:end], after=around[end:])
