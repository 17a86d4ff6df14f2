"""Samples the processes of a running command: its state, what it uses, and whether it keeps to its limits."""

from __future__ import annotations

import asyncio
import time

from glovebox.box.terminal.commands import RunningCommand, ShellEnd
from glovebox.box.terminal.inspection.limits import Exceeded, Warden
from glovebox.box.terminal.inspection.states import StateSample, look
from glovebox.box.terminal.inspection.usage import Meter
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.threads import Threads
from glovebox.linux.oom import Descendants, OomWatch
from glovebox.protocol.terminal import Bill, Limits

#: Most commands end before the first sample.
_FIRST_LOOK = 0.05
#: The intervals between samples grow up to this one.
_LAST_INTERVAL = 1.0
#: The interval for a command with limits.
_LIMITED_INTERVAL = 0.05
#: What ends sooner, and not because of a signal, has not used up the memory.
_QUICK = 0.02
_SIGNALLED = 128
#: So long a shell at a prompt may belong to a command whose end has not been read yet.
_DOUBT = 0.5


class Monitor:
    """Samples one command now and then: there is no event for a program that begins to wait for input."""

    def __init__(
        self, command: RunningCommand, shell: int, limits: Limits, threads: Threads, oom: OomWatch
    ) -> None:
        self._command = command
        self._shell = shell
        self._threads = threads
        # A command may have begun under an earlier server.
        self._began = time.monotonic() - max(0.0, time.time() - command.started)
        self._meter = Meter(shell)
        self._oom = oom
        self._before = oom.mark()
        self._started = Descendants(shell)
        #: Ends a command that exceeds its limits, if it has any.
        self.warden = Warden(shell, limits) if limits != Limits() else None
        self._exceeded: Exceeded | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_FIRST_LOOK, self._start)

    def end(self, result: EndReport | ShellEnd) -> None:
        """End the command with its bill, the limit that ended it, and what the system killed meanwhile."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        status = result.exit_code if isinstance(result, EndReport) else result.status
        used = self._meter.finish()
        if self.warden is not None:
            at_end = self.warden.end(-1 if status is None else status)
            self._exceeded = self._exceeded or at_end
        wall = time.monotonic() - self._began
        oom = None
        if wall >= _QUICK or status is None or not 0 <= status < _SIGNALLED:
            mine = self._started.seen
            oom = self._oom.describe(self._before, mine=mine, leader=self._shell, status=status)
        bill = Bill(
            wall_seconds=wall,
            cpu_seconds=used.cpu_seconds,
            peak_memory=used.peak_memory,
            output_bytes=self._command.size,
        )
        self._command.end(result, bill, limit=self._exceeded.text if self._exceeded else None, oom=oom)

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        command, interval = self._command, _FIRST_LOOK
        while not command.finished:
            size = command.size
            seen = await self._threads.run(self._look)
            if seen is not None and seen.by_shell:
                await asyncio.wait([command.ended], timeout=_DOUBT)
                seen = None if command.finished else await self._threads.run(self._look)
            if command.finished:
                return
            # A program that prints during the sample is not waiting.
            if seen is not None and size == command.size:
                command.update(
                    state=seen.state.value, prompt=seen.prompt, echo_off=seen.echo_off, program=seen.program
                )
            interval = _LIMITED_INTERVAL if self.warden else min(interval * 1.5, _LAST_INTERVAL)
            if await command.rest(interval):  # it got input, or printed something like a prompt
                interval = _FIRST_LOOK
                await asyncio.wait([command.ended], timeout=interval)

    def _look(self) -> StateSample | None:
        """Take one sample, which blocks."""
        self._meter.sample()
        self._started.look()
        if self.warden is not None and self._exceeded is None:
            self._exceeded = self.warden.check()
        command = self._command
        return look(self._shell, alternate_screen=command.alternate_screen, tail=command.tail)
