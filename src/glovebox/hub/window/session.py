"""The contract's `run` action in a terminal of a window: one command at a time, polls, input, limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.terminal import replies
from glovebox.box.terminal.commands import Command, Commands
from glovebox.box.terminal.keys import control_key
from glovebox.box.terminal.output.presentation import without_echo
from glovebox.box.terminal.shell.command_splitter import needs_parsing, split_commands
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.shell.run import ShellEnd
from glovebox.box.terminal.time_limits import WaitOutcome, outcome_of
from glovebox.box.threads import Threads
from glovebox.errors import BadSession, CommandEnded, WindowError
from glovebox.hub.window.command import WindowCommand, clipped, report, typed
from glovebox.hub.window.output import MemoryLog
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import SessionChanged
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import Bill, SessionInfo
from glovebox.protocol.window import Done, EndSession, Input, Run, RunApart, RunEnded

Answer = CmdOutputObservation | ErrorObservation

#: What a terminal that has to be opened may take before its first command can print anything.
_OPENING = 15.0
_END_LIMIT = 10.0
_INTERRUPT, _END_OF_INPUT = b"\x03", b"\x04"
_INTERRUPTED_STATUS = 130
#: The signals that keys send.
_KEYS = {"SIGINT": "\x03", "SIGQUIT": "\x1c", "SIGTSTP": "\x1a"}
_NUMBERS = {"2": "SIGINT", "3": "SIGQUIT", "20": "SIGTSTP"}
_UNKNOWN = "VS Code did not tell the exit code, and -1 stands for it."
_CLOSED = "Bash session was likely interrupted..."


class WindowSession:
    """A terminal with a queue: commands run in the order of their arrival.

    With `apart` each of them is a process of its own, and there is no terminal to speak of.
    """

    def __init__(
        self,
        name: str,
        *,
        hands: Hands,
        cwd: str,
        log: MemoryLog,
        no_change_timeout: float,
        threads: Threads,
        commands: Commands,
        events: EventLog,
        apart: bool = False,
    ) -> None:
        self.name = name
        self.cwd = cwd
        self._created = time.time()
        self._hands = hands
        self._log = log
        self._no_change_timeout = no_change_timeout
        self._threads = threads
        self._commands = commands
        self._events = events
        self._apart = apart
        self._pending: WindowCommand | None = None
        self._last: EndReport | None = None
        #: Whether a terminal is open, as far as is known.
        self._open = False
        #: Whether something may run there that nobody here follows any more, and that a key can still reach.
        self._unattended = False
        self._closed = False
        self._lock = asyncio.Lock()
        self._turns: set[asyncio.Future[None]] = set()

    def info(self) -> SessionInfo:
        """What is known of it."""
        pending = self._pending
        running = pending is not None and not pending.ended.done()
        return SessionInfo(
            name=self.name,
            pid=None,
            cwd=self.cwd,
            rows=0,
            columns=0,
            created=self._created,
            command=pending.command.id if pending and running else None,
        )

    async def run(self, action: CmdRunAction, call: Call) -> Answer:
        """Carry out one action.

        Raises:
            WindowError: the window cannot be asked, or is lost.
        """
        text = action.command.strip()
        if "\0" in text:
            return replies.unreadable("it contains a NUL character")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            return replies.unreadable("it contains half of a surrogate pair, which is no character")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.add(turn)
        try:
            async with self._lock:
                return await self._answer(action, text, call)
        except OrderRefused as refused:
            return ErrorObservation(content=str(refused), error_id=refused.code)
        finally:
            self._turns.discard(turn)
            turn.set_result(None)

    async def settled(self) -> None:
        """Wait until every command that was accepted before now has been answered."""
        if self._turns:
            await asyncio.wait(set(self._turns))

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground, by the key for it.

        Raises:
            BadSession: no key sends it.
            CommandEnded: nothing runs.
            WindowError: the window refuses, or cannot be asked.
        """
        text = name.strip().upper()
        known = _NUMBERS.get(text, text if text.startswith("SIG") else f"SIG{text}")
        if known not in _KEYS:
            raise BadSession(
                f"A command in a VS Code window is reached by keys, which send {', '.join(_KEYS)}, "
                f"not {name!r}."
            )
        if self._pending is None or self._pending.ended.done() or self._apart:
            raise CommandEnded(f"Nothing runs in the session {self.name!r}.")
        try:
            await self._type(_KEYS[known])
        except OrderRefused as refused:
            raise WindowError(str(refused)) from refused

    async def end(self) -> None:
        """Close the terminal and end what runs in it.

        Raises:
            WindowError: the window refuses, or cannot be asked.
        """
        self._closed = True
        try:
            await self._hands.do(EndSession(session=self.name), Done, limit=_END_LIMIT)
        except OrderRefused as refused:
            raise WindowError(str(refused)) from refused
        await self.close()
        self._events.append(SessionChanged, session=self.name, what="closed")

    async def close(self) -> None:
        """Wait for nothing any more. What runs in a terminal goes on there; what runs apart is ended."""
        self._closed = True
        if self._pending is not None:
            self._pending.ended.cancel()
            await asyncio.wait([self._pending.ended])
        await self.settled()

    # One action.

    async def _answer(self, action: CmdRunAction, text: str, call: Call) -> Answer:
        pending = self._pending
        if self._closed:
            return ErrorObservation(content=_CLOSED)
        if pending is None and not text:
            return replies.nothing_to_retrieve()
        if pending is None and action.is_input and not (self._unattended and control_key(text)):
            return replies.nothing_to_interact_with()
        if needs_parsing(text):
            commands = await self._threads.run(split_commands, text)
            if len(commands) > 1:
                return replies.several_commands(commands)
        if pending is None or (pending.ended.done() and text and not action.is_input):
            return await self._begin(action, text, call)
        if pending.ended.done():
            note = replies.input_not_sent(text) if text else ""
            return await self._ended(pending, action, text, call, note)
        if text and not action.is_input:
            return await self._refuse(pending, action, text, call)
        if text:
            key = control_key(text)
            await self._type(key.decode("latin-1") if key else f"{text}\r")
        return await self._follow(pending, action, text, call)

    async def _begin(self, action: CmdRunAction, text: str, call: Call) -> Answer:
        """Run a command in an idle terminal, after taking what is left of the previous one."""
        leftover = await self._leave(self._pending) if self._pending is not None else ""
        key = control_key(text)
        if key is not None:
            return await self._press(key, text, leftover)
        command = Command(
            command_id=call.id,
            session=self.name,
            text=text,
            files=self._log,
            log=self._events,
            threads=self._threads,
        )
        self._commands.add(command)
        loop = asyncio.get_running_loop()
        command.deliver_signal = lambda name: _wait_in_thread(self.signal(name), loop)
        allowance = 0.0 if self._open or self._apart else _OPENING
        pending = WindowCommand(
            command, log=self._log, threads=self._threads, leftover=leftover, allowance=allowance
        )
        pending.ended = loop.create_task(self._carry_out(pending, text))
        pending.ended.add_done_callback(_heard)
        self._pending = pending
        return await self._follow(pending, action, text, call)

    async def _carry_out(self, pending: WindowCommand, text: str) -> EndReport | ShellEnd:
        """Have the window run a command to its end."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        result: EndReport | ShellEnd = ShellEnd(None)
        # Without a folder the window says what is missing.
        cwd = self.cwd if self._hands.window.folders else ""
        try:
            try:
                end = await self._order(pending, text, cwd)
            except OrderRefused as refused:
                if not cwd or refused.code not in ("not_found", "not_directory"):
                    raise
                # The directory is gone, and a terminal has to be opened somewhere.
                end = await self._order(pending, text, "")
            result = self._learn(end)
            self._unattended = False
            if end.exit_code is None and not end.shell_ended:
                pending.note = _UNKNOWN
        except WindowError:
            self._open = False  # a window that was reloaded has no terminals
            self._unattended = True  # and one that was paused goes on with what it has begun
            raise
        except OrderRefused as refused:
            self._unattended = refused.code == "busy"
            raise
        finally:
            bill = Bill(wall_seconds=loop.time() - began, output_bytes=pending.command.size)
            pending.command.end(result, bill)
        return result

    async def _order(self, pending: WindowCommand, text: str, cwd: str) -> RunEnded:
        order: Run | RunApart = Run(session=self.name, command=text, cwd=cwd)
        if self._apart:
            order = RunApart(command=text, cwd=cwd)
        return await self._hands.do(order, RunEnded, limit=None, printed=pending.printed)

    def _learn(self, end: RunEnded) -> EndReport | ShellEnd:
        """What the end of a command tells of the shell."""
        self._open = not end.shell_ended
        if end.shell_ended and not self._apart:
            return ShellEnd(end.exit_code)
        self.cwd = end.cwd or self.cwd
        self._last = report(-1 if end.exit_code is None else end.exit_code, self.cwd)
        return self._last

    async def _press(self, key: bytes, text: str, leftover: str) -> Answer:
        """A key at the idle prompt, where two of them do something."""
        content = leftover.rstrip()
        last = self._last or report(0, self.cwd)
        if key in (_INTERRUPT, _END_OF_INPUT) and (self._open or self._unattended):
            await self._type(key.decode())
            if key == _END_OF_INPUT:
                self._open = False
                return replies.shell_ended(text, content, last, status=None, cwd=self.cwd)
            last = self._last = report(_INTERRUPTED_STATUS, self.cwd)
        return replies.completed(text, content, last, note=replies.key_sent(text))

    async def _type(self, text: str) -> None:
        try:
            await self._hands.do(Input(session=self.name, text=text), Done)
        except OrderRefused as refused:
            if refused.code != "no_session":  # it ended just now, which its own end will tell
                raise

    async def _leave(self, pending: WindowCommand) -> str:
        """Be done with a command that ended unreported; what it left goes before the next one's output."""
        shown = await pending.take(completed=True)
        self._pending = None
        if not shown.content:
            return ""
        return shown.content + ("\n\n\n" if shown.ends_line else "\n\n")

    async def _refuse(self, pending: WindowCommand, action: CmdRunAction, text: str, call: Call) -> Answer:
        continued = pending.reported
        shown = await pending.take(completed=False)
        call.command = pending.command.info()
        answer = replies.still_running(text, shown.content, continued=continued, hidden=action.hidden)
        return clipped(answer)

    async def _follow(self, pending: WindowCommand, action: CmdRunAction, text: str, call: Call) -> Answer:
        """Wait for whatever comes first, and report it."""
        command = pending.command
        command.follower = call.id
        if call.id != command.id:
            command.replay(pending.reported_size)
        try:
            outcome = await outcome_of(pending, action, lambda: self._no_change_timeout + pending.allowance)
        finally:
            command.follower = None
        if outcome is WaitOutcome.ENDED:
            note = replies.key_sent(text) if control_key(text) else ""
            return await self._ended(pending, action, text, call, note)
        continued, before = pending.reported, pending.reported_size
        shown = await pending.take(completed=False)
        content = without_echo(shown.content, typed(action, text))
        if action.budget is not None:
            content = await pending.digest(before, action.budget)
        call.command = command.info()
        if outcome is WaitOutcome.SILENT:
            seconds = self._no_change_timeout
            answer = replies.no_new_output(text, content, continued=continued, seconds=seconds)
        else:
            seconds = action.timeout or 0.0
            answer = replies.timed_out(text, content, continued=continued, seconds=seconds)
        return answer if action.budget is not None else clipped(answer)

    async def _ended(
        self, pending: WindowCommand, action: CmdRunAction, text: str, call: Call, note: str = ""
    ) -> Answer:
        """Report the end of a command."""
        self._pending = None
        call.command = pending.command.info()
        if pending.ended.cancelled() or self._closed:
            return ErrorObservation(content=_CLOSED)
        result = pending.ended.result()
        before, prefix = pending.reported_size, ""
        shown = await pending.take(completed=True)
        content = without_echo(shown.content, typed(action, text))
        if action.budget is not None:
            content = await pending.digest(before, action.budget)
        elif shown.truncated_to is not None:
            prefix = replies.output_truncated(shown.truncated_to)
        if isinstance(result, ShellEnd):
            answer = replies.shell_ended(
                text,
                content,
                self._last,
                status=result.status,
                cwd=self.cwd,
                prefix=prefix,
                hidden=action.hidden,
            )
        else:
            note = " ".join(part for part in (note, pending.note) if part)
            answer = replies.completed(text, content, result, prefix=prefix, note=note, hidden=action.hidden)
        return answer if action.budget is not None else clipped(answer)


def _heard(ended: asyncio.Task[EndReport | ShellEnd]) -> None:
    """A failure that nobody asks for any more is no defect."""
    if not ended.cancelled():
        ended.exception()


def _wait_in_thread(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop do something, and wait for it in another thread."""
    try:
        asyncio.run_coroutine_threadsafe(work, loop).result(_END_LIMIT)
    except TimeoutError as error:
        raise WindowError("The window took too long to send the key.") from error
