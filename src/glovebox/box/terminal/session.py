"""A persistent shell with a name: its life, its terminal, and the people who watch."""

from __future__ import annotations

import asyncio
import functools
import os
import signal as signals
import time
import uuid
from typing import Literal, Protocol

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.terminal import replies
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.commands import Command, Commands
from glovebox.box.terminal.conversation import Answer, Conversation, Pending
from glovebox.box.terminal.monitor import Monitor
from glovebox.box.terminal.output.log import PIECE, LogFiles
from glovebox.box.terminal.output.presentation import plain
from glovebox.box.terminal.shell.bash import Bash
from glovebox.box.terminal.shell.channel import Channel, Receiver
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.shell.launch import start_bash
from glovebox.box.terminal.shell.run import Run, ShellEnd
from glovebox.box.terminal.survival.journal import Ended, Journal, Opened, Resized, ShellStarted
from glovebox.box.threads import Threads
from glovebox.errors import BadSession, CommandEnded, SessionTaken, StartupError
from glovebox.linux import processes
from glovebox.linux.oom import OomWatch
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import SessionChanged
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.terminal import Bill, Limits, SessionInfo

_MOST_CELLS = 10_000


class OpenTerminal(Protocol):
    """Makes terminals for sessions."""

    async def __call__(
        self, session: Session, *, rcfile: str, token: str, cwd: str, log: str, receiver: Receiver
    ) -> Channel:
        """A terminal with a bash in it."""


class Session:
    """A shell with a queue: commands run in the order of their arrival.

    A shell that ended is replaced when the next command comes, in the last known directory.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        directory: str,
        open_terminal: OpenTerminal,
        account: Account,
        no_change_timeout: float,
        threads: Threads,
        commands: Commands,
        events: EventLog,
        journal: Journal,
    ) -> None:
        self.name = opened.name
        self.opened = opened
        self.cwd = opened.cwd
        self.journal = journal
        self.closed = False
        self.attach: str | None = None
        self.shell: Bash | None = None
        self.conversation = Conversation(self, no_change_timeout=no_change_timeout, threads=threads)
        self.log_directory = os.path.join(directory, "log")
        self._files = LogFiles(self.log_directory)
        self._connect = functools.partial(open_terminal, self)
        self._account = account
        self._threads = threads
        self.commands = commands
        self._events = events
        self._oom = OomWatch()
        self._lock = asyncio.Lock()
        self._turns: set[asyncio.Future[None]] = set()
        self._former: list[Bash] = []
        self._starting: asyncio.Task[Bash] | None = None
        self._owner: object | None = None
        self._news: asyncio.Event | None = None

    def info(self) -> SessionInfo:
        """Everything that is known of it."""
        pending = self.conversation.pending
        running = pending is not None and not pending.run.ended.done()
        alive = self.shell is not None and self.shell.alive
        return SessionInfo(
            name=self.name,
            pid=self.shell.channel.pid if alive and self.shell else None,
            cwd=self.cwd,
            rows=self.opened.rows,
            columns=self.opened.columns,
            created=self.opened.created,
            command=pending.command.id if pending and running else None,
            taken=self._owner is not None,
            limits=self.opened.limits,
            attach=self.attach,
        )

    # Its life.

    async def start(self) -> None:
        """Start the shell now instead of with the first command.

        Raises:
            StartupError: it could not be started.
        """
        async with self._lock:
            await self.ready()

    async def close(self) -> None:
        """End the shell and everything it started, and answer the commands that wait."""
        self.closed = self.conversation.closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        shells = [*self._former, *([self.shell] if self.shell else [])]
        self._former = []
        await asyncio.gather(*(shell.close() for shell in shells))
        await self.settled()
        self.journal.close()
        self._oom.close()
        self._tell("closed")
        self._wake()

    async def settled(self) -> None:
        """Wait until every command that was accepted before now has been answered."""
        if self._turns:
            await asyncio.wait(set(self._turns))

    async def run(self, action: CmdRunAction, call: Call) -> Answer:
        text = action.command.strip()
        if "\0" in text:
            return replies.unreadable("it contains a NUL character")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            return replies.unreadable("it contains half of a surrogate pair, which is no character")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.add(turn)
        try:
            async with self._lock:
                if self._owner is not None and text:
                    return replies.taken_over(self.name)
                return await self.conversation.answer(action, text, call)
        except StartupError as error:
            return ErrorObservation(content=str(error))
        finally:
            self._turns.discard(turn)
            turn.set_result(None)

    # What the conversation asks for.

    async def ready(self) -> Bash:
        """The shell, started anew if it is gone.

        A caller that gives up waiting does not end the start: the next one gets the shell.
        """
        if self.shell is not None and self.shell.alive:
            await self.shell.replayed.wait()
            return self.shell
        if self._starting is None:
            if self.closed:
                raise StartupError("Bash session is not initialized")
            self._starting = asyncio.get_running_loop().create_task(self._start())
        try:
            return await asyncio.shield(self._starting)
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None

    def command(
        self,
        command_id: str,
        text: str,
        *,
        by: Literal["agent", "person"] = "agent",
        started: float | None = None,
    ) -> Command:
        command = Command(
            command_id=command_id,
            session=self.name,
            text=text,
            files=self._files,
            log=self._events,
            threads=self._threads,
            by=by,
            started=started,
        )
        self.commands.add(command)
        return command

    async def watch(self, command: Command, run: Run, limits: Limits | None) -> None:
        """See to a command that is about to run."""
        await self._watch(command, run, limits or self.opened.limits).begin()

    def _watch(self, command: Command, run: Run, limits: Limits) -> Monitor:
        assert self.shell is not None
        pid = self.shell.channel.pid
        monitor = Monitor(command, run, pid, limits, self._threads, self._oom)
        command.deliver_signal = functools.partial(_signal_foreground, pid)
        run.ended.add_done_callback(functools.partial(self._command_ended, command, monitor))
        return monitor

    def _command_ended(
        self, command: Command, monitor: Monitor, ended: asyncio.Future[EndReport | ShellEnd]
    ) -> None:
        result = ended.result()
        bill, limit = monitor.end(result)
        command.end(result, bill, limit=limit, oom=monitor.killed(result, bill))
        if not self.closed:
            self.journal.append(ended_entry(command, bill, limit))

    def _entered(self, run: Run, typed: bytes) -> None:
        """A person entered a line at the prompt."""
        command = self.command(uuid.uuid4().hex, plain(typed), by="person")
        run.printed = command.printed
        self._watch(command, run, self.opened.limits)
        pending = self.conversation.pending
        if pending is None or (pending.run.ended.done() and pending.command.by == "person"):
            self.conversation.pending = Pending(command, run)
        elif pending.run.ended.done():
            self.conversation.following = Pending(command, run)

    async def _start(self) -> Bash:
        if self.shell is not None:
            dead, self.shell = self.shell, None
            self._former.append(dead)
            await dead.remove_files()
        await self._threads.run(self._oom.open)
        shell, identity = await start_bash(
            self._connect, self._account, cwd=self.cwd, log=self.log_directory, threads=self._threads
        )
        self.journal.append(ShellStarted(identity=identity))
        self.use(shell)
        self._tell("started")
        return shell

    def use(self, shell: Bash) -> None:
        """Have a shell, new or found again."""
        self.shell = shell
        self._files = shell.channel.files
        shell.entered = self._entered
        shell.printed = self._wake

    def use_log(self, files: LogFiles) -> None:
        """Have the log that an earlier shell left."""
        self._files = files

    def see_to(self, command: Command, run: Run) -> None:
        """Take care of a command that runs already."""
        command.use(self._files)
        self._watch(command, run, self.opened.limits)

    # Its terminal.

    @property
    def position(self) -> int:
        """The end of what its terminal has printed."""
        return self.shell.channel.position if self.shell is not None else self._files.end

    async def read(self, offset: int, limit: int = PIECE) -> bytes:
        """What its terminal printed, raw; empty at the end.

        Raises:
            OutputGone: it is not kept any more.
        """
        return await self._threads.run(self._files.fetch, offset, limit)

    async def changed(self, offset: int) -> None:
        """Wait until something was printed beyond `offset`, or the session is closed."""
        while self.position <= offset and not self.closed:
            if self._news is None:
                self._news = asyncio.Event()
            await self._news.wait()

    def type(self, data: bytes) -> None:
        """Press keys, as a person does."""
        if self.shell is not None and self.shell.alive:
            self.shell.touched = True
            self.shell.channel.write(data)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal.

        Raises:
            BadSession: no terminal has that size.
        """
        check_size(rows, columns)
        self.opened = msgspec.structs.replace(self.opened, rows=rows, columns=columns)
        self.journal.append(Resized(rows=rows, columns=columns))
        if self.shell is not None and self.shell.alive:
            self.shell.channel.resize(rows, columns)
        self._tell("resized")

    async def signal(self, name: str) -> None:
        """Send a signal to whatever runs in the foreground.

        Raises:
            BadSession: there is no such signal.
            CommandEnded: nothing runs.
        """
        if self.shell is None or not self.shell.alive or not self.shell.busy:
            _signal_number(name)
            raise CommandEnded(f"Nothing runs in the session {self.name!r}.")
        await self._threads.run(_signal_foreground, self.shell.channel.pid, name)

    def take(self, who: object) -> None:
        """Let a person have it: agents' commands are refused meanwhile.

        Raises:
            SessionTaken: somebody else has it.
        """
        if self._owner is not None and self._owner is not who:
            raise SessionTaken(f"Somebody else has taken over the session {self.name!r}.")
        self._owner = who
        self._tell("taken")

    def release(self, who: object) -> None:
        if self._owner is who:
            self._owner = None
            self._tell("released")

    def taken_by(self, who: object) -> bool:
        """Whether this person has it."""
        return self._owner is who

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def _tell(self, what: str) -> None:
        self._events.append(SessionChanged, session=self.name, what=what)


def ended_entry(command: Command, bill: Bill, limit: str | None) -> Ended:
    """How a command ended, for the journal."""
    result = command.result
    return Ended(
        id=command.id,
        extents=command.extents,
        ended=command.info().ended or time.time(),
        report=result if isinstance(result, EndReport) else None,
        status=result.status if isinstance(result, ShellEnd) else None,
        bill=bill,
        limit=limit,
        oom=command.info().oom,
    )


def check_size(rows: int, columns: int) -> None:
    """Refuse what no terminal can have.

    Raises:
        BadSession: it has no or too many rows or columns.
    """
    if not (1 <= rows <= _MOST_CELLS and 1 <= columns <= _MOST_CELLS):
        raise BadSession(f"A terminal has 1 to {_MOST_CELLS:,} rows and columns, not {rows} by {columns}.")


def _signal_number(name: str) -> int:
    text = name.strip().upper()
    known = {member.name: member.value for member in signals.Signals}
    number = int(text) if text.isascii() and text.isdigit() else known.get(text, known.get(f"SIG{text}", 0))
    if number not in known.values():
        raise BadSession(f"There is no signal {name!r}. Use a name like SIGINT or TERM, or a number.")
    return number


def _signal_foreground(shell: int, name: str) -> None:
    """Send a signal to the foreground process group of a shell's terminal. Blocks."""
    number = _signal_number(name)
    seen = processes.read(shell)
    try:
        if seen is None or seen.foreground <= 1:
            raise ProcessLookupError
        os.killpg(seen.foreground, number)
    except ProcessLookupError:
        raise CommandEnded("There is nothing left to signal.") from None
