"""Finding and ending the processes that a shell started. Linux only; elsewhere nothing is found."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from a later one with the same number by its start time."""

    pid: int
    parent: int
    session: int
    started: int
    state: str
    name: str
    group: int
    #: The number of its terminal, and the group that has that terminal; 0 and -1 without one.
    terminal: int
    foreground: int
    threads: int
    #: CPU time in clock ticks: its own, and that of the children it has waited for.
    ticks: int
    waited_ticks: int
    #: Bytes of address space, and of memory in use.
    size: int
    resident: int


def read(pid: int) -> Process | None:
    """Look at one process; `None` if it is gone."""
    try:
        stat = _stat(pid)
    except OSError:
        return None
    fields = _split(stat)
    numbers = [int(field) for field in fields[1:22]]
    return Process(
        pid=pid,
        parent=numbers[0],
        session=numbers[2],
        started=numbers[18],
        state=fields[0].decode(),
        name=stat[stat.index(b"(") + 1 : stat.rindex(b")")].decode(errors="replace"),
        group=numbers[1],
        terminal=numbers[3],
        foreground=numbers[4],
        threads=numbers[16],
        ticks=numbers[10] + numbers[11],
        waited_ticks=numbers[12] + numbers[13],
        size=numbers[19],
        resident=numbers[20] * _PAGE,
    )


def everything() -> list[Process]:
    """All processes."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [found for name in names if name.isdigit() and (found := read(int(name)))]


def family(leader: int, *, ended: bool) -> list[Process]:
    """The processes in the session of `leader`, and all descendants of it, the leader included.

    A number stays taken as long as a session has it. So if the leader has `ended` and a process of that
    number exists, it is another one and nothing of the session is left.
    """
    processes = everything()
    if ended and any(process.pid == leader for process in processes):
        return []
    members = {process.pid for process in processes if leader in (process.pid, process.session)}
    grown = True
    while grown:
        children = {process.pid for process in processes if process.parent in members} - members
        members |= children
        grown = bool(children)
    return [process for process in processes if process.pid in members]


def end(processes: list[Process]) -> None:
    """Kill those that still run."""
    for process in alive(processes):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)


def alive(processes: list[Process]) -> list[Process]:
    """Those that still run."""
    return [
        process
        for process in processes
        if (now := read(process.pid)) and now.started == process.started and now.state not in "ZX"
    ]


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell, as seen from outside."""

    #: Where its program lies in memory, which changes when it replaces itself with another (`exec`).
    image: tuple[bytes, ...]
    stopped: bool
    #: It is a bash without a script, has the terminal, and sleeps: at its prompt, most likely.
    waiting: bool


def shell(pid: int) -> Shell | None:
    """Look at a shell; `None` if that is not possible."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")
        fields = _split(_stat(pid))
    except OSError:
        return None
    state, group, foreground = fields[0], fields[2], fields[5]
    name, *options = [argument for argument in arguments if argument] or [b""]
    return Shell(
        image=tuple(fields[23:26]),
        stopped=state == b"T",
        waiting=os.path.basename(name).lstrip(b"-") == b"bash"
        and set(options) <= {b"-i", b"-l", b"--login"}
        and state == b"S"
        and group == foreground == str(pid).encode(),
    )


def _stat(pid: int) -> bytes:
    # Without a file object, which costs more than the reading; there may be hundreds of processes.
    descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _split(stat: bytes) -> list[bytes]:
    """The fields of a process's status, beginning with the state."""
    # The name before them, in parentheses, may contain anything.
    return stat[stat.rindex(b")") + 2 :].split()
