"""The shell of a session in the box: a bash on a terminal of the holder, replaced when it has ended."""

from __future__ import annotations

import asyncio
import os
import signal as signals
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.machine import TerminalInfo
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.commands import RunningCommand, ShellEnd
from glovebox.box.terminal.holder_client import HeldChannel, Receiver
from glovebox.box.terminal.output.buffer import COLUMNS, ROWS
from glovebox.box.terminal.output.log import PIECE, LogFiles
from glovebox.box.terminal.shell.bash import Bash
from glovebox.box.terminal.shell.command_file import Delivery
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.shell.monitor import Monitor
from glovebox.box.terminal.survival.journal import (
    Began,
    Ended,
    Journal,
    Opened,
    Resized,
    Sent,
    ShellIdentity,
    ShellStarted,
)
from glovebox.box.threads import Threads
from glovebox.errors import BadSession, CommandEnded, StartupError
from glovebox.linux import processes
from glovebox.linux.oom import OomWatch
from glovebox.protocol.events import SessionChanged
from glovebox.protocol.terminal import Limits

#: How long the user's startup files may take.
_START_LIMIT = 20.0
_MOST_CELLS = 10_000
#: The height of the terminal for commands outside the contract.
_OWN_ROWS = 40
#: tmux changes a size that was changed less than 250 ms ago later.
_TMUX_PAUSE = 0.3


class OpenTerminal(Protocol):
    """Opens terminals in the holder."""

    async def __call__(
        self, shell: BashShell, *, files: LogFiles, rcfile: str, token: str, cwd: str, receiver: Receiver
    ) -> HeldChannel:
        """A terminal with a bash that reads `rcfile` and marks its start with `token`; its log is `files`.

        Raises:
            OSError: it could not be opened.
        """


class BashShell:
    """Starts bash when it is needed, runs commands in it and measures them, and keeps the journal of that."""

    #: No command runs here that the session does not know.
    unattended = False

    def __init__(
        self,
        opened: Opened,
        *,
        directory: str,
        open_terminal: OpenTerminal,
        account: Account,
        threads: Threads,
        events: EventLog,
        journal: Journal,
        oom: OomWatch,
        columns: int = 120,
    ) -> None:
        """`columns`: how wide the terminal is for commands outside the contract, unless the size was set."""
        self.opened = opened
        self._own_size = (_OWN_ROWS, columns)
        #: The size that the terminal has; None if that is not known.
        self._size: tuple[int, int] | None = None
        self._resized = 0.0
        #: The command line that attaches to it with tmux.
        self.attach: str | None = None
        #: Makes the command for a line that a person enters at the prompt.
        self.on_entered: Callable[[bytes], RunningCommand] | None = None
        self.log_directory = os.path.join(directory, "log")
        self.log = LogFiles(self.log_directory)
        self.closed = False
        self._bash: Bash | None = None
        #: Started ahead, it waits for its directory.
        self._ahead: Bash | None = None
        self._former: list[Bash] = []
        self._starting: asyncio.Task[None] | None = None
        self._monitors: dict[RunningCommand, Monitor] = {}
        self._oom = oom
        self._open_terminal = open_terminal
        self._account = account
        self._threads = threads
        self._events = events
        self._journal = journal
        self._news: asyncio.Event | None = None

    @property
    def report(self) -> EndReport | None:
        return self._bash.report if self._bash is not None else None

    @property
    def terminal(self) -> TerminalInfo:
        opened, bash = self.opened, self._living
        pid = bash.channel.pid if bash is not None else None
        rows, columns = self._size or (opened.rows, opened.columns)
        return TerminalInfo(pid, rows, columns, opened.limits, self.attach)

    @property
    def _living(self) -> Bash | None:
        return self._bash if self._bash is not None and self._bash.alive else None

    # Its life.

    async def ready(self, cwd: str) -> ShellEnd | None:
        """Start a bash in a directory unless there is one; how the one before it ended, if that is why.

        A caller that is cancelled does not end the start: the next one gets the shell.

        Raises:
            StartupError: there is no bash, or it does not come to a prompt.
        """
        gone = None
        if self._bash is not None:
            if self._bash.alive:
                await self._bash.replayed.wait()
                return None
            gone = ShellEnd(self._bash.exit_status)
        if self._starting is None:
            if self.closed:
                raise StartupError("Bash session is not initialized")
            self._starting = asyncio.get_running_loop().create_task(self._start(cwd))
        try:
            await asyncio.shield(self._starting)
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None
        return gone

    async def start_ahead(self, cwd: str, inherited: str) -> None:
        """Start a bash that reads the user's startup files when it is needed, in the directory it gets then.

        `inherited` is the directory that its environment names.

        Raises:
            OSError: it could not be started.
        """
        bash = Bash(self._threads, self)
        try:
            await self._open(bash, cwd, ahead=True, inherited=inherited)
            self._ahead = bash
        finally:
            if self._ahead is None:
                await bash.close()

    @property
    def waits(self) -> bool:
        """Whether there is a bash that was started ahead."""
        return self._ahead is not None and self._ahead.alive

    async def close(self) -> None:
        """End bash and everything it started."""
        self.closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        shells = [*self._former, *(bash for bash in (self._bash, self._ahead) if bash)]
        self._former = []
        await asyncio.gather(*(bash.close() for bash in shells))
        self.printed()

    async def _start(self, cwd: str) -> None:
        if self._bash is not None:
            dead, self._bash = self._bash, None
            self._former.append(dead)
            await dead.remove_files()
        ahead, self._ahead = self._ahead, None
        self._size = (self.opened.rows, self.opened.columns)
        if ahead is not None and not await self._enter(ahead, cwd):
            ahead = None
        for user_files in (True, False):
            bash, ahead = ahead or Bash(self._threads, self), None
            identity: ShellIdentity | None = None
            try:
                async with asyncio.timeout(_START_LIMIT):
                    identity = await self._begin(bash, cwd, user_files=user_files)
            except TimeoutError:
                pass
            except OSError as error:
                raise StartupError(f"bash could not be started: {error}") from error
            finally:  # also when this is cancelled
                if identity is None:
                    await bash.close()
            if identity is not None:
                self._journal.append(ShellStarted(identity=identity))
                self._use(bash)
                self._tell("started")
                return
        raise StartupError("bash did not come to a prompt")

    async def _enter(self, ahead: Bash, cwd: str) -> bool:
        """Send a bash that was started ahead to its directory; whether it is as good as a new one."""
        assert ahead.delivery is not None
        ahead.delivery.enter(cwd)
        if await self._threads.run(ahead.delivery.is_fresh):
            return True
        await ahead.close()
        return False

    async def _begin(self, bash: Bash, cwd: str, *, user_files: bool) -> ShellIdentity | None:
        """Start a bash, if it was not started ahead; None if it ended before its first prompt."""
        delivery = bash.delivery or await self._open(bash, cwd, user_files=user_files)
        if not await bash.started():
            return None
        return ShellIdentity(
            number=bash.channel.number,
            session_token=bash.session_token,
            start_token=bash.start_token,
            directory=delivery.path,
            position=bash.channel.begin,
            signs=bash.signs,
        )

    async def _open(
        self, bash: Bash, cwd: str, *, user_files: bool = True, ahead: bool = False, inherited: str = ""
    ) -> Delivery:
        group = self._account.gid if self._account.switch else None

        def prepare() -> tuple[Delivery, LogFiles]:
            self._oom.open()
            files = LogFiles.find(self.log_directory)
            tokens = {"session": bash.session_token, "token": bash.start_token}
            return Delivery(**tokens, group=group, ahead=ahead, inherited=inherited), files

        delivery, files = await self._threads.run(prepare)
        rcfile = delivery.startup if user_files else delivery.hooks

        def open_terminal(receiver: Receiver) -> Awaitable[HeldChannel]:
            return self._open_terminal(
                self, files=files, rcfile=rcfile, token=bash.start_token, cwd=cwd, receiver=receiver
            )

        await bash.open(delivery, open_terminal)
        return delivery

    def _use(self, bash: Bash) -> None:
        self._bash = bash
        self.log = bash.channel.files

    async def restore(
        self,
        identity: ShellIdentity,
        delivery: Delivery,
        adopt: Callable[[Receiver, int], HeldChannel],
        *,
        end: int,
        last: Began | None,
        command: RunningCommand | None,
    ) -> None:
        """Use a bash that an earlier server started, with the last command that it was given.

        Its log is read again up to `end`.
        """
        bash = Bash(self._threads, self, identity.session_token, identity.start_token, signs=identity.signs)
        bash.go_on(delivery, adopt, identity.position, end, last, command)
        self._use(bash)
        if command is not None and not command.finished:
            command.log, command.shell = self.log, self
            self._watch(command, self.opened.limits)
        await bash.replayed.wait()

    # Commands.

    async def run(self, command: RunningCommand, text: str, limits: Limits | None) -> None:
        bash = self._bash
        assert bash is not None
        turn = await bash.prepare(command, text.encode())
        monitor = self._watch(command, limits or self.opened.limits)
        if monitor.warden is not None:
            await self._threads.run(monitor.warden.begin)
        self._journal.append(
            Began(
                id=command.id,
                token=turn.token,
                input_number=bash.channel.inputs + 1,
                position=bash.channel.position,
                command=text,
                started=time.time(),
            )
        )
        await self._fit(bash, command)
        bash.run(turn, command.columns)

    async def _fit(self, bash: Bash, command: RunningCommand) -> None:
        """Give the terminal the size that a command wants: the contract's is much wider than people's are."""
        size = (self.opened.rows, self.opened.columns)
        if size == (ROWS, COLUMNS) and not command.contract:
            size = self._own_size
        if size != self._size:
            now = asyncio.get_running_loop().time()
            if self.attach is not None and now < self._resized + _TMUX_PAUSE:
                await asyncio.sleep(self._resized + _TMUX_PAUSE - now)
            bash.channel.resize(*size)
            self._size, self._resized = size, asyncio.get_running_loop().time()
        command.rows, command.columns = size

    async def press(self, command: RunningCommand, key: bytes) -> None:
        assert self._bash is not None
        monitor = self._watch(command, self.opened.limits)
        if monitor.warden is not None:
            await self._threads.run(monitor.warden.begin)
        self._bash.press(command, key)

    async def send(self, data: bytes, action_id: str) -> None:
        if self._bash is not None:
            self._journal.append(Sent(action_id=action_id, input_number=self._bash.channel.inputs + 1))
            self._bash.send(data)

    async def signal(self, name: str) -> None:
        number, bash = _signal_number(name), self._living
        if bash is None or not bash.busy:
            raise CommandEnded(f"Nothing runs in the session {self.opened.name!r}.")
        await self._threads.run(_signal_foreground, bash.channel.pid, number)

    def _watch(self, command: RunningCommand, limits: Limits) -> Monitor:
        assert self._bash is not None
        pid = self._bash.channel.pid
        monitor = self._monitors[command] = Monitor(command, pid, limits, self._threads, self._oom)
        return monitor

    # What bash reports.

    def printed(self) -> None:
        """Wake up those who wait for output, or for the end of the shell."""
        if self._news is not None:
            self._news.set()
            self._news = None

    def entered(self, typed: bytes) -> RunningCommand:
        assert self.on_entered is not None
        command = self.on_entered(typed)
        self._watch(command, self.opened.limits)
        return command

    def ended(self, command: RunningCommand, result: EndReport | ShellEnd) -> None:
        """End a command with its bill."""
        self._monitors.pop(command).end(result)
        if not self.closed:
            self._journal.append(ended_entry(command))

    # Its terminal, for people who watch or type.

    @property
    def position(self) -> int:
        """The end of what the terminal has printed."""
        return self._bash.channel.position if self._bash is not None else self.log.end

    async def read(self, offset: int, limit: int = PIECE) -> bytes:
        """What the terminal printed, raw; empty at the end.

        Raises:
            OutputGone: the log does not reach back so far.
        """
        return await self._threads.run(self.log.fetch, offset, limit)

    async def changed(self, offset: int) -> None:
        """Wait until something was printed beyond `offset`, or the shell is closed."""
        while self.position <= offset and not self.closed:
            if self._news is None:
                self._news = asyncio.Event()
            await self._news.wait()

    def type(self, data: bytes) -> None:
        """Press keys, as a person does."""
        if (bash := self._living) is not None:
            bash.touched = True
            bash.channel.write(data)

    def resize(self, rows: int, columns: int) -> None:
        check_size(rows, columns)
        self.opened = msgspec.structs.replace(self.opened, rows=rows, columns=columns)
        self._journal.append(Resized(rows=rows, columns=columns))
        if (bash := self._living) is not None:
            bash.channel.resize(rows, columns)
            self._size, self._resized = (rows, columns), asyncio.get_running_loop().time()
        self._tell("resized")

    def _tell(self, what: str) -> None:
        self._events.append(SessionChanged, session=self.opened.name, what=what)


def ended_entry(command: RunningCommand) -> Ended:
    """The journal's line about the end of a command."""
    result, info = command.result, command.ended.result()
    assert info.bill is not None
    return Ended(
        id=command.id,
        extents=command.extents,
        ended=info.ended or time.time(),
        report=result if isinstance(result, EndReport) else None,
        status=result.status if isinstance(result, ShellEnd) else None,
        bill=info.bill,
        limit=info.limit,
        oom=info.oom,
    )


def check_size(rows: int, columns: int) -> None:
    """Refuse a size that no terminal can have.

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


def _signal_foreground(shell: int, number: int) -> None:
    """Send a signal to the foreground process group of a shell's terminal. Blocks."""
    seen = processes.read(shell)
    try:
        if seen is None or seen.foreground <= 1:
            raise ProcessLookupError
        os.killpg(seen.foreground, number)
    except ProcessLookupError:
        raise CommandEnded("There is nothing left to signal.") from None
