"""The processes of one command, told apart from its shell and from jobs that ran before it."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from glovebox.box.terminal import processes
from glovebox.box.terminal.processes import Process

#: CPU time is counted in these.
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class CommandUsage(msgspec.Struct, frozen=True):
    """A command in one moment."""

    shell: Process
    #: Its processes, also those that have ended and nobody has waited for.
    members: list[Process]
    #: CPU time since the beginning, in ticks.
    ticks: int
    #: Bytes in use by its processes, and what the shell itself uses more than at the beginning.
    #: Pages that processes share are counted for each.
    resident: int

    @property
    def alive(self) -> list[Process]:
        """The processes that have not ended."""
        return [process for process in self.members if process.state not in "ZX"]


class CommandProcesses:
    """What a shell starts from now on."""

    def __init__(self, shell: Process, is_earlier: Callable[[Process], bool]) -> None:
        """`is_earlier` tells, of a process that the shell started, whether it was there before."""
        self._shell = shell
        self._is_earlier = is_earlier
        #: Start times by number. One that leaves the session and loses its parent is still known.
        self._known: dict[int, int] = {}
        #: The CPU time of earlier jobs, as last seen. The shell's contains it once it has waited for them.
        self._jobs: dict[tuple[int, int], int] = {}
        self._foreign = 0

    def cpu_of_shell(self) -> int | None:
        """What the shell and the children it has waited for used, in ticks; `None` if it is gone."""
        now = processes.read(self._shell.pid)
        if now is None or now.started != self._shell.started:
            return None
        return max(0, _ticks(now) - _ticks(self._shell) - self._foreign)

    def look(self) -> CommandUsage | None:
        """See what is there; `None` if the shell is gone."""
        # First the shell: a child that it waits for in between is then missed, and not counted twice.
        shell = processes.read(self._shell.pid)
        if shell is None or shell.started != self._shell.started:
            return None
        everything = processes.everything()
        members, earlier = self._sort(everything)
        self._known = {process.pid: process.started for process in members}
        self._forget_jobs(earlier)
        ticks = _ticks(shell) - _ticks(self._shell) - self._foreign
        return CommandUsage(
            shell=shell,
            members=members,
            ticks=max(0, ticks + sum(_ticks(process) for process in members)),
            resident=resident(members, shell) + max(0, shell.resident - self._shell.resident),
        )

    def _sort(self, everything: list[Process]) -> tuple[list[Process], list[Process]]:
        """The command's processes, and the earlier ones."""
        shell = self._shell.pid
        family = {
            process.pid
            for process in everything
            if shell in (process.pid, process.session) or self._known.get(process.pid) == process.started
        }
        _add_children(family, everything)
        relatives = [process for process in everything if process.pid in family and process.pid != shell]
        first = [process for process in relatives if self._is_earlier(process)]
        # A pipeline has a group of its own, which what it starts belongs to even when its parent is gone.
        groups = {process.group for process in first} - {self._shell.group}
        earlier = {process.pid for process in first}
        earlier |= {process.pid for process in relatives if process.group in groups}
        _add_children(earlier, relatives)
        return (
            [process for process in relatives if process.pid not in earlier],
            [process for process in relatives if process.pid in earlier],
        )

    def _forget_jobs(self, earlier: list[Process]) -> None:
        now = {
            (process.pid, process.started): _ticks(process)
            for process in earlier
            if process.parent == self._shell.pid
        }
        self._foreign += sum(ticks for job, ticks in self._jobs.items() if job not in now)
        self._jobs = now


def resident(members: list[Process], shell: Process) -> int:
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


def _add_children(pids: set[int], candidates: list[Process]) -> None:
    grown = True
    while grown:
        children = {process.pid for process in candidates if process.parent in pids} - pids
        pids |= children
        grown = bool(children)
