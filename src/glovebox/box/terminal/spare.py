"""A session whose shell was started ahead, for the next static command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from glovebox.box.terminal.session import Session
from glovebox.box.terminal.shell.bash_shell import BashShell
from glovebox.errors import StartupError

#: A spare session that is not needed for so long is ended.
_KEPT = 60.0


class SpareSession:
    """At most one unused session. It is handed out once.

    `make` starts one, `discard` ends one that was not used.
    """

    def __init__(
        self,
        make: Callable[[], Awaitable[Session[BashShell]]],
        discard: Callable[[Session[BashShell]], Awaitable[None]],
    ) -> None:
        self._make = make
        self._discard = discard
        self._starting: asyncio.Task[Session[BashShell]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def renew(self) -> None:
        if self._starting is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._starting = loop.create_task(self._start())
            self._timer = loop.call_later(_KEPT, self._drop)

    async def take(self) -> Session[BashShell] | None:
        """The spare session, if there is one."""
        starting = self._withdraw()
        if starting is None:
            return None
        try:
            session = await asyncio.shield(starting)
        except (OSError, StartupError):
            return None
        except asyncio.CancelledError:
            self._end(starting)
            raise
        if session.shell.waits:
            return session
        self._end(starting)
        return None

    async def close(self) -> None:
        self._closed = True
        self._drop()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _start(self) -> Session[BashShell]:
        return await self._make()

    def _withdraw(self) -> asyncio.Task[Session[BashShell]] | None:
        starting, self._starting = self._starting, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return starting

    def _drop(self) -> None:
        if starting := self._withdraw():
            self._end(starting)

    def _end(self, starting: asyncio.Task[Session[BashShell]]) -> None:
        task = asyncio.get_running_loop().create_task(self._end_started(starting))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end_started(self, starting: asyncio.Task[Session[BashShell]]) -> None:
        with contextlib.suppress(OSError, StartupError):
            await self._discard(await starting)
