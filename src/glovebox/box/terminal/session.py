"""One persistent shell, as the contract's `run` action sees it: one command at a time, polls and input."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass

from glovebox.box.executor import Call
from glovebox.box.terminal import replies
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.bash import Bash, Run, ShellEnd
from glovebox.box.terminal.channel import Connect
from glovebox.box.terminal.keys import control_key
from glovebox.box.terminal.presentation import Shown, show, without_echo
from glovebox.box.terminal.retention import Output
from glovebox.box.terminal.splitting import needs_parsing, split_commands
from glovebox.box.threads import Threads
from glovebox.errors import StartupError
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation

#: Rendering more than this takes long enough to leave the event loop.
_LARGE = 200_000
#: At the idle prompt these do something: a new prompt, and the end of the shell.
_KEYS_AT_PROMPT = (b"\x03", b"\x04")

#: A quick command is given the time to end, however short the caller's limit.
_LEAST_TIMEOUT = 0.2

Answer = CmdOutputObservation | ErrorObservation


class _Outcome(enum.Enum):
    ENDED = enum.auto()
    SILENT = enum.auto()
    LATE = enum.auto()


@dataclass(slots=True)
class _Pending:
    """A command whose end has not been reported."""

    command: str
    run: Run
    #: What the previous command printed after its last report.
    leftover: str = ""
    #: What to say about the shell in the first report.
    prefix: str = ""
    reported: bool = False


class Session:
    """A shell with a queue: commands run in the order of their arrival.

    A shell that ended is replaced when the next command comes, in the last known directory.
    """

    def __init__(
        self, *, connect: Connect, account: Account, cwd: str, no_change_timeout: float, threads: Threads
    ) -> None:
        self._connect = connect
        self._account = account
        self._cwd = cwd
        self._no_change_timeout = no_change_timeout
        self._threads = threads
        self._lock = asyncio.Lock()
        self._turns: set[asyncio.Future[None]] = set()
        self._shell: Bash | None = None
        self._former: list[Bash] = []
        self._pending: _Pending | None = None
        self._starting: asyncio.Task[Bash] | None = None
        self._closed = False

    @property
    def cwd(self) -> str:
        """The shell's directory after the last command whose end was reported."""
        return self._cwd

    async def start(self) -> None:
        """Start the shell now instead of with the first command.

        Raises:
            StartupError: it could not be started.
        """
        async with self._lock:
            await self._ready()

    async def close(self) -> None:
        """End the shell and everything it started, and answer the commands that wait."""
        self._closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        shells = [*self._former, *([self._shell] if self._shell else [])]
        self._former, self._shell = [], None
        await asyncio.gather(*(shell.close() for shell in shells))
        await self.settled()

    async def settled(self) -> None:
        """Wait until every command that was accepted before now has been answered."""
        if self._turns:
            await asyncio.wait(set(self._turns))

    async def run(self, action: CmdRunAction, call: Call) -> Answer:
        """Carry out one action."""
        command = action.command.strip()
        if "\0" in command:
            return replies.unreadable("it contains a NUL character")
        if not command.isascii() and any("\ud800" <= character <= "\udfff" for character in command):
            return replies.unreadable("it contains half of a surrogate pair, which is no character")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.add(turn)
        try:
            async with self._lock:
                return await self._answer(action, command, call)
        except StartupError as error:
            return ErrorObservation(content=str(error))
        finally:
            self._turns.discard(turn)
            turn.set_result(None)

    async def _answer(self, action: CmdRunAction, command: str, call: Call) -> Answer:
        pending = self._pending
        if pending is None and not command:
            return replies.nothing_to_retrieve()
        if pending is None and action.is_input:
            return replies.nothing_to_interact_with()
        if needs_parsing(command):
            commands = await self._threads.run(split_commands, command)
            if len(commands) > 1:
                return replies.several_commands(commands)
        if pending is None or (pending.run.ended.done() and command and not action.is_input):
            return await self._begin(action, command, call)
        if pending.run.ended.done():
            note = replies.input_not_sent(command) if command else ""
            return await self._ended(pending, action, command, note)
        if command and not action.is_input:
            continued = pending.reported
            shown = await self._take(pending, completed=False)
            return replies.still_running(command, shown.content, continued=continued, hidden=action.hidden)
        if command:
            pending.run.send(control_key(command) or command.encode() + b"\r")
        return await self._follow(pending, action, command, call)

    async def _begin(self, action: CmdRunAction, command: str, call: Call, leftover: str = "") -> Answer:
        """Run a command in an idle shell, after taking what is left of the previous one."""
        if self._pending is not None:
            shown = await self._take(self._pending, completed=True)
            self._learn(self._pending)
            if shown.content:
                leftover = shown.content + ("\n\n\n" if shown.ends_line else "\n\n")
            self._pending = None
        dead = self._shell if self._shell is not None and not self._shell.alive else None
        shell = await self._ready()
        key = control_key(command)
        if key is not None and key not in _KEYS_AT_PROMPT:
            assert shell.report is not None
            return replies.completed(command, leftover.rstrip(), shell.report, note=replies.key_sent(command))
        run = await shell.run(command.encode()) if key is None else shell.press(key)
        prefix = replies.shell_was_gone(dead.exit_status) if dead else ""
        self._pending = _Pending(command, run, leftover, prefix)
        return await self._follow(self._pending, action, command, call)

    async def _follow(self, pending: _Pending, action: CmdRunAction, command: str, call: Call) -> Answer:
        """Wait for whatever comes first, and report it."""
        pending.run.listen(call.output)
        try:
            outcome = await self._wait(pending.run, action)
        finally:
            pending.run.listen(None)
        if outcome is _Outcome.ENDED and pending.run.missed and not pending.prefix:
            # The shell went away just before, after `exec </dev/null` say; a new one takes the command.
            self._pending = None
            return await self._begin(action, command, call, pending.leftover)
        if outcome is _Outcome.ENDED:
            note = replies.key_sent(command) if control_key(command) else ""
            return await self._ended(pending, action, command, note)
        continued = pending.reported
        shown = await self._take(pending, completed=False)
        content = without_echo(shown.content, _typed(action, command))
        if outcome is _Outcome.SILENT:
            seconds = self._no_change_timeout
            return replies.no_new_output(command, content, continued=continued, seconds=seconds)
        return replies.timed_out(command, content, continued=continued, seconds=action.timeout or 0.0)

    async def _wait(self, run: Run, action: CmdRunAction) -> _Outcome:
        """Wait for the command's end, for silence, or until the caller's time is over."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        late = float("inf") if action.timeout is None else begin + max(action.timeout, _LEAST_TIMEOUT)
        while not run.ended.done():
            silent = float("inf")
            if not action.blocking:
                silent = max(begin, run.last_output) + self._no_change_timeout
            now, wake = loop.time(), min(silent, late)
            if now >= wake:
                return _Outcome.SILENT if silent <= late else _Outcome.LATE
            await asyncio.wait([run.ended], timeout=None if wake == float("inf") else wake - now)
        return _Outcome.ENDED

    async def _ended(self, pending: _Pending, action: CmdRunAction, command: str, note: str) -> Answer:
        """Report the end of a command."""
        if self._closed:
            return ErrorObservation(content="Bash session was likely interrupted...")
        prefix = "" if pending.reported else pending.prefix
        shown = await self._take(pending, completed=True)
        content = without_echo(shown.content, _typed(action, command))
        if shown.truncated_to is not None:
            prefix += replies.output_truncated(shown.truncated_to)
        self._learn(pending)
        self._pending = None
        result, hidden = pending.run.ended.result(), action.hidden
        if isinstance(result, ShellEnd):
            report = self._shell.report if self._shell else None
            return replies.shell_ended(
                command, content, report, status=result.status, cwd=self._cwd, prefix=prefix, hidden=hidden
            )
        return replies.completed(command, content, result, prefix=prefix, note=note, hidden=hidden)

    def _learn(self, pending: _Pending) -> None:
        """The directory changes when the end of a command is known."""
        result = pending.run.ended.result()
        if not isinstance(result, ShellEnd) and result.working_dir:
            self._cwd = result.working_dir

    async def _take(self, pending: _Pending, *, completed: bool) -> Shown:
        """What was printed since the last report, and with the first one what came before the command."""
        shown = await self._show(pending.run.output, completed=completed)
        if shown.unfinished:
            pending.run.output.put_back(shown.unfinished)
        if pending.reported:
            return shown
        pending.reported = True
        before = pending.leftover
        if len(pending.run.before):
            stray = await self._show(pending.run.before, completed=True)
            before += f"{stray.content}\n" if stray.content else ""
        if not before:
            return shown
        # As on a screen: what was there before, then the command, then its output.
        content = f"{before}{pending.command}\n{shown.content}".rstrip()
        return Shown(content, shown.truncated_to, shown.ends_line)

    async def _show(self, output: Output, *, completed: bool) -> Shown:
        kept = output.take()
        if len(kept.data) < _LARGE:
            return show(kept, completed=completed)
        return await self._threads.run(show, kept, completed=completed)

    async def _ready(self) -> Bash:
        """The shell, started anew if it is gone.

        A caller that gives up waiting does not end the start: the next one gets the shell.
        """
        if self._shell is not None and self._shell.alive:
            return self._shell
        if self._starting is None:
            if self._closed:
                raise StartupError("Bash session is not initialized")
            self._starting = asyncio.get_running_loop().create_task(self._start())
        try:
            return await asyncio.shield(self._starting)
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None

    async def _start(self) -> Bash:
        if self._shell is not None:
            dead, self._shell = self._shell, None
            self._former.append(dead)
            await dead.remove_files()
        shell = await Bash.start(self._connect, self._account, self._cwd, self._threads)
        self._shell = shell
        return shell


def _typed(action: CmdRunAction, command: str) -> str:
    """The text that the terminal echoed because of this action."""
    return command if action.is_input and control_key(command) is None else ""
