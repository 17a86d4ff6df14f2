"""Finding and ending the processes that a shell started. Linux only; elsewhere nothing is found.

The holder uses this too, and has no memory to spare: hence no dataclasses.
"""

from __future__ import annotations

import os

from glovebox.box.terminal.holder.lean import signals

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """A process. Its start time distinguishes it from a later one with the same number."""

    __slots__ = (
        "foreground",
        "group",
        "name",
        "parent",
        "pid",
        "resident",
        "session",
        "size",
        "started",
        "state",
        "terminal",
        "threads",
        "ticks",
        "waited_ticks",
    )

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = split(stat)
        numbers = [int(field) for field in fields[1:22]]
        self.pid = pid
        self.name = stat[stat.index(b"(") + 1 : stat.rindex(b")")].decode(errors="replace")
        self.state = fields[0].decode()
        self.parent, self.group, self.session = numbers[0:3]
        #: The number of its terminal, and the group that has that terminal; 0 and -1 without one.
        self.terminal, self.foreground = numbers[3:5]
        #: CPU time in clock ticks: its own, and that of the children it has waited for.
        self.ticks = numbers[10] + numbers[11]
        self.waited_ticks = numbers[12] + numbers[13]
        self.threads = numbers[16]
        self.started = numbers[18]
        #: Bytes of address space, and of memory in use.
        self.size = numbers[19]
        self.resident = numbers[20] * _PAGE


def read(pid: int) -> Process | None:
    """Look at one process; `None` if it is gone."""
    try:
        return Process(pid, stat(pid))
    except OSError:
        return None


def everything() -> list[Process]:
    """All processes."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [found for name in names if name.isdigit() and (found := read(int(name)))]


class Table:
    """All processes in one moment. Reading them takes milliseconds, so one table is used for many shells."""

    def __init__(self) -> None:
        self._processes = {process.pid: process for process in everything()}
        self._children: dict[int, list[Process]] = {}
        self._sessions: dict[int, list[Process]] = {}
        for process in self._processes.values():
            self._children.setdefault(process.parent, []).append(process)
            self._sessions.setdefault(process.session, []).append(process)

    def get(self, pid: int) -> Process | None:
        return self._processes.get(pid)

    def family(self, leader: int, *, ended: bool) -> list[Process]:
        """The processes in the session of `leader`, and all descendants of it, the leader included.

        A number stays taken as long as a session has it. So if the leader has `ended` and a process of that
        number exists, it is another one and nothing of the session is left.
        """
        first = self._processes.get(leader)
        if ended and first is not None:
            return []
        found = {process.pid: process for process in self._sessions.get(leader, ())}
        if first is not None:
            found[leader] = first
        waiting = list(found)
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child.pid not in found:
                    found[child.pid] = child
                    waiting.append(child.pid)
        return list(found.values())


def family(leader: int, *, ended: bool) -> list[Process]:
    """The processes in the session of `leader`, and all descendants of it, the leader included."""
    return Table().family(leader, ended=ended)


def end(processes: list[Process]) -> None:
    """Kill those that still run."""
    for process in alive(processes):
        try:
            os.kill(process.pid, signals.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def alive(processes: list[Process]) -> list[Process]:
    """Those that still run."""
    return [
        process
        for process in processes
        if (now := read(process.pid)) and now.started == process.started and now.state not in "ZX"
    ]


def stat(pid: int) -> bytes:
    """The status of a process, as the system writes it."""
    # Without a file object, which costs more than the reading; there may be hundreds of processes.
    descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def split(stat: bytes) -> list[bytes]:
    """The fields of a process's status, beginning with the state."""
    # The name before them, in parentheses, may contain anything.
    return stat[stat.rindex(b")") + 2 :].split()
