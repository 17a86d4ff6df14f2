"""One bash process: finds the beginning and end of its commands from marks in what its terminal prints."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import msgspec

from glovebox.box.terminal.commands import RunningCommand, ShellEnd
from glovebox.box.terminal.holder_client import HeldChannel, Receiver
from glovebox.box.terminal.inspection.states import ShellSample, look_at_shell
from glovebox.box.terminal.output.buffer import OutputBuffer
from glovebox.box.terminal.shell import integration
from glovebox.box.terminal.shell.command_file import Delivery
from glovebox.box.terminal.shell.integration import EndReport, MarkParser, ShellMark
from glovebox.box.terminal.survival.journal import Began
from glovebox.box.threads import Threads

#: How long a prompt may take to follow the end mark.
_PROMPT_LIMIT = 0.2
#: The same when the last one did not come, as the shell's stderr is not the terminal.
_NO_PROMPT_LIMIT = 0.02
#: After so long without output a shell may have been replaced by one that does not know us.
_QUIET = 0.1
#: The same after something that looks like a prompt.
_DOUBT = 0.02
#: How often, and how many times, to look at a shell that does not do what was typed before it is given up.
_STALL = 1.0
_MOST_STALLS = 6
#: How many times to look at a shell whose end mark should be here any moment.
_MOST_LOOKS = 10
#: Whatever is on the line already, say input that a program did not read, must not become part of ours.
_DISCARD_LINE = b"\x15"
_INTERRUPT = b"\x03"
#: Above this size, a command is written to its file in a thread.
_LARGE = 1_000_000


class _Phase(enum.Enum):
    STARTING = enum.auto()
    IDLE = enum.auto()  # at the prompt, which has been printed
    TYPED = enum.auto()  # the line that runs a command is typed, and the command not begun
    RUNNING = enum.auto()
    REPAIR = enum.auto()  # the command is over, and a line was typed that makes the shell report it
    DOUBT = enum.auto()  # something that looks like a prompt was printed by a command
    CLAIMED = enum.auto()  # there is an end mark that nothing confirms but a look at the shell
    ENDED = enum.auto()  # the command has ended, and the prompt is not printed yet
    PROMPT = enum.auto()  # the prompt is being printed
    GONE = enum.auto()


class Turn(msgspec.Struct, eq=False):
    """The marks of one command: from when it is typed until the shell is ready for the next."""

    token: str
    #: None while the shell starts, and when only its marks matter.
    command: RunningCommand | None = None
    #: Whether the hooks of the shell were renewed; once is enough.
    repaired: bool = False
    #: How often the shell was looked at after it reported the end and before the mark came.
    looks: int = 0
    #: Whether it may have removed all our hooks, so that its end must be looked for.
    suspect: bool = False
    text: bytes = b""


class BashListener(Protocol):
    """What a bash reports to."""

    def printed(self) -> None:
        """Called after the terminal printed something."""

    def entered(self, typed: bytes) -> RunningCommand:
        """Called when a person entered a line at the prompt; returns the command for it."""

    def ended(self, command: RunningCommand, result: EndReport | ShellEnd) -> None:
        """Called when a command has ended."""


class Bash:
    """A shell that runs one command at a time and reports how each ended.

    It is the receiver of its channel: everything happens in `received` and `hung_up`.
    """

    #: The newest report.
    report: EndReport | None = None
    #: The status of a shell that is gone, if known.
    exit_status: int | None = None
    #: Whether a person has typed something.
    touched = False
    _phase = _Phase.STARTING
    #: What to do at the prompt.
    _next: Callable[[], None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _channel: HeldChannel | None = None
    delivery: Delivery | None = None
    #: Set at the end of a turn that is waited for.
    _turn_over: asyncio.Event | None = None
    #: The newest prompt; None if it was not seen.
    _prompt: bytes | None = None
    _columns = 80
    #: Where what is shown to people begins in what was printed since the line was typed.
    _echo_end: int | None = None
    #: How much of what background jobs printed came before the prompt.
    _prompt_at = 0
    _prompt_limit = _PROMPT_LIMIT
    _image: tuple[bytes, ...] = ()
    _seeing: asyncio.Task[object] | None = None
    #: Where in the log its first end mark is.
    _started_at = -1
    #: Looks at a shell that does not do what was typed.
    _stalls = 0
    #: A trap may print something for each line of ours too.
    _debug_trap = False
    #: Nothing is typed while the log of an earlier server is read again, up to this place.
    _replay_until: int | None = None
    #: The input that typed the last command of an earlier server, if it came to that.
    _typed_number = 0
    #: Some of what it printed is lost.
    _lost = False
    #: Where in the log the output of the newest line that a person entered begins.
    _entered_at = -1

    def __init__(
        self,
        threads: Threads,
        listener: BashListener,
        session_token: str = "",
        start_token: str = "",
        *,
        signs: bool = True,
    ) -> None:
        """`signs`: whether the end marks of the shell can be distinguished from those of other programs."""
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._listener = listener
        self._parser = MarkParser()
        self.session_token = session_token or secrets.token_hex(8)
        self.start_token = start_token or secrets.token_hex(8)
        self.signs = signs
        self._turn = Turn(self.start_token)
        #: Whether it came to its first prompt.
        self._started: asyncio.Future[bool] = self._loop.create_future()
        self._echo = bytearray()
        self._checks: set[asyncio.Task[object]] = set()
        #: What background jobs print between commands.
        self._stray = OutputBuffer()
        #: What came after the end: from background jobs, unless hooks of the user's printed it.
        self._unclaimed = OutputBuffer()
        #: What came since the prompt that follows a claim.
        self._after_claim: list[tuple[bytes | ShellMark, int]] = []
        #: What came since something that may be a prompt.
        self._doubtful: list[tuple[bytes, int]] = []
        self.replayed = asyncio.Event()
        self.replayed.set()

    async def open(self, delivery: Delivery, connect: Callable[[Receiver], Awaitable[HeldChannel]]) -> None:
        """Start it.

        Raises:
            OSError: there is no bash.
        """
        self.delivery = delivery
        self._channel = await connect(self)
        self._seeing = self._later(self._see_image())

    async def started(self) -> bool:
        """Wait for its first prompt; whether that came."""
        if not await self._started:
            return False
        if self._seeing is not None:
            await self._seeing
        self.signs = self.channel.confirmed(self._started_at)
        if self.delivery is not None:
            self.delivery.entered()
        return True

    def go_on(
        self,
        delivery: Delivery,
        adopt: Callable[[Receiver, int], HeldChannel],
        position: int,
        end: int,
        last: Began | None,
        command: RunningCommand | None,
    ) -> None:
        """Go on with a shell that an earlier server started: what it did is in its log, up to `end`.

        The log is read from where its `last` command was typed; without one from `position` on.
        """
        if last is not None:
            self._turn = Turn(last.token, command)
            self._phase = _Phase.TYPED
            self._typed_number = last.input_number
            position = last.position
        self.delivery = delivery
        self.replayed.clear()
        self._replay_until = end
        self._channel = adopt(self, position)
        if position >= end:
            self._loop.call_soon(self._caught_up)

    @property
    def alive(self) -> bool:
        """Whether it can run commands."""
        return self._phase is not _Phase.GONE

    @property
    def busy(self) -> bool:
        """Whether a command runs, of an agent or a person."""
        return self._next is not None or self._phase in (
            _Phase.TYPED,
            _Phase.RUNNING,
            _Phase.REPAIR,
            _Phase.DOUBT,
            _Phase.CLAIMED,
        )

    @property
    def channel(self) -> HeldChannel:
        assert self._channel is not None
        return self._channel

    async def prepare(self, command: RunningCommand, text: bytes) -> Turn:
        """Leave a command where the shell will find it; only when idle."""
        assert self.delivery is not None
        if self.delivery.lost:
            await self._threads.run(self.delivery.restore)
        if len(text) > _LARGE:
            await self._threads.run(self.delivery.put, text)
        else:
            self.delivery.put(text)
        self._debug_trap = self._debug_trap or (b"trap" in text and b"DEBUG" in text)
        suspect = b"PROMPT_COMMAND" in text or b"PS1" in text
        return Turn(secrets.token_urlsafe(6), command, suspect=suspect, text=text)

    def run(self, turn: Turn, columns: int) -> None:
        """Run the command that was prepared in a terminal so wide, once the shell is at its prompt."""
        self._turn, self._columns = turn, columns
        if self.alive:
            self._at_prompt(self._begin_command)
        else:
            self._end_turn(ShellEnd(self.exit_status))

    def press(self, command: RunningCommand, key: bytes) -> None:
        """Press a key at the idle prompt that makes the shell print a new prompt, or end."""
        self._turn = Turn(self._turn.token, command)
        self._at_prompt(functools.partial(self._press, key))

    def _begin_command(self) -> None:
        self._echo.clear()
        self._echo_end = None
        self._stalls = 0
        self._phase = _Phase.TYPED
        self._type_command(self._show_command())
        self._expect_output()

    def _show_command(self) -> bytes:
        """Have people who watch see the command in place of the line to type, which is returned."""
        line, text, command = self._command_line(), self._turn.text, self._turn.command
        if self.delivery is None or command is None:
            return line
        shown = f"{command.text}\n".encode("utf-8", "replace")
        if self._prompt is not None:
            after = b"" if self.touched else self._stray.peek()[self._prompt_at :]
            shown, line = integration.shown_command(command.text, self._prompt + after, self._columns, line)
        self.delivery.put_shown(text, shown)
        return line

    def _press(self, key: bytes) -> None:
        self._begin_turn()
        # A signal that comes just when readline begins to wait is seen with the next key only.
        self.send(key + b"\r" if key == _INTERRUPT else key)

    def _at_prompt(self, action: Callable[[], None]) -> None:
        """Do something as soon as the prompt is there: what a user's own hooks do first may take its time."""
        if self._phase not in (_Phase.ENDED, _Phase.PROMPT):
            action()
            return
        self._next = action
        if self._timer is None:
            self._set_timer(self._prompt_limit, self._prompt_missed)

    async def close(self) -> None:
        """End the shell and what it started, and remove its files."""
        self._phase, self._next = _Phase.GONE, None
        self._cancel_timer()
        for check in self._checks:
            check.cancel()
        if self._channel is not None:
            await self._channel.close()
        await self.remove_files()

    async def remove_files(self) -> None:
        """Remove what only a living shell needs."""
        if self.delivery is not None:
            delivery, self.delivery = self.delivery, None
            await self._threads.run(delivery.close)

    async def _see_image(self) -> ShellSample | None:
        seen = await self._threads.run(look_at_shell, self.channel.pid)
        self._image = seen.image if seen else ()
        return seen

    # After a restart of the server.

    def _caught_up(self) -> None:
        """Everything that was printed before is known again, as far as it was not lost."""
        self._replay_until = None
        if self._lost and self._phase in (_Phase.RUNNING, _Phase.DOUBT):
            self._cancel_timer()
            self._later(self._find_out())
            return
        self.replayed.set()
        if self._phase is _Phase.TYPED and self.channel.inputs < self._typed_number:
            self._type_command(self._command_line())
        elif self._phase is _Phase.REPAIR:
            # The line may have been typed already; once more does no harm at a prompt.
            report = integration.report_line(self._turn.token) + b"\r"
            self._set_timer(_PROMPT_LIMIT, functools.partial(self.send, report, self._turn.token))
        self._later(self._see_image())
        if self.busy:
            self._expect_output()

    async def _find_out(self) -> None:
        """Have a shell of which marks are lost report before it is used, if it is at its prompt."""
        await self._see_image()
        await self._look(self._turn)
        if self._phase is _Phase.REPAIR:
            self._turn_over = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._turn_over.wait(), _STALL)
        self.replayed.set()

    def send(self, data: bytes, token: str = "") -> None:
        """Type something; with a token it begins a command."""
        if self._channel is not None and self._replay_until is None:
            self._channel.write(data, token)

    def _type_command(self, line: bytes) -> None:
        self.channel.write(_DISCARD_LINE + line + b"\r", self._turn.token)

    def _command_line(self) -> bytes:
        delivery = self.delivery
        return integration.command_line(
            self._turn.token, delivery.command if delivery is not None and delivery.moved else ""
        )

    # What the channel reports.

    def received(self, data: bytes, offset: int) -> None:
        """Sort what the terminal printed: output, echo, prompts and marks."""
        if not data:
            self._doubt_everything()
        for item, at in self._parser.feed(data, offset):
            if isinstance(item, ShellMark):
                self._marked(item, at)
            else:
                self._printed(item, at)
        self._listener.printed()
        if self._replay_until is not None and offset + len(data) >= self._replay_until:
            self._caught_up()

    def hung_up(self, status: int | None) -> None:
        """The shell is gone, and with it whatever ran."""
        self._phase, self._next = _Phase.GONE, None
        self.exit_status = status
        self._cancel_timer()
        self.replayed.set()
        self._end_turn(ShellEnd(status))

    def _begin_turn(self) -> None:
        """The shell begins with the command: what is printed from now on is its output."""
        self._phase = _Phase.RUNNING
        if self._turn.command is not None:
            self._turn.command.begin()

    def _end_turn(self, result: EndReport | ShellEnd) -> None:
        if not self._started.done():
            self._started.set_result(isinstance(result, EndReport))
        if self._turn_over is not None:
            self._turn_over.set()
        command = self._turn.command
        if command is not None and not command.finished:
            self._listener.ended(command, result)

    def _doubt_everything(self) -> None:
        """Marks may be among the output that is lost: a shell at its prompt has to report again."""
        self._parser = MarkParser()
        self._lost = True
        if self._phase is _Phase.TYPED and self.channel.inputs >= self._typed_number:
            self._begin_turn()
        self._turn.suspect = True

    def _printed(self, data: bytes, at: int) -> None:
        if self._after_claim:
            self._after_claim.append((data, at))
        elif self._phase in (_Phase.RUNNING, _Phase.CLAIMED):
            if self._turn.command is not None:
                self._turn.command.print(data, at)
            if self._phase is _Phase.RUNNING:
                self._expect_output()
        elif self._phase is _Phase.TYPED:
            self._echo += data
        elif self._phase is _Phase.IDLE:
            self._stray.append(data)
        elif self._phase is _Phase.ENDED:
            self._unclaimed.append(data)
        elif self._phase is _Phase.DOUBT:
            self._doubtful.append((data, at))
        elif self._phase is _Phase.PROMPT:
            self._prompt = (self._prompt or b"") + data

    def _marked(self, mark: ShellMark, at: int) -> None:
        if mark.kind in "ABHP" and mark.token == self.session_token:
            self._prompted(mark, at)
        elif mark.kind in "CT" and at == self._entered_at and self._replay_until is not None:
            # Typed by an earlier server, whose journal has lost it.
            if mark.token.replace("-", "").replace("_", "").isalnum():
                self._turn.token = mark.token
        elif mark.token != self._turn.token:
            self._printed(mark.raw, at)  # a stale one, or an imitation
        elif mark.kind == "T" and self._phase is _Phase.TYPED:
            self._echo_end = len(self._echo)
        elif mark.kind == "C" and self._phase is _Phase.TYPED:
            echo = bytes(self._echo[: self._echo_end])
            self._stray.append(_without_echo(echo, self._command_line(), trap=self._debug_trap))
            if self.touched:  # a line that a person began to type and left is not output
                whole, self._stray, self.touched = self._stray.take().data, OutputBuffer(), False
                self._stray.append(whole[: whole.rfind(b"\n") + 1])
            if len(self._stray):
                if self._turn.command is not None:
                    self._turn.command.before = self._stray
                self._stray = OutputBuffer()
            self._begin_turn()
        elif mark.kind == "J" and self._turn.command is not None:
            self._turn.command.notices_at = self._turn.command.size
        elif mark.kind == "D" and (report := EndReport.parse(mark)):
            self._end_marked(report, mark, at)

    def _end_marked(self, report: EndReport, mark: ShellMark, at: int) -> None:
        starting = self._phase is _Phase.STARTING
        if self.signs and not starting and not self.channel.confirmed(at):
            self._turn.suspect = True
            # Only the newest ends are confirmed: it may be an older one, which the shell can report again.
            self._lost = self._lost or self._replay_until is not None
            self._printed(mark.raw, at)  # or some other program printed it
            return
        self.report = report
        if starting:
            self._started_at = at
        if self._phase is _Phase.DOUBT:
            self._believe_output()
        elif self._phase is _Phase.CLAIMED:
            self._settle_claim(believed=False)  # the newest is the shell's, as it comes last
        if self._phase not in (_Phase.STARTING, _Phase.TYPED, _Phase.RUNNING, _Phase.REPAIR):
            return
        if self.signs or starting:
            self._finish()
        else:
            self._phase = _Phase.CLAIMED
            self._set_timer(self._prompt_limit, self._prompt_missed)

    def _finish(self) -> None:
        """The command has ended. The next one waits for the prompt, the answer does not."""
        assert self.report is not None
        self._phase = _Phase.ENDED
        self._set_timer(self._prompt_limit, self._prompt_missed)
        self._end_turn(self.report)

    def _keep_unclaimed(self) -> None:
        if len(self._unclaimed):
            self._stray.append(self._unclaimed.take().data)

    def _ready(self) -> None:
        self._cancel_timer()
        self._keep_unclaimed()
        self._prompt_at = len(self._stray)
        self._phase = _Phase.IDLE
        action, self._next = self._next, None
        if action is not None:
            action()

    def _prompt_missed(self) -> None:
        self._timer = None
        self._later(self._look_for_prompt(self._turn))

    async def _look_for_prompt(self, turn: Turn) -> None:
        """No prompt came: it was not shown, the user's own hooks run, or the end is an imitation."""
        seen = await self._threads.run(look_at_shell, self.channel.pid)
        if seen is not None and seen.waiting:  # or it has just started a program that has no terminal yet
            await asyncio.sleep(_DOUBT)
            seen = await self._threads.run(look_at_shell, self.channel.pid)
        at_rest = seen is None or seen.waiting
        if self._timer is not None:
            return
        if self._phase is _Phase.CLAIMED and self._turn is turn:
            self._settle_claim(believed=at_rest)
        if self._phase in (_Phase.ENDED, _Phase.PROMPT):
            if at_rest:
                self._prompt_limit = _NO_PROMPT_LIMIT
                self._prompt = None
                self._ready()
            else:
                self._set_timer(_PROMPT_LIMIT, self._prompt_missed)

    async def _look_at_claim(self, turn: Turn) -> None:
        """An end and a prompt were printed by the shell, or by a program that it runs."""
        seen = await self._threads.run(look_at_shell, self.channel.pid)
        if self._phase is _Phase.CLAIMED and self._turn is turn:
            self._settle_claim(believed=seen is None or seen.foreground)

    def _settle_claim(self, *, believed: bool) -> None:
        later, self._after_claim = self._after_claim, []
        if believed:
            self._finish()
        else:
            self._phase = _Phase.RUNNING
            self._expect_output()
        for item, at in later:
            if isinstance(item, bytes):
                self._printed(item, at)
            elif believed:
                self._marked(item, at)
            else:
                self._printed(item.raw, at)

    def _prompted(self, mark: ShellMark, at: int) -> None:
        kind = mark.kind
        if self._phase is _Phase.DOUBT or (self._phase is _Phase.RUNNING and kind != "A"):
            self._printed(mark.raw, at)
            return
        self._prompt_limit = _PROMPT_LIMIT
        if self._phase is _Phase.CLAIMED and self._replay_until is None:
            if kind == "A":
                self._later(self._look_at_claim(self._turn))
            self._after_claim.append((mark, at))
        elif kind == "H":
            self._unclaimed = OutputBuffer()
        elif kind == "P":
            if self._phase is _Phase.IDLE:
                self._enter(at + len(mark.raw))
        elif kind == "B":
            if self._phase is _Phase.PROMPT:
                self._ready()
        elif self._phase in (_Phase.IDLE, _Phase.ENDED, _Phase.CLAIMED):
            if self._phase is _Phase.CLAIMED:
                self._finish()
            self._phase = _Phase.PROMPT
            self._prompt = b""
            self._keep_unclaimed()
        elif self._phase is _Phase.REPAIR:
            self._phase = _Phase.RUNNING  # a prompt of ours that some other program shows
        elif self._phase is _Phase.RUNNING:
            # Nothing was said before it: the hook is gone, or the command prints what looks like a prompt.
            self._turn.suspect = True
            self._phase = _Phase.DOUBT
            self._doubtful.append((mark.raw, at))
            self._set_timer(_DOUBT, self._check)

    def _believe_output(self) -> None:
        """What looked like a prompt was none."""
        held, self._doubtful = self._doubtful, []
        self._phase = _Phase.RUNNING
        for data, at in held:
            self._printed(data, at)

    def _enter(self, after: int) -> None:
        """A person entered a line at the prompt."""
        typed = self._stray.take().data[self._prompt_at :]
        self._entered_at = after
        self._turn = Turn(self._turn.token, self._listener.entered(typed))
        self._begin_turn()

    # A shell that was replaced prints no marks: the only way to know is to look.

    def _expect_output(self) -> None:
        self._set_timer(_QUIET, self._check)

    def _check(self) -> None:
        self._timer = None
        self._later(self._look(self._turn))

    def _later(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = self._loop.create_task(work)
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)
        return task

    async def _look(self, turn: Turn) -> None:
        pid = self.channel.pid
        seen = await self._threads.run(look_at_shell, pid)
        if seen is None or self._turn is not turn or self._timer is not None:
            return
        if self._phase is _Phase.DOUBT:
            self._judge(turn, seen)
        elif self._phase in (_Phase.TYPED, _Phase.REPAIR):
            self._stalled(pid, at_rest=seen.waiting)
        elif self._phase is _Phase.RUNNING:
            self._care(turn, seen, pid)

    def _judge(self, turn: Turn, seen: ShellSample) -> None:
        """Decide whether something that looked like a prompt is one."""
        if turn.repaired or not (seen.waiting and seen.editing):
            self._believe_output()
        elif self._on_its_way(turn, seen):
            self._set_timer(_DOUBT, self._check)
        else:
            held, self._doubtful = self._doubtful, []
            prompts = [index for index, (data, _) in enumerate(held) if integration.begins_prompt(data)]
            if turn.command is not None:
                for data, at in held[: prompts[-1]]:
                    turn.command.print(data, at)
            self._repair_with(integration.report_line(turn.token))

    def _on_its_way(self, turn: Turn, seen: ShellSample) -> bool:
        """Whether a shell at its prompt has reported the end, and only the mark has not come yet."""
        turn.looks += 1
        return integration.signs(seen.name, turn.token) and turn.looks < _MOST_LOOKS

    def _stalled(self, pid: int, *, at_rest: bool) -> None:
        """A line was typed and nothing came of it: a shell that cannot be talked to is of no use."""
        self._stalls = self._stalls + 1 if at_rest else 0
        if self._stalls >= _MOST_STALLS:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        else:
            self._set_timer(_STALL, self._check)

    def _care(self, turn: Turn, seen: ShellSample, pid: int) -> None:
        """Look after a shell that runs a command, or was replaced by one that does not know us."""
        if seen.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        elif not seen.waiting:
            return
        elif turn.repaired:
            if turn.suspect and seen.editing:
                self._stalled(pid, at_rest=True)
        elif seen.interactive and seen.image != self._image and self.delivery is not None:
            self._image = seen.image
            turn.token = self.start_token  # what the new shell learns from the file
            self._repair_with(integration.reload_line(self.delivery.path))
        elif turn.suspect and seen.editing:
            if self._on_its_way(turn, seen):
                self._expect_output()
            else:
                self._repair_with(integration.report_line(turn.token))

    def _repair_with(self, line: bytes) -> None:
        self._cancel_timer()
        self._turn.repaired = True
        self._phase = _Phase.REPAIR
        self.send(line + b"\r", self._turn.token)
        self._stalls = 0
        self._set_timer(_STALL, self._check)

    def _set_timer(self, delay: float, action: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(delay, action)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _without_echo(data: bytes, line: bytes, *, trap: bool) -> bytes:
    """The lines that were printed while a line was typed, without it and what a trace or trap said of it."""
    before, _, after = data.partition(line)
    before = before[: before.rfind(b"\n") + 1]  # the rest is the prompt, drawn again
    _, _, rest = after.partition(b"\n")
    return before if trap or b"__gb" in rest else before + rest
