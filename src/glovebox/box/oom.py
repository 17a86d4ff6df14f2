"""Whether the system killed something for want of memory, and what: its counters, and its log.

A counter tells that it happened: the one of the box's own control group, which counts nothing but the box,
or else the one of the machine. The kernel's log tells which process it was, to those who may read it.
Looking costs some microseconds, so it may be done on the event loop.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Collection
from typing import NamedTuple

#: The kernel's first namespace of process numbers; its log speaks of these numbers.
FIRST_NAMESPACE = "pid:[4026531836]"
_KILLED = (
    r"Killed process (?P<pid>\d+) \((?P<name>.*)\),? (?:UID \d+, )?total-vm:\d+kB, "
    r"anon-rss:(?P<anon>\d+)kB, file-rss:(?P<file>\d+)kB(?:, shmem-rss:(?P<shmem>\d+)kB)?"
)
#: Longer than any record of the kernel's log, and than any file of counters.
_LONGEST = 16_384
#: Who has missed more of the log reads on at its end: looking must stay quick.
_MOST_RECORDS = 256
_MOST_NAMES = 3
#: How a shell tells that something died of SIGKILL.
_SIGKILLED = 137


class Kill(NamedTuple):
    """A process that the system killed."""

    pid: int
    name: str
    #: Bytes that it had in use.
    memory: int

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}, {_size(self.memory)})"


class OomCount(NamedTuple):
    """A moment: how many had been killed by then."""

    counted: int
    named: int


class OomWatch:
    """Tells what was killed since a mark.

    `proc` is where the system tells of itself, `kernel_log` where it tells what it does. Only opening takes
    longer than some microseconds.
    """

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
        """Find the counter and the log, unless that was done; else the first mark does. Blocks."""
        with self._opening:
            if not self._opened:
                self._open()
                self._opened = True

    def close(self) -> None:
        """Let go of them; from now on nothing is told."""
        self._counter = self._log = -1
        for close in self._closing:
            close()

    def mark(self) -> OomCount:
        if not self._opened:
            self.open()
        self._read_log()
        return OomCount(self._count(), len(self._kills))

    def kills(self, since: OomCount) -> list[Kill]:
        """The processes that the log says were killed since, wherever on the machine."""
        self._read_log()
        return self._kills[since.named :]

    def describe(
        self,
        since: OomCount,
        *,
        mine: Collection[int],
        leader: int,
        status: int | None,
        what: str = "command",
    ) -> str | None:
        """One sentence about what was killed while a `what` ran; None if it has nothing to do with it.

        `mine` are processes that it started, `leader` is the one that ran it, and `status` is how it ended.
        What is not known to be its own is mentioned if it was in this box, or if `status` says that something
        of it was killed.
        """
        kills, counted = self.kills(since), self._count() - since.counted
        own = [kill for kill in kills if kill.pid in mine or kill.pid == leader]
        if own:
            whose = f"which ran this {what}" if own[-1].pid == leader else f"which this {what} had started"
            return f"Out of memory: the system killed {_names(own)}, {whose}."
        concerned = status == _SIGKILLED or (self._own and counted > 0)
        if not concerned or not (kills or counted > 0):
            return None
        killed = _names(kills) if kills else "a process" if counted == 1 else f"{counted} processes"
        return f"Out of memory: the system killed {killed} while this {what} ran."

    def describe_death(self, since: OomCount, pid: int) -> str | None:
        """One sentence about a process that died of SIGKILL; None if it was not for want of memory."""
        kills, counted = self.kills(since), self._count() - since.counted
        if own := [kill for kill in kills if kill.pid == pid]:
            return f"Out of memory: the system killed {own[0]}."
        if counted <= len(kills):  # all that were killed are known, and are others
            return None
        return f"Out of memory: the system killed a process at that time, most likely this one (pid {pid})."

    def _open(self) -> None:
        own = ControlGroup.find(self._proc, "memory")
        counter = own.file("memory.events", "memory.oom_control") if own else ""
        self._own = _read_counter(_peek(counter)) is not None  # the root has none, nor have old kernels
        self._counter = _open(counter if self._own else os.path.join(self._proc, "vmstat"))
        # In another namespace the numbers of processes are other ones, and nothing can be told from them.
        if _namespace(self._proc) == FIRST_NAMESPACE:
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
    """The process that a record of the kernel's log says was killed, if it does."""
    priority, _, text = record.partition(",")
    # Others may write there too, but not in the name of the kernel, which is facility 0.
    if not priority.isdigit() or int(priority) >> 3:
        return None
    found = re.search(_KILLED, text)
    if found is None:
        return None
    sizes = (found["anon"], found["file"], found["shmem"] or "0")
    return Kill(int(found["pid"]), found["name"], sum(map(int, sizes)) * 1024)


class Descendants:
    """The processes that one starts from now on, and those that they start, as far as they are seen."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._earlier = frozenset(_children(pid))
        self.seen: set[int] = set()

    def look(self) -> None:
        """See which there are now. Blocks."""
        pending = [child for child in _children(self._pid) if child not in self._earlier]
        while pending:
            found = pending.pop()
            self.seen.add(found)
            pending += _children(found)


class ControlGroup(NamedTuple):
    """The control group that limits this process, and the ones above it as far as they can be seen."""

    directory: str
    top: str
    #: Version 2, one tree for all controllers; else version 1.
    unified: bool

    @classmethod
    def find(cls, proc: str, controller: str) -> ControlGroup | None:
        """The group for a controller, in whichever version has it."""
        groups = _own_groups(proc)
        for mount in _mounts(proc):
            path = groups.get("" if mount.unified else controller)
            if path is None or not (mount.unified or controller in mount.controllers):
                continue
            # A container sees its own group as the root of what is mounted.
            inside = os.path.relpath(path, mount.root) if path.startswith(mount.root) else "."
            directory = os.path.normpath(os.path.join(mount.point, inside))
            if not os.path.isdir(directory):
                directory = mount.point
            group = cls(directory, mount.point, mount.unified)
            if not mount.unified or group._has(controller):
                return group
        return None

    def file(self, unified: str, separate: str) -> str:
        """One of its files, which has another name in version 1."""
        return os.path.join(self.directory, unified if self.unified else separate)

    def above(self) -> list[ControlGroup]:
        """It and the groups it is in, innermost first."""
        found, directory = [self], self.directory
        while directory != self.top and directory.startswith(self.top):
            directory = os.path.dirname(directory)
            found.append(ControlGroup(directory, self.top, self.unified))
        return found

    def _has(self, controller: str) -> bool:
        controllers = _peek(os.path.join(self.directory, "cgroup.controllers")).decode().split()
        return controller in controllers


class _Mount(NamedTuple):
    root: str
    point: str
    unified: bool
    controllers: tuple[str, ...]


def _mounts(proc: str) -> list[_Mount]:
    """Where control groups are mounted, version 1 first: a controller is in one of them only."""
    found = []
    for line in _peek(os.path.join(proc, "self/mountinfo")).decode("utf-8", "replace").splitlines():
        first, _, last = line.partition(" - ")
        fields, (kind, *options) = first.split(), (last.split() or [""])
        if len(fields) >= 5 and kind in ("cgroup", "cgroup2"):
            controllers = tuple(options[-1].split(",")) if options else ()
            found.append(_Mount(fields[3], fields[4], kind == "cgroup2", controllers))
    return sorted(found, key=lambda mount: mount.unified)


def _own_groups(proc: str) -> dict[str, str]:
    """The path of this process's group by controller; of version 2 by an empty name."""
    groups: dict[str, str] = {}
    for line in _peek(os.path.join(proc, "self/cgroup")).decode("utf-8", "replace").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _read_counter(data: bytes) -> int | None:
    """How many were killed, in a file of counters; the same word in all of them."""
    for line in data.splitlines():
        name, _, value = line.partition(b" ")
        if name == b"oom_kill" and value.strip().isdigit():
            return int(value)
    return None


def _open(path: str) -> int:
    # Non-blocking means something for the log only; else it says that reading in the event loop is meant.
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def _peek(path: str) -> bytes:
    """The beginning of a file; nothing if it cannot be read."""
    descriptor = _open(path)
    if descriptor < 0:
        return b""
    try:
        return os.read(descriptor, _LONGEST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _namespace(proc: str) -> str:
    try:
        return os.readlink(os.path.join(proc, "self/ns/pid"))
    except OSError:
        return ""


def _children(pid: int) -> list[int]:
    return [int(child) for child in _peek(f"/proc/{pid}/task/{pid}/children").split()]


def _names(kills: list[Kill]) -> str:
    shown = [str(kill) for kill in kills[:_MOST_NAMES]]
    if more := len(kills) - len(shown):
        shown.append(f"{more} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _size(size: int) -> str:
    """A number of bytes for people."""
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size / 1000:.0f} kB"
