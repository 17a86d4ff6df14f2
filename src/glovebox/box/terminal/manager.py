"""The terminal of a box: named sessions, short-lived ones for static commands, and the holder behind them."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.executor import Call, Handler
from glovebox.box.services import Launched
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.holder.main import TMUX_SOCKET
from glovebox.box.terminal.holder.process_tree import MARK
from glovebox.box.terminal.holder.tmux import attach_command
from glovebox.box.terminal.holder.wire import ShellSpec
from glovebox.box.terminal.holder_client import HeldChannel, HolderClient, Receiver
from glovebox.box.terminal.inspection.limits import problem
from glovebox.box.terminal.output.buffer import COLUMNS, ROWS
from glovebox.box.terminal.output.log import LogFiles
from glovebox.box.terminal.programs import ProgramClient
from glovebox.box.terminal.services import HolderAccess, ProcessKeeper
from glovebox.box.terminal.session import Session
from glovebox.box.terminal.sessions import MAIN, STATIC, SessionTable, check_name
from glovebox.box.terminal.shell.bash_shell import BashShell, check_size
from glovebox.box.terminal.spare import SpareSession
from glovebox.box.terminal.survival import journal, restore
from glovebox.box.terminal.survival.journal import summarize
from glovebox.box.terminal.survival.state_directory import StateDirectory
from glovebox.box.threads import Threads
from glovebox.errors import BadSession, SessionExists, StartupError
from glovebox.linux.oom import OomWatch
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import (
    CommandAction,
    CommandObservation,
    Limits,
    SessionInfo,
)

#: Variables that describe the terminal the server was started from.
_NOT_INHERITED = ("COLUMNS", "LINES", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "TMUX", "TMUX_PANE")
#: The path of a socket cannot have more bytes.
_LONGEST_SOCKET = 107


#: A session whose shell is a bash in this box.
BoxSession = Session[BashShell]


class Terminal(SessionTable[BashShell]):
    """Runs commands in persistent shells of one user.

    `environment` is all that commands see of the server's. It must not hold the API key. With a `state_dir`,
    shells outlive a server that is killed, for `orphan_seconds`; with `keep_sessions`, also one that is
    stopped.
    """

    def __init__(
        self,
        *,
        working_dir: str,
        username: str,
        environment: Mapping[str, str],
        no_change_timeout: float,
        events: EventLog,
        state_dir: str | None = None,
        keep_sessions: bool = False,
        orphan_seconds: float = 3600,
        log_size: int = 1 << 30,
        kind: str = "pty",
        launched: Launched | None = None,
        rows: int = ROWS,
        columns: int = COLUMNS,
        own_columns: int = 120,
        term: str = "tmux-256color",
    ) -> None:
        super().__init__(
            no_change_timeout=no_change_timeout, events=events, threads=Threads("terminal", workers=4)
        )
        self._working_dir = working_dir
        self._username = username
        self._environment = {
            **{name: value for name, value in environment.items() if name not in _NOT_INHERITED},
            "TERM": term,
        }
        self._state_dir = state_dir
        self._keep = keep_sessions
        self._orphan_seconds = orphan_seconds
        self._log_size = log_size
        self._kind = kind
        self._launched = launched
        self._size = (rows, columns)
        self._own_columns = own_columns
        self._account: Account | None = None
        self._state: StateDirectory | None = None
        self._holder: HolderClient | None = None
        self._keeper: ProcessKeeper | None = None
        self._programs: ProgramClient | None = None
        self._spare = SpareSession(self._start_ahead, self._discard)
        self._oom = OomWatch()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def workspace(self) -> str:
        return self._working_dir

    @property
    def attach_line(self) -> str | None:
        """What to type to attach to the main shell with tmux, if it is held by tmux."""
        return self._attach(MAIN)

    # Its life.

    async def open(self) -> None:
        """Take commands from now on; the first of them waits for the shell to start.

        Raises:
            StartupError: there is no such user, no bash, no tmux if that is wanted, or the state directory is
                in use.
        """
        self._account = await self._threads.run(Account.named, self._username)
        await self._program("bash")
        tmux = await self._program("tmux") if self._kind == "tmux" else None
        self._state = await self._threads.run(StateDirectory, self._state_dir)
        if self._kind == "tmux" and len(os.fsencode(self._tmux_socket)) > _LONGEST_SOCKET:
            raise StartupError(
                f"The path {self._state.path} is too long for tmux. Choose a shorter --state-dir."
            )
        self._holder = HolderClient(
            self._state.path,
            self._threads,
            lock=self._state.lock,
            program=tmux,
            patience=self._orphan_seconds if self._state.persistent else 0,
            keep_log=self._log_size,
            launched=self._launched,
        )
        access = HolderAccess(
            self._holder, self._state, self._account, self._environment, self._working_dir, self._threads
        )
        self._keeper = ProcessKeeper(access)
        self._programs = ProgramClient(access)
        if self._state.persistent:
            await self._restore()
            await self._programs.remove_unknown()
        if MAIN not in self._sessions:
            self._add(await self._session(MAIN, self._working_dir))

    async def _program(self, name: str) -> str:
        found = await self._threads.run(shutil.which, name, path=self._environment.get("PATH"))
        if found is None:
            raise StartupError(f"There is no {name} on the PATH. Install it (apt-get install {name}).")
        return found

    async def start(self) -> None:
        """Start the main shell and wait for its prompt.

        Raises:
            StartupError: there is no such user, or no shell.
        """
        if self._holder is None:
            await self.open()
        await self._sessions[MAIN].start()

    async def close(self) -> None:
        """End all shells and everything they started, or leave them to the next server. Once is enough."""
        if self._closed:
            return
        self._closed = True
        await self._spare.close()
        keep = self._keep and self._state is not None and self._state.persistent
        if not keep:
            sessions = [*self._static, *self._sessions.values()]
            processes = [self._keeper.close()] if self._keeper else []
            await asyncio.gather(*(session.close() for session in sessions), *processes, *self._tasks)
        if self._holder is not None:
            await self._holder.close(keep=keep)
        if self._state is not None:
            if not keep:
                for name in await self._threads.run(self._state.sessions):
                    await self._threads.run(self._state.forget, name)
                await self._threads.run(self._state.forget_programs)
            await self._threads.run(self._state.close)
        self._oom.close()
        self._threads.close()

    @property
    def keeper(self) -> ProcessKeeper:
        """What starts other processes of the same user, once the terminal is open."""
        assert self._keeper is not None
        return self._keeper

    @property
    def programs(self) -> ProgramClient:
        """What starts programs without a shell, once the terminal is open."""
        assert self._programs is not None
        return self._programs

    @property
    def holder_pid(self) -> int | None:
        """The process that all shells descend from, once there is one."""
        return self._holder.pid if self._holder else None

    # Actions.

    def handlers(self) -> list[Handler]:
        """What this capability carries out."""
        return [self.run, self.execute, self.give_input]

    async def run(self, action: CmdRunAction, call: Call) -> CmdOutputObservation | ErrorObservation:
        """Run a command, or poll the running one or give it input."""
        if self._holder is None:
            return ErrorObservation(content="Bash session is not initialized")
        wrong = problem(action.limits) if action.limits else None
        if wrong:
            return ErrorObservation(content=f"ERROR: {wrong}")
        if action.is_static:
            return await self._run_static(action, call)
        try:
            session = self._sessions.get(action.session) or await self._named(action.session)
        except BadSession as error:
            return ErrorObservation(content=f"ERROR: {error}")
        try:
            return await session.run(action, call)
        finally:
            self._compact(session)

    async def execute(self, action: CommandAction, call: Call) -> CommandObservation:
        """Run a text as one command; raises what `Session.execute` does."""
        if action.limits is not None and (wrong := problem(action.limits)):
            raise BadSession(wrong)
        session = self._sessions.get(action.session) or await self._named(action.session)
        try:
            return CommandObservation.of(await session.execute(action, call))
        finally:
            self._compact(session)

    def _compact(self, session: BoxSession) -> None:
        if session.journal.overgrown:
            self._later(session.journal.compact(summarize, self._threads))

    async def _run_static(self, action: CmdRunAction, call: Call) -> CmdOutputObservation | ErrorObservation:
        session = self._static_session(call) or await self._fresh_session(action.cwd or self._working_dir)
        self._static.add(session)
        try:
            return await session.run(action, call)
        finally:
            self._static.discard(session)
            self._sessions.pop(session.name, None)
            self._later(session.close())  # the answer does not wait for the shell to go away
            if self._kind == "pty":
                self._spare.renew()

    def _static_session(self, call: Call) -> BoxSession | None:
        """The session that an earlier server had opened for the same action."""
        known = self._commands.find(call.id)
        if known is None or not known.session.startswith(STATIC):
            return None
        return self._sessions.get(known.session)

    async def _fresh_session(self, cwd: str) -> BoxSession:
        """A session for one static command, with a shell that was started ahead if there is one."""
        # Links in /proc mean something else to each process, and bash does not find out where they lead.
        usual = os.path.isabs(cwd) and not cwd.startswith("/proc/")
        spare = await self._spare.take() if usual else None
        if spare is None:
            return await self._session(_static_name(), cwd, static=True)
        spare.cwd = cwd
        spare.journal.append(msgspec.structs.replace(spare.shell.opened, cwd=cwd, created=time.time()))
        return spare

    async def _start_ahead(self) -> BoxSession:
        session = await self._session(_static_name(), self._working_dir, static=True)
        await session.shell.start_ahead(self._working_dir, self._environment.get("PWD", ""))
        return session

    async def _discard(self, session: BoxSession) -> None:
        """End a session that was never used."""
        await session.shell.close()
        session.journal.close()
        assert self._state is not None
        await self._threads.run(self._state.forget, session.name)

    # Sessions and commands.

    async def create(
        self,
        name: str,
        *,
        cwd: str | None = None,
        rows: int | None = None,
        columns: int | None = None,
        limits: Limits | None = None,
    ) -> SessionInfo:
        """Open a session and start its shell."""
        size = (self._size[0] if rows is None else rows, self._size[1] if columns is None else columns)
        check_size(*size)
        if limits is not None and (wrong := problem(limits)):
            raise BadSession(wrong)
        check_name(name)
        if name in self._sessions:
            raise SessionExists(f"There is a session {name!r} already.")
        directory = os.path.join(self._working_dir, cwd or "")
        assert self._account is not None
        if cwd and not await self._threads.run(self._account.can_enter, directory):
            raise BadSession(f"{cwd!r} is no directory that a shell could begin in.")
        session = await self._session(name, directory if cwd else self._working_dir, size=size, limits=limits)
        self._add(session)
        await session.start()
        return session.info()

    async def end(self, name: str) -> None:
        """End a session and everything in it.

        Raises:
            NoSuchSession: there is none.
        """
        session = self.session(name)
        del self._sessions[name]
        await session.close()
        self._commands.forget(name)
        assert self._state is not None
        await self._threads.run(self._state.forget, name)

    async def _named(self, name: str) -> BoxSession:
        if name not in self._sessions:
            check_name(name)
            session = await self._session(name, self._working_dir)
            if name not in self._sessions:  # another call may have been faster
                self._add(session)
        return self._sessions[name]

    async def _session(
        self,
        name: str,
        cwd: str,
        *,
        size: tuple[int, int] | None = None,
        limits: Limits | None = None,
        static: bool = False,
    ) -> BoxSession:
        rows, columns = size or self._size
        opened = journal.Opened(
            name=name,
            created=time.time(),
            cwd=cwd,
            rows=rows,
            columns=columns,
            limits=limits or Limits(),
            static=static,
        )
        session = await self._make(opened)
        session.journal.append(opened)
        return session

    async def _make(self, opened: journal.Opened) -> BoxSession:
        assert self._account is not None
        assert self._state is not None
        directory = await self._threads.run(self._state.session, opened.name)
        lines = journal.Journal(os.path.join(directory, "journal") if self._state.persistent else None)
        shell = BashShell(
            opened,
            directory=directory,
            open_terminal=self._open_terminal,
            account=self._account,
            threads=self._threads,
            events=self._events,
            journal=lines,
            columns=self._own_columns,
            oom=self._oom,
        )
        session = self._make_session(
            opened.name, shell, cwd=opened.cwd, created=opened.created, journal=lines
        )
        shell.on_entered = session.entered
        return session

    async def _open_terminal(
        self, shell: BashShell, *, files: LogFiles, rcfile: str, token: str, cwd: str, receiver: Receiver
    ) -> HeldChannel:
        assert self._account is not None
        assert self._holder is not None
        account = self._account
        name = f"{shell.opened.name}-{secrets.token_hex(4)}"
        spec = ShellSpec(
            name=name,
            arguments=["bash", "--rcfile", rcfile],
            environment={**self._environment, **account.variables, MARK: name},
            cwd=cwd,
            rows=shell.opened.rows,
            columns=shell.opened.columns,
            uid=account.uid if account.switch else None,
            gid=account.gid if account.switch else None,
            groups=account.groups if account.switch else (),
            token=token,
        )
        shell.attach = self._attach(name)
        return await self._holder.open(spec, files, os.path.dirname(rcfile), receiver)

    def _attach(self, name: str) -> str | None:
        if self._kind != "tmux" or self._state is None:
            return None
        return shlex.join(attach_command(self._tmux_socket, name))

    @property
    def _tmux_socket(self) -> str:
        assert self._state is not None
        return os.path.join(self._state.path, TMUX_SOCKET)

    # After a restart.

    async def _restore(self) -> None:
        assert self._state is not None
        assert self._holder is not None
        found = restore.restore_sessions(
            self._state,
            self._holder,
            self.keeper,
            make=self._make,
            account=self._account,
            threads=self._threads,
        )
        async for session, held in found:
            self._sessions[session.name] = session
            session.shell.attach = self._attach(held) if held else None
            if session.shell.opened.static:
                self._later(self._close_after(session))

    async def _close_after(self, session: BoxSession) -> None:
        """End a static session of an earlier server when its command has ended."""
        if session.pending is not None:
            await asyncio.wait([session.pending.ended])
        await session.settled()
        self._sessions.pop(session.name, None)
        await session.close()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _forgotten(self, command: RunningCommand) -> None:
        """A static session leaves its log as long as its command is remembered."""
        if command.session.startswith(STATIC) and self._state is not None:
            self._later(self._threads.run(self._state.forget, command.session))


def _static_name() -> str:
    return f"{STATIC}{secrets.token_hex(12)}"
