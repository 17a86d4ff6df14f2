"""Processes as /proc shows them. Where there is no /proc, none are found.

The holder loads this module, and its memory is scarce: hence no dataclasses and no imports beyond these.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The unit of CPU times and start times.
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SIGKILL = 9
#: Options of `prctl`.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_PIECE = 16_384


class Process:
    """One process at one moment, parsed from /proc/PID/stat."""

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
        # The name, in parentheses, may contain anything.
        end = stat.rindex(b")")
        field = stat[end + 2 :].split(None, 22)
        self.pid = pid
        self.name = stat[stat.index(b"(") + 1 : end].decode("utf-8", "replace")
        self.state = field[0].decode()
        self.parent = int(field[1])
        self.group = int(field[2])
        self.session = int(field[3])
        #: The number of its terminal, and the group in the foreground of that terminal; 0 and -1 without one.
        self.terminal = int(field[4])
        self.foreground = int(field[5])
        #: CPU time: its own, and that of the children it has waited for.
        self.ticks = int(field[11]) + int(field[12])
        self.waited_ticks = int(field[13]) + int(field[14])
        self.threads = int(field[17])
        #: Ticks from the boot of the machine to its start.
        self.started = int(field[19])
        #: Bytes of address space, and of memory in use.
        self.size = int(field[20])
        self.resident = int(field[21]) * _PAGE

    @property
    def key(self) -> tuple[int, int]:
        """Process id and start time, which together identify one process: ids are used again."""
        return self.pid, self.started

    @property
    def ended(self) -> bool:
        return self.state in "ZX"


def read(pid: int) -> Process | None:
    """A process; `None` if it is gone."""
    try:
        return Process(pid, read_stat(pid))
    except OSError:
        return None


def read_stat(pid: int | str) -> bytes:
    """The content of /proc/PID/stat.

    Raises:
        OSError: there is no such process, or it is hidden.
    """
    # Without a file object, which costs more than the reading; there may be hundreds of processes.
    descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def stat_fields(stat: bytes) -> list[bytes]:
    """All fields of /proc/PID/stat after the name."""
    return stat[stat.rindex(b")") + 2 :].split()


def read_file(path: str, limit: int = 1 << 30) -> bytes:
    """At most `limit` bytes of a file of the kernel; empty if it cannot be read."""
    try:
        # Non-blocking, as this may run on the event loop.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        data = os.read(descriptor, min(limit, _PIECE))
        # The kernel returns a page at a time.
        while data and len(data) < limit and (more := os.read(descriptor, min(limit - len(data), _PIECE))):
            data += more
        return data
    except OSError:  # the process has ended meanwhile
        return b""
    finally:
        os.close(descriptor)


def size_field(data: bytes, name: bytes) -> int:
    """A size in bytes from a file with lines like `VmHWM:   123 kB`; 0 if it is not in there."""
    _, found, rest = (b"\n" + data).partition(b"\n" + name + b":")
    return int(rest.split(None, 1)[0]) * 1024 if found else 0


def arguments(pid: int) -> list[bytes]:
    """The command line of a process; also empty for zombies and kernel threads."""
    return read_file(f"/proc/{pid}/cmdline").split(b"\0")


def environment(pid: int) -> list[bytes]:
    """The variables a process was started with; empty if they are hidden from this process."""
    return read_file(f"/proc/{pid}/environ").split(b"\0")


def children(pid: int) -> list[int]:
    """The process ids of the children of a single-threaded process."""
    return [int(child) for child in read_file(f"/proc/{pid}/task/{pid}/children").split()]


def uptime() -> float:
    """Seconds since the boot of the machine."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def pid_namespace(proc: str = "/proc") -> str:
    """The namespace in which this process sees process ids; empty if unknown."""
    try:
        return os.readlink(f"{proc}/self/ns/pid")
    except OSError:
        return ""


def pids() -> list[int]:
    """The ids of all processes."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def everything() -> list[Process]:
    """All processes that can be seen here. Reading them takes milliseconds."""
    return [found for pid in pids() if (found := read(pid))]


class ProcessTable:
    """All processes at one moment, by id, parent and session."""

    def __init__(self) -> None:
        self._processes = {process.pid: process for process in everything()}
        self._children: dict[int, list[int]] = {}
        self._sessions: dict[int, list[int]] = {}
        for process in self._processes.values():
            self._children.setdefault(process.parent, []).append(process.pid)
            self._sessions.setdefault(process.session, []).append(process.pid)

    def __iter__(self) -> Iterator[Process]:
        return iter(self._processes.values())

    def get(self, pid: int) -> Process | None:
        return self._processes.get(pid)

    def tree(self, roots: Iterable[int]) -> list[Process]:
        found: dict[int, Process] = {}
        pending = list(roots)
        while pending:
            pid = pending.pop()
            if pid not in found and (process := self._processes.get(pid)) is not None:
                found[pid] = process
                pending += self._children.get(pid, ())
        return list(found.values())

    def family(self, leader: int, *, ended: bool) -> list[Process]:
        """The processes in the session of `leader` and all their descendants, the leader included.

        The kernel does not use an id again while it is the id of a session. So if the leader has `ended` and
        a process of that id exists, it is another one and nothing of the session is left.
        """
        if ended and leader in self._processes:
            return []
        return self.tree([leader, *self._sessions.get(leader, ())])


def alive(processes: Iterable[Process]) -> list[Process]:
    """Those of some processes that still run."""
    return [
        process
        for process in processes
        if (now := read(process.pid)) and now.started == process.started and not now.ended
    ]


def kill(processes: Iterable[Process]) -> None:
    """Send SIGKILL to those of some processes that still run."""
    for process in alive(processes):
        send_signal(process.pid, _SIGKILL)


def send_signal(pid: int, number: int) -> bool:
    """Send a signal to a process, or to a group if negative; whether it exists and may be signalled."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process, where the system has it."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass
