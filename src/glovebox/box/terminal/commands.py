"""Commands with their ids: text, state, output, bill and end."""

from __future__ import annotations

import asyncio
import enum
import itertools
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.machine import ShellRefused
from glovebox.box.terminal.keys import key_bytes
from glovebox.box.terminal.output.buffer import COLUMNS, ROWS, OutputBuffer
from glovebox.box.terminal.output.log import PIECE, LogFiles
from glovebox.box.terminal.output.rendering import LiveText
from glovebox.box.terminal.shell.integration import EndReport, printable
from glovebox.box.threads import Threads
from glovebox.errors import CommandEnded, NoSuchCommand, OutputGone, TerminalError
from glovebox.protocol import events
from glovebox.protocol.terminal import Bill, CommandInfo

if TYPE_CHECKING:
    from glovebox.box.machine import Shell

#: How many commands that ended are remembered.
KEEP = 1_000
_TAIL = 4_096
#: Of a longer command, events and answers show the beginning.
_LONGEST_TEXT = 10_000
#: A quick command is given the time to end, however short the caller's limit.
_LEAST_TIMEOUT = 0.2
_NEVER = float("inf")
#: Modes of the terminal: a screen of the program's own, and other bytes for the cursor keys.
_MODE = re.compile(rb"\x1b\[\?(1049|1047|47|1)([hl])")
#: In these states it does not go on by itself.
_WAITING = frozenset({"waiting_for_input", "pager", "editor", "stopped"})
#: Seconds between two samples that are taken because it printed something like a prompt.
_NUDGE_INTERVAL = 0.25
#: What is shown in place of output that cannot be read again.
_LOST = b"\r\n[The rest of the output is lost: the log is damaged.]\r\n"


class ShellEnd(msgspec.Struct, frozen=True):
    """The shell itself ended, with this status if it is known."""

    status: int | None


class WaitOutcome(enum.Enum):
    """What a wait for a command ended with."""

    ENDED = enum.auto()
    SILENT = enum.auto()
    LATE = enum.auto()
    WAITING = enum.auto()


class RunningCommand:
    """One command, while it runs and after: its text, state, output, bill and end.

    Its output is a sequence of bytes of its own, counted from 0, whatever else is in the session's log.
    """

    size = 0
    #: The last bytes of its output.
    tail = b""
    #: Whether a program shows its own screen.
    alternate_screen = False
    #: Whether it has switched on the application mode of cursor keys.
    application_keys = False
    #: The action that waits for it now.
    follower: str | None = None
    #: The shell that runs it; None for one of an earlier server.
    shell: Shell | None = None
    #: Whether the contract's rules hold for it, among them a terminal of its size.
    contract = True
    #: The size of the terminal it began in.
    rows, columns = ROWS, COLUMNS
    #: Whether the shell has begun to run it.
    begun = False
    #: Whether a caller knows how it ended.
    end_known = False
    #: How it ended, as the shell reported it.
    result: EndReport | ShellEnd | None = None
    #: Why it could not be run to its end; its report raises this.
    error: Exception | None = None
    #: What its report says beside the exit code.
    note = ""
    #: Output that no answer has reported yet.
    unreported: OutputBuffer | None = None
    #: Where in its output, at its end, the shell reports background jobs.
    notices_at: int | None = None
    #: What background jobs had printed before it began.
    before: OutputBuffer | None = None
    #: What the previous command printed after its last report.
    leftover = ""
    #: What the first report says of the shell.
    prefix = ""
    #: Whether an answer has reported anything of it, and how many bytes.
    reported = False
    reported_size = 0
    _state_change: asyncio.Future[None] | None = None
    _nudge: asyncio.Future[None] | None = None
    _nudged = 0.0

    def __init__(
        self,
        *,
        command_id: str,
        session: str,
        text: str,
        log: LogFiles,
        events: EventLog,
        threads: Threads,
        by: Literal["agent", "person"] = "agent",
        started: float | None = None,
    ) -> None:
        self.id = command_id
        self.session = session
        self.started = time.time() if started is None else started
        #: The log of the session, which has its output.
        self.log = log
        #: Where in the log its output is: offset and length.
        self.extents: list[tuple[int, int]] = []
        #: What its result says besides its output.
        self.notes: list[str] = []
        self._loop = asyncio.get_running_loop()
        #: When it printed last, by the clock of the event loop.
        self.last_output = self._loop.time()
        #: Done when it has ended; everything is known of it then, the bill too.
        self.ended: asyncio.Future[CommandInfo] = self._loop.create_future()
        self._info = CommandInfo(
            id=command_id,
            session=session,
            command=text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…",
            by=by,
            state="running",
            started=self.started,
        )
        self._events = events
        self._threads = threads
        self._live = LiveText()
        self._emitted = 0
        self._news: asyncio.Event | None = None

    @property
    def finished(self) -> bool:
        return self.result is not None

    @property
    def text(self) -> str:
        return self._info.command

    @property
    def by(self) -> str:
        """Who entered it: an agent or a person."""
        return self._info.by

    @property
    def awaits_approval(self) -> bool:
        """Whether a person is asked if it may be run; it has not started."""
        return self._info.state == "waiting_for_approval"

    def info(self) -> CommandInfo:
        return msgspec.structs.replace(self._info, output_bytes=self.size)

    async def wait(
        self, *, timeout: float | None, silence: float | None = None, for_input: bool = False
    ) -> WaitOutcome:
        """Wait until it ends, has printed nothing for `silence` seconds, or `timeout` seconds are over.

        With `for_input` also until it waits for input. While it awaits approval it is not silent.
        """
        begin = self._loop.time()
        late = _NEVER if timeout is None else begin + max(timeout, _LEAST_TIMEOUT)
        while not self.ended.done():
            allowed = not self.awaits_approval
            silent = _NEVER
            if silence is not None and allowed:
                silent = max(begin, self.last_output) + silence
            now, wake = self._loop.time(), min(silent, late)
            if now >= wake:
                return WaitOutcome.SILENT if silent <= late else WaitOutcome.LATE
            events: list[asyncio.Future[Any]] = [self.ended]
            if for_input and self._info.state in _WAITING:
                return WaitOutcome.WAITING
            if for_input or not allowed:
                self._state_change = self._state_change or self._loop.create_future()
                events.append(self._state_change)
            limit = None if wake == _NEVER else wake - now
            await asyncio.wait(events, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        return WaitOutcome.ENDED

    def begin(self) -> None:
        """The shell has begun to run it."""
        self.begun = True
        self._wake()

    async def send(self, text: str, keys: Iterable[str]) -> None:
        """Type text, then press keys. A line end in the text is the Enter key.

        Raises:
            BadInput: there is no such key.
            CommandEnded: there is nothing to give input to.
        """
        data = text.replace("\r\n", "\r").replace("\n", "\r").encode("utf-8", "replace")
        data += b"".join(key_bytes(key, application=self.application_keys) for key in keys)
        while not self.begun and not self.finished:
            await self._change()
        if self.finished or self.shell is None:
            raise CommandEnded(f"The command {self.id} has ended.")
        if not self.awaits_approval:
            self.update(state="running", prompt="", echo_off=False)
        try:
            await self.shell.send(data, uuid.uuid4().hex)
        except ShellRefused as refused:
            raise TerminalError(str(refused)) from refused
        self._ask_for_look()

    async def rest(self, seconds: float) -> bool:
        """Wait a while, at most until it ends; whether something happened that may have changed its state."""
        nudge = self._nudge = self._loop.create_future()
        await asyncio.wait([self.ended, nudge], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._nudge = None
        return nudge.done()

    def _ask_for_look(self) -> None:
        if self._nudge is not None and not self._nudge.done():
            self._nudged = self._loop.time()
            self._nudge.set_result(None)

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground.

        Raises:
            BadSession: there is no such signal.
            CommandEnded: there is nothing to signal.
        """
        if self.finished or self.shell is None:
            raise CommandEnded(f"The command {self.id} has ended.")
        await self.shell.signal(name)

    # Its output.

    def print(self, data: bytes, offset: int) -> None:
        """Add output, which is at this offset of the session's log."""
        self.last_output = self._loop.time()
        if self.unreported is None:
            self.unreported = OutputBuffer()
        self.unreported.append(data)
        if self.finished:  # known from the journal, and read from the log again
            return
        if self.extents and self.extents[-1][0] + self.extents[-1][1] == offset:
            start, length = self.extents[-1]
            self.extents[-1] = (start, length + len(data))
        else:
            self.extents.append((offset, len(data)))
        self.size += len(data)
        self.tail = data[-_TAIL:] if len(data) >= _TAIL else (self.tail + data)[-_TAIL:]
        if b"\x1b[?" in data:
            for mode, switch in _MODE.findall(data):
                if mode == b"1":
                    self.application_keys = switch == b"h"
                else:
                    self.alternate_screen = switch == b"h"
        waited_for = self._state_change is not None and not data.endswith(b"\n")  # it may be a prompt
        if waited_for and self.last_output - self._nudged > _NUDGE_INTERVAL:
            self._ask_for_look()
        text, settled = self._live.feed(data)
        self._emit(self._emitted, text, settled)
        self._emitted = settled
        self._wake()

    async def read(self, offset: int, limit: int = PIECE) -> bytes:
        """Raw output from `offset` on; empty if there is no more so far.

        Raises:
            OutputGone: the log does not reach back so far.
        """
        return await self._threads.run(self._fetch, offset, limit)

    def pieces(self, offset: int = 0) -> Iterator[bytes]:
        """All raw output from `offset` on. Blocks.

        Raises:
            OutputGone: the log does not reach back so far.
        """
        while data := self._fetch(offset, PIECE):
            yield data
            offset += len(data)

    async def changed(self, offset: int) -> None:
        """Wait until there is output beyond `offset`, or it has ended."""
        while self.size <= offset and not self.finished:
            await self._change()

    def replay(self, offset: int) -> None:
        """Send output from `offset` on to the events of its follower, as far as it is in memory."""
        known = self.size - len(self.tail)
        if self.size > offset:
            begin = max(offset, known)
            text, settled = LiveText().feed(self.tail[begin - known :])
            self._emit(begin, text, begin + settled)

    def restore_output(self, extents: list[tuple[int, int]]) -> None:
        """Set where its output is, from the journal of an earlier server."""
        self.extents = extents
        self.size = sum(length for _, length in extents)

    async def report_from(self, offset: int) -> None:
        """Make the next report begin at this offset of its output."""

        def fill() -> OutputBuffer:
            output = OutputBuffer()
            try:
                for piece in self.pieces(offset):
                    output.append(piece)
            except OutputGone:
                output.append(_LOST)
            return output

        self.unreported = await self._threads.run(fill)
        self.reported_size = offset
        self.reported = offset > 0

    def drop_unreported(self) -> None:
        """Free the memory of output that no answer will report."""
        self.unreported, self.before, self.leftover = None, None, ""

    def _fetch(self, offset: int, limit: int) -> bytes:
        before = 0
        for start, length in self.extents:
            if offset < before + length:
                within = max(0, offset - before)
                return self.log.fetch(start + within, min(limit, length - within))
            before += length
        return b""

    def _emit(self, offset: int, text: str, end: int) -> None:
        """Send an event with output, unless it is empty."""
        if text:
            self._events.append(
                events.ActionOutput,
                action_id=self.follower or self.id,
                command_id=self.id,
                offset=offset,
                end=end,
                text=text,
            )

    async def _change(self) -> None:
        """Wait for output, its beginning or its end."""
        if self._news is None:
            self._news = asyncio.Event()
        await self._news.wait()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    # Its state and its end.

    def update(self, **fields: object) -> None:
        """Set fields of its information, and send an event if that is a change."""
        changed = msgspec.structs.replace(self._info, **fields)
        if changed != self._info and not self.finished:
            self._info = changed
            self._events.append(events.ActionState, action_id=self.follower or self.id, command=self.info())
            if self._state_change is not None:
                self._state_change.set_result(None)
                self._state_change = None

    def end(
        self,
        result: EndReport | ShellEnd,
        bill: Bill,
        *,
        limit: str | None = None,
        oom: str | None = None,
        ended: float | None = None,
    ) -> None:
        """Set how it ended and what it cost; once only."""
        self.result = result
        status = result.status if isinstance(result, ShellEnd) else result.exit_code
        self._emit(self._emitted, *self._live.flush())
        self._info = msgspec.structs.replace(
            self._info,
            state="ended",
            prompt="",
            echo_off=False,
            ended=time.time() if ended is None else ended,
            exit_code=-1 if status is None else status,
            cwd=(printable(result.working_dir) or None) if isinstance(result, EndReport) else None,
            output_bytes=self.size,
            bill=bill,
            limit=limit,
            oom=oom,
        )
        self._events.append(events.CommandFinished, action_id=self.follower or self.id, command=self._info)
        self.ended.set_result(self._info)
        self._wake()


class Commands:
    """The commands of a box by their ids. Of those that ended, the newest are kept."""

    def __init__(self, forgotten: Callable[[RunningCommand], None], keep: int = KEEP) -> None:
        """`forgotten` is called with each command that is dropped."""
        self._keep = keep
        self._forgotten = forgotten
        self._all: OrderedDict[str, RunningCommand] = OrderedDict()

    def add(self, command: RunningCommand) -> None:
        self._all[command.id] = command
        while len(self._all) > self._keep:
            oldest = next((one for one in self._all.values() if one.finished), None)
            if oldest is None:
                return
            del self._all[oldest.id]
            self._forgotten(oldest)

    def get(self, command_id: str) -> RunningCommand:
        """The command of that id.

        Raises:
            NoSuchCommand: there is none, or none any more.
        """
        try:
            return self._all[command_id]
        except KeyError:
            raise NoSuchCommand(
                f"There is no command {command_id!r}. The newest {self._keep:,} are remembered."
            ) from None

    def find(self, command_id: str) -> RunningCommand | None:
        return self._all.get(command_id)

    def newest(self, session: str | None, limit: int) -> list[RunningCommand]:
        """The newest commands, of one session or all, the newest first."""
        found = (one for one in reversed(self._all.values()) if session in (None, one.session))
        return list(itertools.islice(found, limit))

    def of_session(self, session: str) -> list[RunningCommand]:
        """The commands of a session, in order."""
        return [command for command in self._all.values() if command.session == session]

    def forget(self, session: str) -> None:
        """Drop the commands of a session."""
        for command in self.of_session(session):
            del self._all[command.id]
