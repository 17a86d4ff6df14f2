"""The sessions of a box by name and its commands by id, whatever its shells are."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Generic

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.terminal.commands import Commands, RunningCommand
from glovebox.box.terminal.output.presentation import reread
from glovebox.box.terminal.session import Session, ShellT
from glovebox.box.terminal.survival.journal import Journal
from glovebox.box.threads import Threads
from glovebox.errors import BadSession, NoSuchSession
from glovebox.protocol.events import Output, SessionChanged
from glovebox.protocol.terminal import CommandInputAction, CommandObservation, Limits, SessionInfo

MAIN = "main"
#: Begins the names of sessions that are opened for one static command each.
STATIC = "static-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class SessionTable(ABC, Generic[ShellT]):
    """A table of sessions; subclasses open them. It is also the `Shell` of `box/machine.py`."""

    def __init__(self, *, no_change_timeout: float, events: EventLog, threads: Threads) -> None:
        self._no_change_timeout = no_change_timeout
        self._events = events
        self._threads = threads
        self._commands = Commands(self._forgotten)
        self._sessions: dict[str, Session[ShellT]] = {}
        self._static: set[Session[ShellT]] = set()

    @property
    @abstractmethod
    def workspace(self) -> str:
        """The directory that sessions begin in."""

    @property
    def cwd(self) -> str:
        main = self._sessions.get(MAIN)
        return main.cwd if main else self.workspace

    async def settled(self) -> None:
        """Wait until every command that the main shell accepted before now has been answered."""
        if main := self._sessions.get(MAIN):
            await main.settled()

    def sessions(self) -> list[SessionInfo]:
        return [session.info() for session in self._sessions.values()]

    def session(self, name: str) -> Session[ShellT]:
        """The session of that name.

        Raises:
            NoSuchSession: there is none.
        """
        try:
            return self._sessions[name]
        except KeyError:
            raise NoSuchSession(f"There is no session {name!r}.") from None

    @abstractmethod
    async def create(
        self,
        name: str,
        *,
        cwd: str | None = None,
        rows: int | None = None,
        columns: int | None = None,
        limits: Limits | None = None,
    ) -> SessionInfo:
        """Open a session.

        Raises:
            SessionExists: the name is taken.
            BadSession: no session can be like that.
            StartupError: its shell could not be started.
        """

    @abstractmethod
    async def end(self, name: str) -> None:
        """End a session and everything in it.

        Raises:
            NoSuchSession: there is none.
        """

    def command(self, command_id: str) -> RunningCommand:
        """The command of that id.

        Raises:
            NoSuchCommand: there is none, or none any more.
        """
        return self._commands.get(command_id)

    async def give_input(self, action: CommandInputAction, call: Call) -> CommandObservation:
        """Give input to the command that runs in a session; raises what `Session.give_input` does."""
        return CommandObservation.of(await self.session(action.session).give_input(action, call))

    def newest_commands(self, session: str | None, limit: int) -> list[RunningCommand]:
        """The newest commands, of one session or all, the newest first."""
        return self._commands.newest(session, limit)

    def reread(self, command_id: str, start: int, end: int) -> AsyncGenerator[Output, None]:
        """What a command printed, from its log."""
        return reread(self.command(command_id), start, end)

    def _make_session(
        self, name: str, shell: ShellT, *, cwd: str, created: float, journal: Journal
    ) -> Session[ShellT]:
        return Session(
            name,
            shell,
            cwd=cwd,
            created=created,
            no_change_timeout=self._no_change_timeout,
            threads=self._threads,
            commands=self._commands,
            events=self._events,
            journal=journal,
        )

    def _add(self, session: Session[ShellT]) -> None:
        self._sessions[session.name] = session
        self._events.append(SessionChanged, session=session.name, what="opened")

    def _forgotten(self, command: RunningCommand) -> None:
        """Called when a command is dropped from the table."""


def check_name(name: str) -> None:
    """Refuse a name that no session can have.

    Raises:
        BadSession: it has other characters, is too long, or begins like those of static commands.
    """
    if not _NAME.fullmatch(name) or name.startswith(STATIC):
        raise BadSession(
            f"{name!r} cannot be the name of a session: use 1 to 64 letters, digits, - and _, "
            f"not beginning with - or {STATIC!r}."
        )
