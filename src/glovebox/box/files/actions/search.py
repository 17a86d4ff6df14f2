"""The `glob` and `grep` actions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from glovebox.box.credentials import Identity, own_rights
from glovebox.box.executor import Call, Handler
from glovebox.box.files.actions.paths import answered
from glovebox.box.machine import MainShell
from glovebox.box.threads import Threads
from glovebox.protocol.files import GlobAction, GlobObservation, GrepAction, GrepObservation
from glovebox.protocol.observations import ErrorObservation

if TYPE_CHECKING:  # loaded with the first search: a box has to start
    from glovebox.box.files.search.walk import Budget

#: How long a search may take unless its action says.
SEARCH_SECONDS = 30.0
#: Searches at the same time. More of them wait, so that some threads are always left for quick things.
MAX_SEARCHES = 4


class SearchActions:
    """Finds files and lines. A search does not wait for the shell unless something is missing.

    `identity` is the user that ripgrep runs as, if that is not the server's.
    """

    def __init__(self, *, shell: MainShell, threads: Threads, identity: Identity | None = None) -> None:
        self._shell = shell
        self._threads = threads
        self._identity = identity
        self._searches = asyncio.Semaphore(MAX_SEARCHES)
        self._loaded = False

    def handlers(self) -> list[Handler]:
        return [self.glob, self.grep]

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


def _load() -> None:
    with own_rights():
        import glovebox.box.files.search.grep  # noqa: F401
        from glovebox.box.ripgrep import RipgrepFailed, ripgrep_descriptor

        with contextlib.suppress(RipgrepFailed):  # which a search will say
            ripgrep_descriptor()
