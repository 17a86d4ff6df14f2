"""The processes of a command, distinguished from earlier jobs of its shell, and what they use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from glovebox.linux import processes
from glovebox.linux.processes import TICKS_PER_SECOND, Process, ProcessTable, read_file, size_field

#: The kernel counts CPU time in ticks, so a comparison with the clock is not more exact than this.
_SLACK = 0.1
_CORES = os.cpu_count() or 1


class CommandUsage(NamedTuple):
    """The processes of a command at one moment, and what they use."""

    shell: Process
    #: Its processes, zombies included.
    members: list[Process]
    #: CPU time since the beginning, in ticks.
    ticks: int
    #: Bytes in use by its processes, and what the shell itself uses more than at the beginning.
    #: Pages that processes share are counted for each.
    resident: int

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.members if not process.ended]


class CommandProcesses:
    """The processes that a shell starts from now on."""

    def __init__(self, shell: Process, is_earlier: Callable[[Process], bool]) -> None:
        """`is_earlier` says of a process of the shell whether it was there before the command."""
        self._shell = shell
        self._is_earlier = is_earlier
        #: Start times by id. A process that leaves the session and loses its parent is recognized by them.
        self._known: dict[int, int] = {}
        #: The last known CPU time of earlier jobs. The shell's contains it once it has waited for them.
        self._jobs: dict[tuple[int, int], int] = {}
        self._foreign = 0

    def cpu_of_shell(self) -> int | None:
        """What the shell and the children it has waited for used, in ticks; `None` if it is gone."""
        shell = self._read_shell()
        return None if shell is None else max(0, self._ticks_since(shell))

    def look(self) -> CommandUsage | None:
        """The usage now; `None` if the shell is gone."""
        # First the shell: a child that it waits for in between is then missed, and not counted twice.
        shell = self._read_shell()
        if shell is None:
            return None
        members, earlier = self._sort(ProcessTable())
        self._known = {process.pid: process.started for process in members}
        self._forget_jobs(earlier)
        return CommandUsage(
            shell=shell,
            members=members,
            ticks=max(0, self._ticks_since(shell) + sum(map(_ticks, members))),
            resident=_resident(members, shell) + max(0, shell.resident - self._shell.resident),
        )

    def _read_shell(self) -> Process | None:
        now = processes.read(self._shell.pid)
        return now if now is not None and now.started == self._shell.started else None

    def _ticks_since(self, shell: Process) -> int:
        return _ticks(shell) - _ticks(self._shell) - self._foreign

    def _sort(self, table: ProcessTable) -> tuple[list[Process], list[Process]]:
        """The command's processes, and the earlier ones."""
        shell, known = self._shell.pid, self._known
        roots = [
            process.pid
            for process in table
            if shell in (process.pid, process.session) or known.get(process.pid) == process.started
        ]
        relatives = [process for process in table.tree(roots) if process.pid != shell]
        first = [process for process in relatives if self._is_earlier(process)]
        # Processes of an earlier pipeline keep its group, even when their parent is gone.
        groups = {process.group for process in first} - {self._shell.group}
        first += [process for process in relatives if process.group in groups]
        earlier = table.tree(process.pid for process in first)
        pids = {process.pid for process in earlier}
        return [process for process in relatives if process.pid not in pids], earlier

    def _forget_jobs(self, earlier: list[Process]) -> None:
        now = {process.key: _ticks(process) for process in earlier if process.parent == self._shell.pid}
        self._foreign += sum(ticks for job, ticks in self._jobs.items() if job not in now)
        self._jobs = now


def _resident(members: list[Process], shell: Process) -> int:
    """The memory in use by processes, in bytes.

    A process that is being started with `vfork` still has its parent's memory, which counts once.
    """
    parents = {process.pid: process for process in [*members, shell] if process.state == "D"}
    return sum(
        process.resident
        for process in members
        if (parent := parents.get(process.parent)) is None or parent.size != process.size
    )


def _ticks(process: Process) -> int:
    return process.ticks + process.waited_ticks


class Usage(NamedTuple):
    """What a command used; `None` is unknown."""

    #: CPU time of the shell and what it started, in steps of a hundredth of a second.
    cpu_seconds: float | None
    #: The highest sampled memory in bytes, beyond what the shell used before: the largest sum over all
    #: processes at one time, or the high-water mark of a single process if that is larger. It may be too
    #: small, for peaks of several processes between two samples, and pages that processes share count for
    #: each. Unknown without a sample.
    peak_memory: int | None
    #: The most processes in one sample, without the shell. Unknown without a sample.
    processes: int | None


class Meter:
    """Measures one command, from the creation of the meter on.

    Earlier jobs are not part of it; they are recognized by their start time, to a hundredth of a second.
    """

    def __init__(self, shell: int) -> None:
        self._begun = time.monotonic()
        self._since = int(processes.uptime() * TICKS_PER_SECOND)
        found = processes.read(shell)
        self._command = CommandProcesses(found, self._is_earlier) if found else None
        self._cpu: int | None = None
        self._memory: int | None = None
        self._processes: int | None = None

    def sample(self) -> None:
        """Measure the running command; the more often, the more exact is the peak."""
        seen = self._command.look() if self._command else None
        if seen is None:
            return
        alive = seen.alive
        self._cpu = max(self._cpu or 0, seen.ticks)
        self._memory = max(self._memory or 0, seen.resident, *map(_high_water, alive))
        self._processes = max(self._processes or 0, len(alive))

    def finish(self) -> Usage:
        """The usage of a command that has ended.

        Quick, as every command pays for it: processes that it left in the background are not searched.
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


def _high_water(process: Process) -> int:
    """The most memory a process ever used since it began its present program, in bytes."""
    return size_field(read_file(f"/proc/{process.pid}/status"), b"VmHWM")
