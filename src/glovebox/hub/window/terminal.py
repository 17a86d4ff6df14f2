"""The terminals of a window: named sessions, and processes of their own for static commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.terminal.commands import Commands, RunningCommand
from glovebox.box.terminal.inspection.limits import problem
from glovebox.box.terminal.manager import MAIN, STATIC, check_name
from glovebox.box.terminal.output.presentation import reread
from glovebox.box.terminal.session import Session
from glovebox.box.terminal.survival.journal import Journal
from glovebox.box.threads import Threads
from glovebox.errors import BadSession, NoSuchSession, SessionExists
from glovebox.hub.window.shell import MemoryLog, WindowShell
from glovebox.hub.window_client import Hands
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import SessionChanged
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.streams import Output
from glovebox.protocol.terminal import Limits, SessionInfo

WindowSession = Session[WindowShell]

_NO_LIMITS = (
    "A command in a VS Code window cannot be limited: it runs in a terminal of its user. Leave limits out, "
    "or use a box of the backend process or docker."
)


class WindowTerminal:
    """Runs commands in terminals of a window. It is also what others know of the shell (`box/shell.py`)."""

    def __init__(self, hands: Hands, *, no_change_timeout: float, events: EventLog, threads: Threads) -> None:
        self._hands = hands
        self._no_change_timeout = no_change_timeout
        self._events = events
        self._threads = threads
        self._commands = Commands(lambda command: None)
        self._sessions: dict[str, WindowSession] = {}
        self._static: set[WindowSession] = set()
        self._static_log = MemoryLog()

    @property
    def workspace(self) -> str:
        """The first folder of the window; the root directory if none is open."""
        folders = self._hands.window.folders
        return folders[0].path if folders else "/"

    @property
    def cwd(self) -> str:
        main = self._sessions.get(MAIN)
        return main.cwd if main else self.workspace

    async def settled(self) -> None:
        """Wait until every command that the main shell accepted before now has been answered."""
        if main := self._sessions.get(MAIN):
            await main.settled()

    async def close(self) -> None:
        """Wait for no command any more."""
        await asyncio.gather(*(session.close() for session in [*self._static, *self._sessions.values()]))

    async def run(self, action: CmdRunAction, call: Call) -> CmdOutputObservation | ErrorObservation:
        """Run a command, poll the one that runs, or talk to it."""
        if action.limits is not None and action.limits != Limits():
            return ErrorObservation(content=f"ERROR: {problem(action.limits) or _NO_LIMITS}")
        if action.is_static:
            return await self._run_static(action, call)
        try:
            session = self._named(action.session)
        except BadSession as error:
            return ErrorObservation(content=f"ERROR: {error}")
        return await session.run(action, call)

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
        return [session.info() for session in self._sessions.values()]

    def session(self, name: str) -> WindowSession:
        """The session of that name.

        Raises:
            NoSuchSession: there is none.
        """
        if name == MAIN:
            return self._named(MAIN)
        try:
            return self._sessions[name]
        except KeyError:
            raise NoSuchSession(f"There is no session {name!r}.") from None

    def command(self, command_id: str) -> RunningCommand:
        """The command of that id.

        Raises:
            NoSuchCommand: there is none, or none any more.
        """
        return self._commands.get(command_id)

    async def create(self, name: str, *, cwd: str | None = None) -> SessionInfo:
        """Have a session; its terminal is opened with its first command.

        Raises:
            SessionExists: the name is taken.
            BadSession: no session can have that name.
        """
        if name in self._sessions:
            raise SessionExists(f"There is a session {name!r} already.")
        return self._named(name, cwd).info()

    async def end(self, name: str) -> None:
        """Close the terminal of a session, and end what runs in it.

        Raises:
            NoSuchSession: there is none.
            WindowError: the window refuses, or cannot be asked.
        """
        session = self.session(name)
        session.closed = True
        try:
            await session.shell.end()
            await session.close()
        finally:
            self._sessions.pop(name, None)
            self._commands.forget(name)

    def reread(self, command_id: str, start: int, end: int) -> AsyncGenerator[Output, None]:
        """What a command printed, from its log."""
        return reread(self.command(command_id), start, end)

    def _named(self, name: str, cwd: str | None = None) -> WindowSession:
        if name not in self._sessions:
            check_name(name)
            self._sessions[name] = self._session(name, cwd or self.workspace)
            self._events.append(SessionChanged, session=name, what="opened")
        return self._sessions[name]

    def _session(self, name: str, cwd: str, *, apart: bool = False) -> WindowSession:
        log = self._static_log if apart else MemoryLog()
        return Session(
            name,
            WindowShell(name, self._hands, log, apart=apart),
            cwd=cwd,
            created=time.time(),
            no_change_timeout=self._no_change_timeout,
            threads=self._threads,
            commands=self._commands,
            events=self._events,
            journal=Journal(None),
        )
