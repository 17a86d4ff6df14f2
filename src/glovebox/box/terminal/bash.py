"""One bash: its commands begin and end with marks, whatever carries its bytes."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass

from glovebox.box.terminal import integration, processes
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.channel import Channel, Connect
from glovebox.box.terminal.delivery import Delivery
from glovebox.box.terminal.integration import Mark, MarkParser, Report
from glovebox.box.terminal.rendering import LiveText
from glovebox.box.terminal.retention import Output
from glovebox.box.threads import Threads
from glovebox.errors import StartupError

#: How long the user's startup files may take.
_START_LIMIT = 20.0
#: How long a prompt may take to follow the end mark.
_PROMPT_LIMIT = 0.2
#: The same when the last one did not come, as the shell's stderr is not the terminal.
_NO_PROMPT_LIMIT = 0.02
#: After so long without output a shell may have been replaced by one that does not know us.
_QUIET = 0.1
#: Whatever is on the line already, say input that a program did not read, must not become part of ours.
_DISCARD_LINE = b"\x15"
_INTERRUPT = b"\x03"
#: Above this size, a command is written to its file in a thread.
_LARGE = 1_000_000


@dataclass(frozen=True, slots=True)
class ShellEnd:
    """The shell itself is gone; its status, if known."""

    status: int | None


class Run:
    """A command, from the moment it is typed until its shell is ready for the next."""

    def __init__(self, token: str, loop: asyncio.AbstractEventLoop, send: Callable[[bytes], None]) -> None:
        self.token = token
        #: Type something for the command.
        self.send = send
        self.output = Output()
        #: What background jobs had printed before it began.
        self.before = Output()
        self.last_output = loop.time()
        self.ended: asyncio.Future[Report | ShellEnd] = loop.create_future()
        #: Whether the shell has begun with it.
        self.begun = False
        #: Whether the shell has been reminded of its hooks; once is enough.
        self.repaired = False
        self._loop = loop
        self._live = LiveText()
        self._listener: Callable[[str], None] | None = None

    @property
    def missed(self) -> bool:
        """Whether the shell was gone before it could begin."""
        return not self.begun and self.ended.done() and isinstance(self.ended.result(), ShellEnd)

    def listen(self, listener: Callable[[str], None] | None) -> None:
        """Pass output on as it comes, beginning with what nobody has been told yet; `None` stops that."""
        self._listener = listener
        if listener is not None and len(self.output):
            self._live = LiveText()
            self._tell(self.output.peek())

    def add(self, data: bytes) -> None:
        """The command printed something."""
        self.output.append(data)
        self.last_output = self._loop.time()
        self._tell(data)

    def _tell(self, data: bytes) -> None:
        if self._listener is not None and (text := self._live.feed(data)):
            self._listener(text)


class _Phase(enum.Enum):
    STARTING = enum.auto()
    IDLE = enum.auto()  # at the prompt, which has been printed
    TYPED = enum.auto()  # the line that runs a command is typed, and the command not begun
    RUNNING = enum.auto()
    REPAIR = enum.auto()  # the command is over, and the shell is being told again to say so
    ENDED = enum.auto()  # the end mark is here, the prompt not yet
    PROMPT = enum.auto()  # the prompt is being printed
    GONE = enum.auto()


class Bash:
    """A shell that runs one command at a time and says how each ended.

    It is the receiver of its channel: everything happens in `received` and `hung_up`.
    """

    def __init__(self, threads: Threads) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._parser = MarkParser()
        self._phase = _Phase.STARTING
        self._session = secrets.token_hex(8)
        self._start_token = secrets.token_hex(8)
        self._run = Run(self._start_token, self._loop, self._send)
        self._typed = b""
        self._echo = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._checks: set[asyncio.Task[None]] = set()
        self._channel: Channel | None = None
        self._delivery: Delivery | None = None
        self._exit_status: int | None = None
        self._stray = Output()
        self._image: tuple[bytes, ...] = ()
        self._prompt_limit = _PROMPT_LIMIT
        #: The newest report.
        self.report: Report | None = None

    @classmethod
    async def start(cls, connect: Connect, account: Account, cwd: str, threads: Threads) -> Bash:
        """Start a shell in a directory and wait for its first prompt.

        Raises:
            StartupError: there is no bash, or it does not come to a prompt even without the user's files.
        """
        for user_files in (True, False):
            shell = cls(threads)
            started = False
            try:
                async with asyncio.timeout(_START_LIMIT):
                    started = await shell._begin(connect, account, cwd, user_files=user_files)
            except TimeoutError:
                pass
            finally:  # also when whoever waits has given up
                if not started:
                    await shell.close()
            if started:
                return shell
        raise StartupError("bash did not come to a prompt")

    @property
    def alive(self) -> bool:
        """Whether it can run commands."""
        return self._phase is not _Phase.GONE

    @property
    def exit_status(self) -> int | None:
        """The status of a shell that is gone, if known."""
        return self._exit_status

    async def run(self, command: bytes) -> Run:
        """Run a command; only when idle."""
        assert self._channel is not None
        assert self._delivery is not None
        if self._delivery.lost:
            await self._threads.run(self._delivery.restore)
        if len(command) > _LARGE:
            await self._threads.run(self._delivery.put, command)
        else:
            self._delivery.put(command)
        self._run = Run(secrets.token_hex(4), self._loop, self._send)
        self._typed = integration.command_line(self._run.token)
        self._echo.clear()
        if self.alive:
            self._phase = _Phase.TYPED
            self._channel.write(_DISCARD_LINE + self._typed + b"\r")
            self._expect_output()
        else:
            self._run.ended.set_result(ShellEnd(self._exit_status))
        return self._run

    def press(self, key: bytes) -> Run:
        """Press a key at the idle prompt that makes the shell print a new prompt, or end."""
        self._run = Run(self._run.token, self._loop, self._send)
        self._run.begun = True
        self._phase = _Phase.RUNNING
        # A signal that comes just when readline begins to wait is seen with the next key only.
        self._send(key + b"\r" if key == _INTERRUPT else key)
        return self._run

    async def close(self) -> None:
        """End the shell and what it started, and remove its files."""
        self._phase = _Phase.GONE
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

    async def _begin(self, connect: Connect, account: Account, cwd: str, *, user_files: bool) -> bool:
        group = account.gid if account.switch else None
        self._delivery = delivery = await self._threads.run(
            Delivery, session=self._session, token=self._start_token, group=group
        )
        rcfile = delivery.startup if user_files else delivery.hooks
        try:
            self._channel = await connect(rcfile, cwd, self)
        except OSError as error:
            await self.close()
            raise StartupError(f"bash could not be started: {error}") from error
        if not isinstance(await self._run.ended, Report):
            return False
        seen = await self._threads.run(processes.shell, self._channel.pid)
        self._image = seen.image if seen else ()
        return True

    def _send(self, data: bytes) -> None:
        if self._channel is not None:
            self._channel.write(data)

    # What the channel tells.

    def received(self, data: bytes) -> None:
        """Sort what the terminal printed: output, echo, prompts and marks."""
        for item in self._parser.feed(data):
            if isinstance(item, Mark):
                self._marked(item)
            else:
                self._printed(item)

    def hung_up(self, status: int | None) -> None:
        """The shell is gone, and with it whatever ran."""
        self._phase = _Phase.GONE
        self._exit_status = status
        self._cancel_timer()
        if not self._run.ended.done():
            self._run.ended.set_result(ShellEnd(status))

    def _printed(self, data: bytes) -> None:
        if self._phase in (_Phase.RUNNING, _Phase.ENDED):
            self._run.add(data)
            if self._phase is _Phase.RUNNING:
                self._expect_output()
        elif self._phase is _Phase.TYPED:
            self._echo += data
        elif self._phase is _Phase.IDLE:
            self._stray.append(data)

    def _marked(self, mark: Mark) -> None:
        if mark.kind in "AB" and mark.token == self._session:
            self._prompted(mark.kind)
        elif mark.token != self._run.token:
            return  # a stale one, or an imitation
        elif mark.kind == "C" and self._phase is _Phase.TYPED:
            self._stray.append(_without_echo(bytes(self._echo), self._typed))
            self._run.before, self._stray = self._stray, Output()
            self._run.begun = True
            self._phase = _Phase.RUNNING
        elif mark.kind == "D" and self._phase is not _Phase.ENDED and (report := Report.parse(mark)):
            self.report = report
            if self._phase in (_Phase.STARTING, _Phase.TYPED, _Phase.RUNNING, _Phase.REPAIR):
                self._phase = _Phase.ENDED
                self._set_timer(self._prompt_limit, self._prompt_missed)

    def _prompt_missed(self) -> None:
        self._prompt_limit = _NO_PROMPT_LIMIT
        self._finish()

    def _prompted(self, kind: str) -> None:
        self._prompt_limit = _PROMPT_LIMIT
        if kind == "B":
            if self._phase is _Phase.PROMPT:
                self._phase = _Phase.IDLE
        elif self._phase is _Phase.ENDED:
            self._finish()
            self._phase = _Phase.PROMPT
        elif self._phase is _Phase.IDLE:
            self._phase = _Phase.PROMPT
        elif self._phase is _Phase.REPAIR:
            self._phase = _Phase.RUNNING  # a prompt of ours that some other program shows
        elif self._phase is _Phase.RUNNING and not self._run.repaired:
            # A prompt, and nothing said before it: the command removed the hook.
            self._repair_with(integration.REPORT_LINE)

    def _finish(self) -> None:
        assert self.report is not None
        self._cancel_timer()
        self._phase = _Phase.IDLE
        if not self._run.ended.done():
            self._run.ended.set_result(self.report)

    # A shell that was replaced prints no marks: the only way to know is to look.

    def _expect_output(self) -> None:
        self._set_timer(_QUIET, self._check)

    def _check(self) -> None:
        self._timer = None
        task = self._loop.create_task(self._look(self._run))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _look(self, run: Run) -> None:
        assert self._channel is not None
        pid = self._channel.pid
        seen = await self._threads.run(processes.shell, pid)
        if seen is None or self._run is not run or self._phase is not _Phase.RUNNING:
            return
        if seen.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        elif seen.waiting and seen.image != self._image and not run.repaired and self._delivery is not None:
            self._image = seen.image
            run.token = self._start_token  # what the new shell learns from the file
            self._repair_with(integration.reload_line(self._delivery.path))

    def _repair_with(self, line: bytes) -> None:
        self._cancel_timer()
        self._run.repaired = True
        self._phase = _Phase.REPAIR
        self._send(line + b"\r")

    def _set_timer(self, delay: float, action: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(delay, action)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _without_echo(data: bytes, typed: bytes) -> bytes:
    """The lines that were printed while a line was typed, without it and what the shell traced of it."""
    before, _, after = data.partition(typed)
    before = before[: before.rfind(b"\n") + 1]  # the rest is the prompt, drawn again
    _, _, rest = after.partition(b"\n")
    return before if b"__gb" in rest else before + rest
