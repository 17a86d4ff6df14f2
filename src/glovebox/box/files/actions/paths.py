"""The `glob`, `grep`, `stat`, `move`, `delete` and `mkdir` actions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar

from glovebox.box.credentials import Identity, own_rights
from glovebox.box.executor import Call, Handler
from glovebox.box.files.actions.wait_for_shell import answered
from glovebox.box.files.disk.delete import delete, describe, make_directory
from glovebox.box.files.disk.move import move
from glovebox.box.files.disk.path_errors import FileActionError, resolved, shown
from glovebox.box.shell import Shell
from glovebox.box.threads import Threads
from glovebox.protocol.base import Observation
from glovebox.protocol.files import (
    DeleteAction,
    DeleteObservation,
    GlobAction,
    GlobObservation,
    GrepAction,
    GrepObservation,
    MkdirAction,
    MkdirObservation,
    MoveAction,
    MoveObservation,
    StatAction,
    StatObservation,
)
from glovebox.protocol.observations import ErrorObservation

if TYPE_CHECKING:  # what searches is loaded with the first search: a box has to start
    from glovebox.box.files.search.walk import Budget

#: How long a search may take unless its action says.
SEARCH_SECONDS = 30.0
#: Searches at the same time. More of them wait, so that some threads are always left for quick things.
MAX_SEARCHES = 4

ObservationT = TypeVar("ObservationT", bound=Observation)


class PathActions:
    """Finds, looks at and rearranges paths.

    Like reading and writing, these actions do not wait for the shell unless something is missing.
    `identity` is the user that ripgrep runs as, if that is not the server's.
    """

    def __init__(self, *, shell: Shell, threads: Threads, identity: Identity | None = None) -> None:
        self._shell = shell
        self._threads = threads
        self._identity = identity
        self._searches = asyncio.Semaphore(MAX_SEARCHES)
        self._loaded = False

    def handlers(self) -> list[Handler]:
        return [self.glob, self.grep, self.stat, self.move, self.delete, self.mkdir]

    async def glob(self, action: GlobAction, call: Call) -> GlobObservation | ErrorObservation:
        """Find files by a pattern."""

        async def attempt(settled: bool) -> GlobObservation:
            async with self._search(action.timeout) as budget:
                from glovebox.box.files.search.glob import find_files

                return await self._threads.run(find_files, action, self._shell.cwd, budget, settled=settled)

        return await answered(self._shell, attempt, action.timeout)

    async def grep(self, action: GrepAction, call: Call) -> GrepObservation | ErrorObservation:
        """Search files for a pattern."""

        async def attempt(settled: bool) -> GrepObservation:
            async with self._search(action.timeout) as budget:
                from glovebox.box.files.search.grep import search_lines

                return await search_lines(action, self._shell.cwd, budget, self._threads, self._identity)

        return await answered(self._shell, attempt, action.timeout)

    async def stat(self, action: StatAction, call: Call) -> StatObservation | ErrorObservation:
        """Tell what a path is."""

        def attempt(cwd: str, settled: bool) -> StatObservation:
            return describe(resolved(cwd, action.path), follow_symlinks=action.follow_symlinks)

        return await self._answered(attempt, action.timeout)

    async def move(self, action: MoveAction, call: Call) -> MoveObservation | ErrorObservation:
        def attempt(cwd: str, settled: bool) -> MoveObservation:
            return move(
                resolved(cwd, action.source),
                resolved(cwd, action.destination),
                into_directory=action.destination.endswith("/"),
                overwrite=action.overwrite,
            )

        return await self._answered(attempt, action.timeout)

    async def delete(self, action: DeleteAction, call: Call) -> DeleteObservation | ErrorObservation:
        def attempt(cwd: str, settled: bool) -> DeleteObservation:
            path = resolved(cwd, action.path)
            try:
                return delete(path, cwd, recursive=action.recursive)
            except FileActionError as refused:
                if not (settled and action.missing_ok and refused.error_id == "not_found"):
                    raise
                content = f"{shown(path)} does not exist, so there was nothing to delete."
                return DeleteObservation(content=content, path=shown(path), removed=0)

        return await self._answered(attempt, action.timeout)

    async def mkdir(self, action: MkdirAction, call: Call) -> MkdirObservation | ErrorObservation:
        def attempt(cwd: str, settled: bool) -> MkdirObservation:
            return make_directory(resolved(cwd, action.path), parents=action.parents)

        return await self._answered(attempt, action.timeout)

    @contextlib.asynccontextmanager
    async def _search(self, timeout: float | None) -> AsyncIterator[Budget]:
        """A search's turn and its time; when its caller gives up, so does a walk that is under way."""
        async with self._searches:
            if not self._loaded:
                await self._threads.run(_load)
                self._loaded = True
            from glovebox.box.files.search.walk import Budget

            budget = Budget(SEARCH_SECONDS if timeout is None else timeout)
            try:
                yield budget
            finally:
                budget.cancel()

    async def _answered(
        self, attempt: Callable[[str, bool], ObservationT], timeout: float | None
    ) -> ObservationT | ErrorObservation:
        async def in_thread(settled: bool) -> ObservationT:
            return await self._threads.run(attempt, self._shell.cwd, settled)

        return await answered(self._shell, in_thread, timeout)


def _load() -> None:
    with own_rights():
        import glovebox.box.files.search.grep  # noqa: F401
        from glovebox.box.ripgrep import RipgrepFailed, ripgrep_descriptor

        with contextlib.suppress(RipgrepFailed):  # which a search will say
            ripgrep_descriptor()
