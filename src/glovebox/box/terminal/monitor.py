"""Watches a command while it runs: what it does, what it uses, and whether it keeps to its limits."""

from __future__ import annotations

import asyncio
import time

from glovebox.box.terminal.commands import Command
from glovebox.box.terminal.inspection.limits import Exceeded, Warden
from glovebox.box.terminal.inspection.states import StateSample, look
from glovebox.box.terminal.inspection.usage import Meter
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.shell.run import Run, ShellEnd
from glovebox.box.threads import Threads
from glovebox.linux.oom import Descendants, OomWatch
from glovebox.protocol.terminal import Bill, Limits

#: Most commands end before anybody looks.
_FIRST_LOOK = 0.05
#: Looks come at growing intervals, up to this one.
_LAST_INTERVAL = 1.0
#: With limits there is no time to lose.
_LIMITED_INTERVAL = 0.05
#: What ends sooner, and not because of a signal, has not used up the memory.
_QUICK = 0.02
_SIGNALLED = 128


class Monitor:
    """Looks at one command now and then: nothing tells when a program begins to wait for input."""

    def __init__(
        self,
        command: Command,
        run: Run,
        shell: int,
        limits: Limits | None,
        threads: Threads,
        oom: OomWatch,
    ) -> None:
        self._command = command
        self._run = run
        self._shell = shell
        self._threads = threads
        # A command may have begun under an earlier server.
        self._began = time.monotonic() - max(0.0, time.time() - command.info().started)
        self._meter = Meter(shell)
        self._oom = oom
        self._before = oom.mark()
        self._started = Descendants(shell)
        self._warden = Warden(shell, limits) if limits is not None and limits != Limits() else None
        self._exceeded: Exceeded | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_FIRST_LOOK, self._start)

    async def begin(self) -> None:
        if self._warden is not None:
            await self._threads.run(self._warden.begin)

    def end(self, result: EndReport | ShellEnd) -> tuple[Bill, str | None]:
        """The bill, and the limit that ended the command, if one did."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        used = self._meter.finish()
        if self._warden is not None:
            status = result.exit_code if isinstance(result, EndReport) else result.status
            at_end = self._warden.end(-1 if status is None else status)
            self._exceeded = self._exceeded or at_end
        bill = Bill(
            wall_seconds=time.monotonic() - self._began,
            cpu_seconds=used.cpu_seconds,
            peak_memory=used.peak_memory,
            output_bytes=self._command.size,
        )
        return bill, self._exceeded.text if self._exceeded else None

    def killed(self, result: EndReport | ShellEnd, bill: Bill) -> str | None:
        """What the system killed for want of memory meanwhile, in a sentence."""
        status = result.exit_code if isinstance(result, EndReport) else result.status
        if bill.wall_seconds < _QUICK and status is not None and 0 <= status < _SIGNALLED:
            return None
        return self._oom.describe(self._before, mine=self._started.seen, leader=self._shell, status=status)

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        interval = _FIRST_LOOK
        while not self._run.ended.done():
            size = self._command.size
            seen = await self._threads.run(self._look)
            if self._run.ended.done():
                return
            # Whoever prints while somebody looks is not waiting.
            if seen is not None and size == self._command.size:
                self._command.update(
                    state=seen.state.value, prompt=seen.prompt, echo_off=seen.echo_off, program=seen.program
                )
            interval = _LIMITED_INTERVAL if self._warden else min(interval * 1.5, _LAST_INTERVAL)
            await asyncio.wait([self._run.ended], timeout=interval)

    def _look(self) -> StateSample | None:
        """Everything that a look at the processes tells. Blocks."""
        self._meter.sample()
        self._started.look()
        if self._warden is not None and self._exceeded is None:
            self._exceeded = self._warden.check()
        command = self._command
        return look(self._shell, alternate_screen=command.alternate_screen, tail=command.tail)
