"""The terminals of a window: named sessions, and processes of their own for static commands."""

from __future__ import annotations

import asyncio
import time

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.terminal.inspection.limits import problem
from glovebox.box.terminal.session import Session
from glovebox.box.terminal.sessions import MAIN, STATIC, SessionTable, check_name
from glovebox.box.terminal.survival.journal import Journal
from glovebox.box.threads import Threads
from glovebox.errors import BadSession, SessionExists
from glovebox.hub.window.shell import NO_SIZE, MemoryLog, WindowShell
from glovebox.hub.window_client import Hands
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import CommandAction, CommandObservation, Limits, SessionInfo

WindowSession = Session[WindowShell]

_NO_LIMITS = (
    "A command in a VS Code window cannot be limited: it runs in a terminal of its user. Leave limits out, "
    "or use a box of the backend process or docker."
)


class WindowTerminal(SessionTable[WindowShell]):
    """Runs commands in terminals of a window, and static ones in processes of their own."""

    def __init__(self, hands: Hands, *, no_change_timeout: float, events: EventLog, threads: Threads) -> None:
        super().__init__(no_change_timeout=no_change_timeout, events=events, threads=threads)
        self._hands = hands
        self._static_log = MemoryLog()

    @property
    def workspace(self) -> str:
        """The first folder of the window; the root directory if none is open."""
        folders = self._hands.window.folders
        return folders[0].path if folders else "/"

    async def close(self) -> None:
        """Stop waiting for commands; those in terminals go on."""
        await asyncio.gather(*(session.close() for session in [*self._static, *self._sessions.values()]))

    async def run(self, action: CmdRunAction, call: Call) -> CmdOutputObservation | ErrorObservation:
        """Run a command, or poll the running one or give it input."""
        if action.limits is not None and action.limits != Limits():
            return ErrorObservation(content=f"ERROR: {problem(action.limits) or _NO_LIMITS}")
        if action.is_static:
            return await self._run_static(action, call)
        try:
            session = self._named(action.session)
        except BadSession as error:
            return ErrorObservation(content=f"ERROR: {error}")
        return await session.run(action, call)

    async def execute(self, action: CommandAction, call: Call) -> CommandObservation:
        """Run a text as one command; raises what `Session.execute` does."""
        if action.limits is not None and action.limits != Limits():
            raise BadSession(problem(action.limits) or _NO_LIMITS)
        return CommandObservation.of(await self._named(action.session).execute(action, call))

    async def _run_static(self, action: CmdRunAction, call: Call) -> CmdOutputObservation | ErrorObservation:
        session = self._session(f"{STATIC}{call.id[:24]}", action.cwd or self.workspace, apart=True)
        self._static.add(session)
        try:
            return await session.run(action, call)
        finally:
            self._static.discard(session)
            await session.close()  # no later action can reach it

    # Sessions and commands.

    def sessions(self) -> list[SessionInfo]:
        self._named(MAIN)
        return super().sessions()

    def session(self, name: str) -> WindowSession:
        return self._named(MAIN) if name == MAIN else super().session(name)

    async def create(
        self,
        name: str,
        *,
        cwd: str | None = None,
        rows: int | None = None,
        columns: int | None = None,
        limits: Limits | None = None,
    ) -> SessionInfo:
        """Add a session; its terminal is opened with its first command."""
        if rows is not None or columns is not None:
            raise BadSession(NO_SIZE)
        if limits is not None:
            raise BadSession("A terminal in VS Code cannot be limited: it is its user's. Leave limits out.")
        if name in self._sessions:
            raise SessionExists(f"There is a session {name!r} already.")
        return self._named(name, cwd).info()

    async def end(self, name: str) -> None:
        """Close the terminal of a session, and end what runs in it.

        Raises:
            NoSuchSession: there is none.
            WindowError: the window refuses, or cannot be reached.
        """
        session = self.session(name)
        session.closed = True
        try:
            await session.shell.end()
            await session.close()
        finally:
            self._sessions.pop(name, None)
            self._commands.forget(name)

    async def end_all(self) -> None:
        """Forget all sessions, whose terminals the window closes; commands in them count as ended."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            session.closed = True
            self._commands.forget(session.name)
        await asyncio.gather(*(session.close() for session in sessions))

    def _named(self, name: str, cwd: str | None = None) -> WindowSession:
        if name not in self._sessions:
            check_name(name)
            self._add(self._session(name, cwd or self.workspace))
        return self._sessions[name]

    def _session(self, name: str, cwd: str, *, apart: bool = False) -> WindowSession:
        log = self._static_log if apart else MemoryLog()
        shell = WindowShell(name, self._hands, log, apart=apart)
        return self._make_session(name, shell, cwd=cwd, created=time.time(), journal=Journal(None))
