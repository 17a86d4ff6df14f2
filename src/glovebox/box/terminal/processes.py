"""Finding and ending the processes that a shell started. Linux only; elsewhere nothing is found."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from a later one with the same number by its start time."""

    pid: int
    parent: int
    session: int
    started: int
    state: str


def read(pid: int) -> Process | None:
    """Look at one process; `None` if it is gone."""
    try:
        fields = _fields(pid)
    except OSError:
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode())


def family(leader: int, *, ended: bool) -> list[Process]:
    """The processes in the session of `leader`, and all descendants of it, the leader included.

    A number stays taken as long as a session has it. So if the leader has `ended` and a process of that
    number exists, it is another one and nothing of the session is left.
    """
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    processes = [found for name in names if name.isdigit() and (found := read(int(name)))]
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
        fields = _fields(pid)
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


def _fields(pid: int) -> list[bytes]:
    """The fields of a process's status, beginning with the state."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        stat = file.read()
    # The name before them, in parentheses, may contain anything.
    return stat[stat.rindex(b")") + 2 :].split()
