"""What a command costs: CPU time, memory, processes."""

from __future__ import annotations

import os
import time

import msgspec

from glovebox.box.terminal import processes
from glovebox.box.terminal.inspection.command import TICKS_PER_SECOND, CommandProcesses
from glovebox.box.terminal.processes import Process

#: CPU time is told in ticks, and cannot be compared with the clock more exactly than this.
_SLACK = 0.1
_CORES = os.cpu_count() or 1


class Usage(msgspec.Struct, frozen=True):
    """What a command cost; what is not known is `None`."""

    #: CPU time of the shell and what it started, in steps of a hundredth of a second.
    cpu_seconds: float | None
    #: The most memory that was seen in use, in bytes, beyond what the shell used before: the largest sum
    #: over all processes at one time, or the high-water mark of a single process if that is larger.
    #: So it may be too small, for peaks of several processes between two samples, and it counts pages
    #: that processes share for each of them. Without a sample it is not known.
    peak_memory: int | None
    #: The most processes that were seen at one time, without the shell. Without a sample it is not known.
    processes: int | None


class Meter:
    """Measures one command, from the creation of the meter on.

    Jobs that ran before are not part of it. They are told apart by their start, to a hundredth of a second.
    """

    def __init__(self, shell: int) -> None:
        self._begun = time.monotonic()
        # Starts are told in ticks since the machine was booted.
        self._since = int(_uptime() * TICKS_PER_SECOND)
        found = processes.read(shell)
        self._command = CommandProcesses(found, self._is_earlier) if found else None
        self._cpu: int | None = None
        self._memory: int | None = None
        self._processes: int | None = None

    def sample(self) -> None:
        """Look at the command while it runs; the more often, the better is the peak known."""
        sight = self._command.look() if self._command else None
        if sight is None:
            return
        alive = sight.alive
        marks = [_high_water(process) for process in alive]
        self._cpu = max(self._cpu or 0, sight.ticks)
        self._memory = max(self._memory or 0, sight.resident, *marks)
        self._processes = max(self._processes or 0, len(alive))

    def finish(self) -> Usage:
        """What it was in the end.

        Quick, as every command pays for it: what it left in the background is not looked for.
        """
        if self._command is not None:
            # In less than a tick nothing can be counted.
            quick = time.monotonic() - self._begun < 1 / TICKS_PER_SECOND
            used = 0 if quick else self._command.cpu_of_shell()
            self._cpu = self._cpu if used is None else max(self._cpu or 0, used)
        return Usage(self._seconds(), self._memory, self._processes)

    def _seconds(self) -> float | None:
        if self._cpu is None:
            return None
        seconds = self._cpu / TICKS_PER_SECOND
        # An earlier job that ended meanwhile, unseen, is in the shell's account with all it ever used.
        possible = (time.monotonic() - self._begun) * _CORES + _SLACK
        return seconds if seconds <= possible else None

    def _is_earlier(self, process: Process) -> bool:
        return process.started < self._since


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def _high_water(process: Process) -> int:
    """The most memory a process ever used, in bytes, since it began with its present program."""
    try:
        with open(f"/proc/{process.pid}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmHWM:")), 0)
