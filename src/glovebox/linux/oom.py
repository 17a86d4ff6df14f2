"""Out-of-memory kills: that one happened, from the kernel's counters, and of which process, from its log.

The counter is that of the box's own control group, which counts nothing but the box, or else that of the
machine. Reading takes microseconds, so it may be done on the event loop.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Collection
from typing import NamedTuple

from glovebox.linux.control_groups import ControlGroup
from glovebox.linux.processes import children, pid_namespace, read_file

#: The kernel's initial namespace of process ids; its log contains ids of this namespace.
FIRST_NAMESPACE = "pid:[4026531836]"
_KILLED = (
    r"Killed process (?P<pid>\d+) \((?P<name>.*)\),? (?:UID \d+, )?total-vm:\d+kB, "
    r"anon-rss:(?P<anon>\d+)kB, file-rss:(?P<file>\d+)kB(?:, shmem-rss:(?P<shmem>\d+)kB)?"
)
#: Longer than any record of the kernel's log and any file of counters.
_LONGEST = 16_384
#: If more of the log is unread, the rest is skipped, so that reading stays quick.
_MOST_RECORDS = 256
_MOST_NAMES = 3
#: The exit status that shells give to a program killed by SIGKILL.
_SIGKILLED = 137


class Kill(NamedTuple):
    """A process that the kernel killed."""

    pid: int
    name: str
    #: Bytes in use.
    memory: int

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}, {_size(self.memory)})"


class OomCount(NamedTuple):
    """How many processes had been killed at one moment."""

    counted: int
    named: int


class OomWatch:
    """Reports which processes were killed since a mark. Only opening takes longer than some microseconds."""

    def __init__(self, *, proc: str = "/proc", kernel_log: str = "/dev/kmsg") -> None:
        self._proc = proc
        self._kernel_log = kernel_log
        self._opening = threading.Lock()
        self._opened = False
        self._counter = -1
        #: Whether the counter is about this box only.
        self._own = False
        self._log = -1
        self._closing: list[Callable[[], object]] = []
        self._kills: list[Kill] = []

    def open(self) -> None:
        """Open the counter and the log, unless they are open; else the first mark does. Blocks."""
        with self._opening:
            if not self._opened:
                self._open()
                self._opened = True

    def close(self) -> None:
        self._counter = self._log = -1
        for close in self._closing:
            close()

    def mark(self) -> OomCount:
        if not self._opened:
            self.open()
        self._read_log()
        return OomCount(self._count(), len(self._kills))

    def kills(self, since: OomCount) -> list[Kill]:
        """The kills in the log since a mark, anywhere on the machine."""
        self._read_log()
        return self._kills[since.named :]

    def describe(
        self, since: OomCount, *, mine: Collection[int], leader: int, status: int | None
    ) -> str | None:
        """One sentence about what was killed while a command ran; None if it has nothing to do with it.

        `mine` are processes that it started, `leader` is the process that ran it, `status` its exit status.
        A kill of another process is mentioned if it was in this box, or if `status` says that a process of
        the command was killed.
        """
        kills, counted = self.kills(since), self._count() - since.counted
        own = [kill for kill in kills if kill.pid in mine or kill.pid == leader]
        if own:
            whose = "which ran this command" if own[-1].pid == leader else "which this command had started"
            return f"Out of memory: the system killed {_names(own)}, {whose}."
        concerned = status == _SIGKILLED or (self._own and counted > 0)
        if not concerned or not (kills or counted > 0):
            return None
        killed = _names(kills) if kills else "a process" if counted == 1 else f"{counted} processes"
        return f"Out of memory: the system killed {killed} while this command ran."

    def describe_death(self, since: OomCount, pid: int) -> str | None:
        """One sentence about a process that died of SIGKILL; None if memory was not the reason."""
        kills, counted = self.kills(since), self._count() - since.counted
        if own := [kill for kill in kills if kill.pid == pid]:
            return f"Out of memory: the system killed {own[0]}."
        if counted <= len(kills):  # the log has all kills, and this process is not among them
            return None
        return f"Out of memory: the system killed a process at that time, most likely this one (pid {pid})."

    def _open(self) -> None:
        own = ControlGroup.find(self._proc, "memory")
        counter = own.file("memory.events", "memory.oom_control") if own else ""
        self._own = _read_counter(read_file(counter)) is not None  # the root has none, nor have old kernels
        self._counter = _open(counter if self._own else os.path.join(self._proc, "vmstat"))
        # In another namespace processes have other ids than in the log.
        if pid_namespace(self._proc) == FIRST_NAMESPACE:
            self._log = _open(self._kernel_log)
        if self._log >= 0:
            os.lseek(self._log, 0, os.SEEK_END)
        for descriptor in (self._counter, self._log):
            if descriptor >= 0:
                self._closing.append(weakref.finalize(self, os.close, descriptor))

    def _count(self) -> int:
        if self._counter < 0:
            return 0
        try:
            return _read_counter(os.pread(self._counter, _LONGEST, 0)) or 0
        except OSError:  # the group was removed
            return 0

    def _read_log(self) -> None:
        if self._log < 0:
            return
        for _ in range(_MOST_RECORDS):
            try:
                data = os.read(self._log, _LONGEST)
            except BrokenPipeError:  # some were overwritten before they were read
                continue
            except OSError:  # nothing more, or it may not be read after all
                return
            if not data:
                return
            records = data.decode("utf-8", "replace").splitlines()
            self._kills += [kill for record in records if (kill := read_kill(record))]
        os.lseek(self._log, 0, os.SEEK_END)


def read_kill(record: str) -> Kill | None:
    """The process that was killed according to a record of the kernel's log; None for other records."""
    priority, _, text = record.partition(",")
    # Programs may write to the log too, but not as the kernel, which is facility 0.
    if not priority.isdigit() or int(priority) >> 3:
        return None
    found = re.search(_KILLED, text)
    if found is None:
        return None
    sizes = (found["anon"], found["file"], found["shmem"] or "0")
    return Kill(int(found["pid"]), found["name"], sum(map(int, sizes)) * 1024)


class Descendants:
    """The descendants that a process starts from now on, as far as `look` finds them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._earlier = frozenset(children(pid))
        self.seen: set[int] = set()

    def look(self) -> None:
        """Add those there are now to `seen`. Blocks."""
        pending = [child for child in children(self._pid) if child not in self._earlier]
        while pending:
            found = pending.pop()
            self.seen.add(found)
            pending += children(found)


def _read_counter(data: bytes) -> int | None:
    """The number of kills in a file of counters, which is called the same in all of them."""
    for line in data.splitlines():
        name, _, value = line.partition(b" ")
        if name == b"oom_kill" and value.strip().isdigit():
            return int(value)
    return None


def _open(path: str) -> int:
    # Non-blocking matters for the log only; for other files it marks a read that is meant for the event loop.
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def _names(kills: list[Kill]) -> str:
    shown = [str(kill) for kill in kills[:_MOST_NAMES]]
    if more := len(kills) - len(shown):
        shown.append(f"{more} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _size(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size / 1000:.0f} kB"
