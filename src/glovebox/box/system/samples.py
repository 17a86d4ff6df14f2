"""Samples of what the machine and the box use, each measured against the one before."""

from __future__ import annotations

import functools
import os
import pwd
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from glovebox.linux import control_groups, processes
from glovebox.linux.processes import TICKS_PER_SECOND, Process, ProcessTable, read_file, size_field
from glovebox.protocol.system import (
    BoxProcesses,
    CpuUse,
    DiskTraffic,
    DiskUse,
    GroupMemory,
    MemoryUse,
    NetworkTraffic,
    ProcessUse,
    SystemSample,
)

#: Returns the processes that all others of the box descend from.
Roots = Callable[[], Iterable[int]]
#: Longer command lines are cut.
_LONGEST_COMMAND = 200
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


class Baseline(NamedTuple):
    """The counters that a later sample is measured against."""

    at: float
    uptime_ticks: float
    counters: Counters
    members: dict[tuple[int, int], Process]

    @classmethod
    def take(cls, roots: Roots) -> Baseline:
        members = {process.key: process for process in ProcessTable().tree(roots())}
        return cls(time.monotonic(), processes.uptime() * TICKS_PER_SECOND, counters(), members)


class Sampler:
    """Takes samples for one reader, whose rates are its own."""

    def __init__(self, roots: Roots, workspace: str, since: Baseline) -> None:
        """`since` is what the first sample is measured against."""
        self._roots = roots
        self._workspace = workspace
        self._before = since

    def sample(self, top: int) -> SystemSample:
        """Sample now, with the `top` largest processes. Blocks."""
        before, now = self._before, Baseline.take(self._roots)
        self._before = now
        seconds = max(now.at - before.at, 1e-3)
        old, new = before.counters, now.counters
        machine = memory()
        return SystemSample(
            time=time.time(),
            seconds=round(seconds, 3),
            cpu=_cpu(old, new),
            memory=machine,
            workspace=disk(self._workspace),
            root=disk("/"),
            disk_io=DiskTraffic(
                read_bytes=new.disk_read,
                written_bytes=new.disk_written,
                read_rate=_rate(old.disk_read, new.disk_read, seconds),
                write_rate=_rate(old.disk_written, new.disk_written, seconds),
            ),
            network=NetworkTraffic(
                received_bytes=new.received,
                sent_bytes=new.sent,
                receive_rate=_rate(old.received, new.received, seconds),
                send_rate=_rate(old.sent, new.sent, seconds),
            ),
            processes=_processes(before, now, top, machine.total),
        )


def _cpu(old: Counters, new: Counters) -> CpuUse:
    # Cores can come and go; one that was not there before is measured from its beginning.
    before = old.cores + [(0, 0)] * (len(new.cores) - len(old.cores))
    spent = [
        (busy - was_busy, total - was_total)
        for (busy, total), (was_busy, was_total) in zip(new.cores, before, strict=False)
    ]
    load = os.getloadavg()
    return CpuUse(
        percent=_share(sum(busy for busy, _ in spent), sum(total for _, total in spent)),
        per_core=[_share(busy, total) for busy, total in spent],
        load=[round(value, 2) for value in load],
        cores=os.cpu_count() or 1,
        limit=control_groups.cpu_limit(),
    )


def _processes(before: Baseline, now: Baseline, top: int, memory: int) -> BoxProcesses:
    used = {process.pid: _own_percent(process, before, now) for process in now.members.values()}
    cores = os.cpu_count() or 1

    def weight(process: Process) -> float:
        """Its share of the machine, in CPU time and in memory."""
        return used[process.pid] / 100 / cores + process.resident / (memory or 1)

    largest = sorted(now.members.values(), key=weight, reverse=True)[:top]
    return BoxProcesses(
        count=len(now.members),
        rss=sum(process.resident for process in now.members.values()),
        cpu_percent=_total_percent(before, now),
        top=[_describe(process, used[process.pid], now.uptime_ticks) for process in largest],
    )


def _describe(process: Process, percent: float, uptime_ticks: float) -> ProcessUse:
    return ProcessUse(
        pid=process.pid,
        parent=process.parent,
        name=process.name,
        command=command_line(process),
        user=_user(process),
        rss=process.resident,
        cpu_percent=round(percent, 1),
        threads=process.threads,
        state=_STATES.get(process.state, process.state),
        age=round(max(0.0, uptime_ticks - process.started) / TICKS_PER_SECOND, 2),
    )


def command_line(process: Process) -> str:
    """The command line of a process, cut if it is long; kernel threads and zombies have a name only."""
    # Some have megabytes of arguments.
    data = read_file(f"/proc/{process.pid}/cmdline", 4 * _LONGEST_COMMAND + 1)
    words = data.rstrip(b"\0").split(b"\0")
    text = " ".join(word.decode("utf-8", "replace") for word in words) or f"[{process.name}]"
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 1]}…"


def _user(process: Process) -> str:
    """The name of the user a process runs as; empty if it has ended."""
    try:
        return _user_name(os.stat(f"/proc/{process.pid}").st_uid)
    except OSError:
        return ""


@functools.lru_cache(maxsize=1000)
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # an id without an account
        return str(uid)


def _own_percent(process: Process, before: Baseline, now: Baseline) -> float:
    """The CPU time of one process since the last sample, or since its start if that was later."""
    earlier = before.members.get(process.key)
    begin = before.uptime_ticks if earlier else process.started
    ticks = process.ticks - (earlier.ticks if earlier else 0)
    # A process that was started less than a tick ago has no age yet.
    return max(0.0, 100 * ticks / max(now.uptime_ticks - begin, 1.0))


def _total_percent(before: Baseline, now: Baseline) -> float:
    """The CPU time of all processes since the last sample, also of those that have ended.

    The time of one that ended becomes that of its parent, so it stays in the sum.
    """
    spent = sum(
        process.ticks + process.waited_ticks
        for process in now.members.values()
        # A process that was not of the box before has an earlier CPU time, which does not count.
        if process.key in before.members or process.started >= int(before.uptime_ticks)
    )
    spent -= sum(process.ticks + process.waited_ticks for process in before.members.values())
    return round(max(0.0, 100 * spent / max(now.uptime_ticks - before.uptime_ticks, 1.0)), 1)


def _rate(before: int, now: int, seconds: float) -> float:
    return round(max(0, now - before) / seconds, 1)


def _share(busy: int, total: int) -> float:
    return round(min(100.0, max(0.0, 100 * busy / total)), 1) if total > 0 else 0.0


_SECTOR = 512
#: Devices whose traffic is also counted for the disks below them, or that are no disks.
_NO_DISKS = ("dm-", "loop", "md", "ram", "zram")


class Counters(NamedTuple):
    """Counters of the machine: ticks of CPU time, busy and in all, by core, and bytes."""

    cores: list[tuple[int, int]]
    disk_read: int
    disk_written: int
    received: int
    sent: int


def counters() -> Counters:
    """Read the counters of processors, disks and networks."""
    read, written = _disk_bytes()
    received, sent = _network_bytes()
    return Counters(_core_times(), read, written, received, sent)


def memory() -> MemoryUse:
    """The memory of the machine, and of the control group that limits the box."""
    sizes = read_file("/proc/meminfo")
    total, available = size_field(sizes, b"MemTotal"), size_field(sizes, b"MemAvailable")
    used, swap = total - available, size_field(sizes, b"SwapTotal")
    limit = control_groups.memory_limit()
    return MemoryUse(
        total=total,
        available=available,
        used=used,
        percent=_percent(used, total),
        swap_total=swap,
        swap_used=swap - size_field(sizes, b"SwapFree"),
        group=GroupMemory(limit=limit.limit, used=limit.used) if limit else None,
    )


def disk(path: str) -> DiskUse:
    """The file system that a directory is on; zeros if it is gone."""
    try:
        found = os.statvfs(path)
    except OSError:
        return DiskUse(path=path, total=0, used=0, free=0, percent=0.0)
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    free = found.f_bavail * found.f_frsize
    total = found.f_blocks * found.f_frsize
    return DiskUse(path=path, total=total, used=used, free=free, percent=_percent(used, used + free))


def _core_times() -> list[tuple[int, int]]:
    times = []
    for line in read_file("/proc/stat").splitlines():
        name, *fields = line.split()
        if name.startswith(b"cpu") and name != b"cpu":
            # User, nice, system, idle, waiting for disks, interrupts, stolen; guests are in user already.
            values = [int(field) for field in fields[:8]]
            total = sum(values)
            times.append((total - values[3] - values[4], total))
    return times


def _disk_bytes() -> tuple[int, int]:
    read = written = 0
    disks = _disks()
    for line in read_file("/proc/diskstats").splitlines():
        fields = line.split()
        if fields[2].decode() in disks:
            read += int(fields[5]) * _SECTOR
            written += int(fields[9]) * _SECTOR
    return read, written


def _disks() -> set[str]:
    """The names of whole disks, without their partitions."""
    try:
        return {name for name in os.listdir("/sys/block") if not name.startswith(_NO_DISKS)}
    except OSError:
        return set()


def _network_bytes() -> tuple[int, int]:
    received = sent = 0
    for line in read_file("/proc/net/dev").splitlines()[2:]:
        name, _, rest = line.partition(b":")
        fields = rest.split()
        if name.strip() != b"lo":
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
