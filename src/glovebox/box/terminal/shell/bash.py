"""One bash: its commands begin and end with marks, whatever carries its bytes."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from glovebox.box.terminal.inspection.states import ShellSample, look_at_shell
from glovebox.box.terminal.output.buffer import OutputBuffer
from glovebox.box.terminal.shell import integration
from glovebox.box.terminal.shell.channel import Channel, Receiver
from glovebox.box.terminal.shell.command_file import Delivery
from glovebox.box.terminal.shell.integration import EndReport, MarkParser, ShellMark
from glovebox.box.terminal.shell.run import Printed, Run, ShellEnd, Typed
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
    REPAIR = enum.auto()  # the command is over, and the shell is being told again to say so
    DOUBT = enum.auto()  # something that looks like a prompt was printed by a command
    CLAIMED = enum.auto()  # there is an end mark that nothing confirms but a look at the shell
    ENDED = enum.auto()  # the command has ended, and the prompt is not printed yet
    PROMPT = enum.auto()  # the prompt is being printed
    GONE = enum.auto()


class Bash:
    """A shell that runs one command at a time and says how each ended.

    It is the receiver of its channel: everything happens in `received` and `hung_up`.
    """

    def __init__(
        self, threads: Threads, session_token: str = "", start_token: str = "", *, signs: bool = True
    ) -> None:
        """`signs` says whether the end marks of the shell can be told from those of other programs."""
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._parser = MarkParser()
        self._phase = _Phase.STARTING
        self.session_token = session_token or secrets.token_hex(8)
        self.start_token = start_token or secrets.token_hex(8)
        self.signs = signs
        self._run = Run(self.start_token, self._loop, self._send)
        #: What to do at the prompt.
        self._next: Callable[[], None] | None = None
        self._echo = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._checks: set[asyncio.Task[object]] = set()
        self._channel: Channel | None = None
        self._delivery: Delivery | None = None
        self._exit_status: int | None = None
        self._stray = OutputBuffer()
        #: How much of it came before the prompt.
        self._prompt_at = 0
        #: What came after the end: from background jobs, unless hooks of the user's printed it.
        self._unclaimed = OutputBuffer()
        #: What came since the prompt that follows a claim.
        self._after_claim: list[tuple[bytes | ShellMark, int]] = []
        self._image: tuple[bytes, ...] = ()
        self._prompt_limit = _PROMPT_LIMIT
        #: Looks at a shell that does not do what was typed.
        self._stalls = 0
        #: What came since something that may be a prompt.
        self._doubtful: list[tuple[bytes, int]] = []
        #: Somebody else has typed something.
        self.touched = False
        #: A trap may print something for each line of ours too.
        self._debug_trap = False
        #: While what an earlier server saw is gone through again, up to this place, nothing is typed.
        self._replay_until: int | None = None
        self.replayed = asyncio.Event()
        self.replayed.set()
        #: The input that typed the last command of an earlier server, if it came to that.
        self._typed_number = 0
        #: Some of what it printed is lost.
        self._lost = False
        #: Where in the log the newest line that somebody else entered begins.
        self._entered_at = -1
        #: The newest report.
        self.report: EndReport | None = None
        #: Told when somebody enters a line at the prompt: the run, and what was typed.
        self.entered: Callable[[Run, bytes], None] | None = None
        #: Told of whatever the terminal prints.
        self.printed: Callable[[], None] | None = None

    async def begin(self, delivery: Delivery, connect: Callable[[Receiver], Awaitable[Channel]]) -> bool:
        """Start it, and wait for its first prompt; whether that came.

        Raises:
            OSError: there is no bash.
        """
        self._delivery = delivery
        self._channel = await connect(self)
        if not isinstance(await self._run.ended, EndReport):
            return False
        seen = await self._see_image()
        self.signs = seen is not None and integration.signs(seen.name, self.start_token)
        return True

    def go_on(
        self, delivery: Delivery, adopt: Callable[[Receiver, int], Channel], position: int, end: int
    ) -> Run:
        """Go on with a shell that an earlier server started: what it did is in its log, up to `end`."""
        self._delivery = delivery
        self.replayed.clear()
        self._replay_until = end
        self._channel = adopt(self, position)
        if position >= end:
            self._loop.call_soon(self._caught_up)
        return self._run

    def remember(self, typed: Typed) -> None:
        """The last command that an earlier server gave it."""
        self._run = Run(typed.token, self._loop, self._send, typed.printed)
        self._phase = _Phase.TYPED
        self._typed_number = typed.input_number

    @property
    def alive(self) -> bool:
        """Whether it can run commands."""
        return self._phase is not _Phase.GONE

    @property
    def busy(self) -> bool:
        """Whether a command runs, whoever entered it."""
        return self._next is not None or self._phase in (
            _Phase.TYPED,
            _Phase.RUNNING,
            _Phase.REPAIR,
            _Phase.DOUBT,
            _Phase.CLAIMED,
        )

    @property
    def exit_status(self) -> int | None:
        """The status of a shell that is gone, if known."""
        return self._exit_status

    @property
    def channel(self) -> Channel:
        assert self._channel is not None
        return self._channel

    async def prepare(self, command: bytes, printed: Printed | None = None) -> Run:
        """Leave a command where the shell will find it; only when idle."""
        assert self._delivery is not None
        if self._delivery.lost:
            await self._threads.run(self._delivery.restore)
        run = Run(secrets.token_urlsafe(6), self._loop, self._send, printed)
        if len(command) > _LARGE:
            await self._threads.run(self._delivery.put, command)
        else:
            self._delivery.put(command)
        run.suspect = b"PROMPT_COMMAND" in command or b"PS1" in command
        self._debug_trap = self._debug_trap or (b"trap" in command and b"DEBUG" in command)
        return run

    def run(self, run: Run) -> None:
        """Run the command that was prepared, once the shell is at its prompt."""
        self._run = run
        if self.alive:
            self._at_prompt(self._begin_command)
        else:
            run.ended.set_result(ShellEnd(self._exit_status))

    def press(self, key: bytes, printed: Printed | None = None) -> Run:
        """Press a key at the idle prompt that makes the shell print a new prompt, or end."""
        self._run = Run(self._run.token, self._loop, self._send, printed)
        self._at_prompt(functools.partial(self._press, key))
        return self._run

    def _begin_command(self) -> None:
        self._echo.clear()
        self._stalls = 0
        self._phase = _Phase.TYPED
        self._type_command()
        self._expect_output()

    def _press(self, key: bytes) -> None:
        self._run.begin(self.channel.position)
        self._phase = _Phase.RUNNING
        # A signal that comes just when readline begins to wait is seen with the next key only.
        self._send(key + b"\r" if key == _INTERRUPT else key)

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
        if self._delivery is not None:
            delivery, self._delivery = self._delivery, None
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
            self._type_command()
        elif self._phase is _Phase.REPAIR:
            # It may have been told already; once more does no harm at a prompt.
            report = integration.report_line(self._run.token) + b"\r"
            self._set_timer(_PROMPT_LIMIT, functools.partial(self._send, report, self._run.token))
        self._later(self._see_image())
        if self.busy:
            self._expect_output()

    async def _find_out(self) -> None:
        """Have a shell of which marks are lost report before it is used, if it is at its prompt."""
        await self._see_image()
        await self._look(self._run)
        if self._phase is _Phase.REPAIR:
            await asyncio.wait([self._run.ended], timeout=_STALL)
        self.replayed.set()

    def _send(self, data: bytes, token: str = "") -> None:
        if self._channel is not None and self._replay_until is None:
            self._channel.write(data, token)

    def _type_command(self) -> None:
        self.channel.write(_DISCARD_LINE + self._command_line() + b"\r", self._run.token)

    def _command_line(self) -> bytes:
        delivery = self._delivery
        return integration.command_line(
            self._run.token, delivery.command if delivery is not None and delivery.moved else ""
        )

    # What the channel tells.

    def received(self, data: bytes, offset: int) -> None:
        """Sort what the terminal printed: output, echo, prompts and marks."""
        if not data:
            self._doubt_everything(offset)
        for item, at in self._parser.feed(data, offset):
            if isinstance(item, ShellMark):
                self._marked(item, at)
            else:
                self._printed(item, at)
        if self.printed is not None:
            self.printed()
        if self._replay_until is not None and offset + len(data) >= self._replay_until:
            self._caught_up()

    def hung_up(self, status: int | None) -> None:
        """The shell is gone, and with it whatever ran."""
        self._phase, self._next = _Phase.GONE, None
        self._exit_status = status
        self._cancel_timer()
        self.replayed.set()
        if not self._run.ended.done():
            self._run.ended.set_result(ShellEnd(status))

    def _doubt_everything(self, offset: int) -> None:
        """Marks may be among the output that is lost: a shell at its prompt has to report again."""
        self._parser = MarkParser()
        self._lost = True
        if self._phase is _Phase.TYPED and self.channel.inputs >= self._typed_number:
            self._run.begin(offset)
            self._phase = _Phase.RUNNING
        self._run.suspect = True

    def _printed(self, data: bytes, at: int) -> None:
        if self._after_claim:
            self._after_claim.append((data, at))
        elif self._phase in (_Phase.RUNNING, _Phase.CLAIMED):
            self._run.add(data, at)
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

    def _marked(self, mark: ShellMark, at: int) -> None:
        if mark.kind in "ABHP" and mark.token == self.session_token:
            self._prompted(mark, at)
        elif mark.kind == "C" and at == self._entered_at and self._replay_until is not None:
            # Typed by an earlier server, whose journal does not tell of it any more.
            if mark.token.replace("-", "").replace("_", "").isalnum():
                self._run.token = mark.token
        elif mark.token != self._run.token:
            self._printed(mark.raw, at)  # a stale one, or an imitation
        elif mark.kind == "C" and self._phase is _Phase.TYPED:
            self._stray.append(_without_echo(bytes(self._echo), self._command_line(), trap=self._debug_trap))
            if self.touched:  # a line that somebody began to type and left is not output
                whole, self._stray, self.touched = self._stray.take().data, OutputBuffer(), False
                self._stray.append(whole[: whole.rfind(b"\n") + 1])
            self._run.before, self._stray = self._stray, OutputBuffer()
            self._run.begin(at + len(mark.raw))
            self._phase = _Phase.RUNNING
        elif mark.kind == "D" and (report := EndReport.parse(mark)):
            self._end_told(report, mark, at)

    def _end_told(self, report: EndReport, mark: ShellMark, at: int) -> None:
        starting = self._phase is _Phase.STARTING
        if self.signs and not starting and not self.channel.confirmed(at):
            self._run.suspect = True
            # Only the newest ends are confirmed: it may be an older one, which the shell can tell again.
            self._lost = self._lost or self._replay_until is not None
            self._printed(mark.raw, at)  # or some other program printed it
            return
        self.report = report
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
        if not self._run.ended.done():
            self._run.ended.set_result(self.report)

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
        self._later(self._look_for_prompt(self._run))

    async def _look_for_prompt(self, run: Run) -> None:
        """No prompt came: it was not shown, the user's own hooks run, or the end is an imitation."""
        seen = await self._threads.run(look_at_shell, self.channel.pid)
        if seen is not None and seen.waiting:  # or it has just started a program that has no terminal yet
            await asyncio.sleep(_DOUBT)
            seen = await self._threads.run(look_at_shell, self.channel.pid)
        at_rest = seen is None or seen.waiting
        if self._timer is not None:
            return
        if self._phase is _Phase.CLAIMED and self._run is run:
            self._settle_claim(believed=at_rest)
        if self._phase in (_Phase.ENDED, _Phase.PROMPT):
            if at_rest:
                self._prompt_limit = _NO_PROMPT_LIMIT
                self._ready()
            else:
                self._set_timer(_PROMPT_LIMIT, self._prompt_missed)

    async def _look_at_claim(self, run: Run) -> None:
        """An end and a prompt were printed by the shell, or by a program that it runs."""
        seen = await self._threads.run(look_at_shell, self.channel.pid)
        if self._phase is _Phase.CLAIMED and self._run is run:
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
                self._later(self._look_at_claim(self._run))
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
            self._keep_unclaimed()
        elif self._phase is _Phase.REPAIR:
            self._phase = _Phase.RUNNING  # a prompt of ours that some other program shows
        elif self._phase is _Phase.RUNNING:
            # Nothing was said before it: the hook is gone, or the command prints what looks like a prompt.
            self._run.suspect = True
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
        self._run = Run(self._run.token, self._loop, self._send)
        self._run.begin(after)
        self._entered_at = after
        self._phase = _Phase.RUNNING
        if self.entered is not None:
            self.entered(self._run, typed)

    # A shell that was replaced prints no marks: the only way to know is to look.

    def _expect_output(self) -> None:
        self._set_timer(_QUIET, self._check)

    def _check(self) -> None:
        self._timer = None
        self._later(self._look(self._run))

    def _later(self, work: Coroutine[Any, Any, object]) -> None:
        task = self._loop.create_task(work)
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _look(self, run: Run) -> None:
        pid = self.channel.pid
        seen = await self._threads.run(look_at_shell, pid)
        if seen is None or self._run is not run or self._timer is not None:
            return
        if self._phase is _Phase.DOUBT:
            self._judge(run, seen)
        elif self._phase in (_Phase.TYPED, _Phase.REPAIR):
            self._stalled(pid, at_rest=seen.waiting)
        elif self._phase is _Phase.RUNNING:
            self._care(run, seen, pid)

    def _judge(self, run: Run, seen: ShellSample) -> None:
        """Decide whether something that looked like a prompt is one."""
        if run.repaired or not (seen.waiting and seen.editing):
            self._believe_output()
        elif self._on_its_way(run, seen):
            self._set_timer(_DOUBT, self._check)
        else:
            held, self._doubtful = self._doubtful, []
            prompts = [index for index, (data, _) in enumerate(held) if integration.begins_prompt(data)]
            for data, at in held[: prompts[-1]]:
                self._run.add(data, at)
            self._repair_with(integration.report_line(run.token))

    def _on_its_way(self, run: Run, seen: ShellSample) -> bool:
        """Whether a shell at its prompt has told the end, and only the mark has not come yet."""
        run.looks += 1
        return integration.signs(seen.name, run.token) and run.looks < _MOST_LOOKS

    def _stalled(self, pid: int, *, at_rest: bool) -> None:
        """A line was typed and nothing came of it: a shell that cannot be talked to is of no use."""
        self._stalls = self._stalls + 1 if at_rest else 0
        if self._stalls >= _MOST_STALLS:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        else:
            self._set_timer(_STALL, self._check)

    def _care(self, run: Run, seen: ShellSample, pid: int) -> None:
        """Look after a shell that runs a command, or was replaced by one that does not know us."""
        if seen.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        elif not seen.waiting:
            return
        elif run.repaired:
            if run.suspect and seen.editing:
                self._stalled(pid, at_rest=True)
        elif seen.interactive and seen.image != self._image and self._delivery is not None:
            self._image = seen.image
            run.token = self.start_token  # what the new shell learns from the file
            self._repair_with(integration.reload_line(self._delivery.path))
        elif run.suspect and seen.editing:
            if self._on_its_way(run, seen):
                self._expect_output()
            else:
                self._repair_with(integration.report_line(run.token))

    def _repair_with(self, line: bytes) -> None:
        self._cancel_timer()
        self._run.repaired = True
        self._phase = _Phase.REPAIR
        self._send(line + b"\r", self._run.token)
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
