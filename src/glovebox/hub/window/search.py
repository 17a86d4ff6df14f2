"""The `glob` and `grep` actions in folders of a window."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from glovebox.box.executor import Call, Handler
from glovebox.box.files.disk.path_errors import FileActionError, in_range
from glovebox.hub.window.files import absolute, attempted, missing
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.files import (
    MAX_CONTEXT,
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
#: A page of lines ends when it has this many characters, and a line is not shown longer.
_MAX_PAGE = 1_000_000
_LONGEST_LINE = 1_000
_CUT = "[…]"


class WindowSearch:
    """Finds files and lines."""

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
        from glovebox.box.files.search.glob import checked_glob
        from glovebox.box.files.search.glob_pattern import GlobMatcher
        from glovebox.box.files.search.rendering import glob_text

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
        page = paths[action.offset : action.offset + action.limit]
        end = action.offset + len(page)
        answer = GlobObservation(
            pattern=action.pattern,
            path=root if from_root else directory,
            matches=page,
            total=len(paths),
            next_offset=end if page and end < len(paths) else None,
            incomplete=found.incomplete,
        )
        return msgspec.structs.replace(answer, content=glob_text(answer, action.offset, ignored=0))

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
        from glovebox.box.files.search.rendering import grep_text

        order = self._order(action)
        found = await self._hands.do(order, Lines, limit=action.timeout or SEARCH_SECONDS)
        if not found.lines and not (await self._hands.do(Stat(path=order.path), PathInfo)).exists:
            raise missing(order.path)
        matches, end = _page(found.lines, action.offset, action.limit)
        answer = GrepObservation(
            pattern=action.pattern,
            path=order.path,
            matches=matches,
            total=len(found.lines),
            files=len({line.path for line in found.lines}),
            next_offset=end if action.offset < end < len(found.lines) else None,
            incomplete=found.incomplete,
        )
        return msgspec.structs.replace(answer, content=grep_text(answer, action.offset, ignored=0))

    def _order(self, action: GrepAction) -> Grep:
        """What the window is asked for.

        Raises:
            Refusal: an argument is wrong.
        """
        from glovebox.box.files.search.glob import checked_glob, invalid_pattern
        from glovebox.box.files.search.pattern_parser import parse
        from glovebox.box.files.search.patterns import InvalidPattern

        in_range("offset", action.offset, 0)
        in_range("limit", action.limit, 1, MAX_LIMIT)
        in_range("context", action.context, 0, MAX_CONTEXT)
        in_range("before", action.before or 0, 0, MAX_CONTEXT)
        in_range("after", action.after or 0, 0, MAX_CONTEXT)
        if not action.literal:
            try:
                parse(action.pattern, ignore_case=action.ignore_case)
            except InvalidPattern as error:
                raise invalid_pattern("pattern", action.pattern, error) from error
        if action.include is not None:
            base = checked_glob(action.include, "include").base
            if base.startswith("/") or ".." in base.split("/"):
                raise FileActionError(
                    "invalid_argument",
                    "include is relative to path and cannot leave it. Change path instead.",
                )
        return Grep(
            path=absolute(self._shell.cwd, action.path),
            pattern=action.pattern,
            literal=action.literal,
            ignore_case=action.ignore_case,
            include=action.include or "",
            hidden=action.hidden,
            ignored=not action.respect_gitignore,
            before=action.context if action.before is None else action.before,
            after=action.context if action.after is None else action.after,
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


def _page(lines: list[Line], offset: int, limit: int) -> tuple[list[GrepMatch], int]:
    """The lines of one page, and the number of the line after it."""
    matches: list[GrepMatch] = []
    size = 0
    for line in lines[offset : offset + limit]:
        match = GrepMatch(
            path=line.path,
            line=line.line,
            text=_cut(line.text),
            before=[_cut(text) for text in line.before],
            after=[_cut(text) for text in line.after],
        )
        matches.append(match)
        size += len(match.path) + len(match.text) + sum(map(len, match.before + match.after))
        if size > _MAX_PAGE:
            break
    return matches, offset + len(matches)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + _CUT
