"""The processes of a box. Linux only; elsewhere none are found."""

from __future__ import annotations

import functools
import os
import pwd
import time
from collections.abc import Iterable
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Longer command lines are cut.
LONGEST_COMMAND = 200
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "uninterruptible",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
}


class ProcessSample(NamedTuple):
    """A process in one moment."""

    pid: int
    parent: int
    name: str
    state: str
    #: CPU time in ticks: its own, and that of the children it has waited for.
    ticks: int
    waited_ticks: int
    threads: int
    #: Ticks from the start of the machine to its own.
    started: int
    rss: int

    @property
    def key(self) -> tuple[int, int]:
        """What no other process has, also not a later one with the same number."""
        return self.pid, self.started


def uptime_ticks() -> float:
    """How long the machine runs, in the unit of `started`."""
    clock = time.CLOCK_BOOTTIME if hasattr(time, "CLOCK_BOOTTIME") else time.CLOCK_MONOTONIC
    return time.clock_gettime(clock) * TICKS_PER_SECOND


def tree(roots: Iterable[int]) -> list[ProcessSample]:
    """Processes, and all that descend from them. Blocks for some microseconds per process of the machine."""
    everything = {process.pid: process for process in _everything()}
    children: dict[int, list[int]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: dict[int, ProcessSample] = {}
    pending = list(roots)
    while pending:
        pid = pending.pop()
        if pid in everything and pid not in found:
            found[pid] = everything[pid]
            pending += children.get(pid, ())
    return list(found.values())


def command_line(process: ProcessSample) -> str:
    """The command that a process runs, shortened; kernel threads and zombies have a name only."""
    # No more than this is asked for: some have megabytes of arguments.
    words = _read(f"/proc/{process.pid}/cmdline", 4 * LONGEST_COMMAND + 1).rstrip(b"\0").split(b"\0")
    text = " ".join(word.decode("utf-8", "replace") for word in words) or f"[{process.name}]"
    return text if len(text) <= LONGEST_COMMAND else f"{text[: LONGEST_COMMAND - 1]}…"


def user(process: ProcessSample) -> str:
    """The name of the user a process runs as; empty if it is gone."""
    try:
        return _user_name(os.stat(f"/proc/{process.pid}").st_uid)
    except OSError:
        return ""


def state(process: ProcessSample) -> str:
    """What a process does, in a word."""
    return _STATES.get(process.state, process.state)


@functools.lru_cache(maxsize=1000)
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a number without an account
        return str(uid)


def _everything() -> list[ProcessSample]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [found for name in names if name.isdigit() and (found := _process(int(name)))]


def _process(pid: int) -> ProcessSample | None:
    stat = _read(f"/proc/{pid}/stat", 4096)
    if not stat:
        return None
    # The name, in parentheses, may contain anything.
    end = stat.rindex(b")")
    fields = stat[end + 2 :].split(maxsplit=22)
    return ProcessSample(
        pid=pid,
        parent=int(fields[1]),
        name=stat[stat.index(b"(") + 1 : end].decode("utf-8", "replace"),
        state=fields[0].decode(),
        ticks=int(fields[11]) + int(fields[12]),
        waited_ticks=int(fields[13]) + int(fields[14]),
        threads=int(fields[17]),
        started=int(fields[19]),
        rss=int(fields[21]) * _PAGE,
    )


def _read(path: str, most: int) -> bytes:
    """The beginning of a file, or nothing. File objects would cost more than the reading."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, most)
    except OSError:  # it is gone meanwhile, or somebody else's
        return b""
    finally:
        os.close(descriptor)
