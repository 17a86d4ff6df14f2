"""Samples of what the machine and the box use, each measured against the one before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from glovebox.box.oom import ControlGroup
from glovebox.box.system import processes
from glovebox.box.system.processes import TICKS_PER_SECOND, ProcessSample
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

#: The processes that everything else of the box descends from.
Roots = Callable[[], Iterable[int]]


class Baseline(NamedTuple):
    """A moment that later ones are measured against."""

    at: float
    uptime_ticks: float
    counters: Counters
    members: dict[tuple[int, int], ProcessSample]

    @classmethod
    def take(cls, roots: Roots) -> Baseline:
        found = processes.tree(roots())
        members = {process.key: process for process in found}
        return cls(time.monotonic(), processes.uptime_ticks(), counters(), members)


class Sampler:
    """Takes samples for one reader, whose rates are its own."""

    def __init__(self, roots: Roots, workspace: str, since: Baseline) -> None:
        """`since` is what the first sample is measured against."""
        self._roots = roots
        self._workspace = workspace
        self._before = since

    def sample(self, top: int) -> SystemSample:
        """Look now, and name so many processes. Blocks."""
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
        limit=cpu_limit(),
    )


def _processes(before: Baseline, now: Baseline, top: int, memory: int) -> BoxProcesses:
    used = {process.pid: _own_percent(process, before, now) for process in now.members.values()}
    cores = os.cpu_count() or 1

    def weight(process: ProcessSample) -> float:
        """Its share of the machine, in CPU time and in memory."""
        return used[process.pid] / 100 / cores + process.rss / (memory or 1)

    largest = sorted(now.members.values(), key=weight, reverse=True)[:top]
    return BoxProcesses(
        count=len(now.members),
        rss=sum(process.rss for process in now.members.values()),
        cpu_percent=_total_percent(before, now),
        top=[_described(process, used[process.pid], now.uptime_ticks) for process in largest],
    )


def _described(process: ProcessSample, percent: float, uptime_ticks: float) -> ProcessUse:
    return ProcessUse(
        pid=process.pid,
        parent=process.parent,
        name=process.name,
        command=processes.command_line(process),
        user=processes.user(process),
        rss=process.rss,
        cpu_percent=round(percent, 1),
        threads=process.threads,
        state=processes.state(process),
        age=round(max(0.0, uptime_ticks - process.started) / TICKS_PER_SECOND, 2),
    )


def _own_percent(process: ProcessSample, before: Baseline, now: Baseline) -> float:
    """The CPU time of one process since the last sample, or since its start if that was later."""
    earlier = before.members.get(process.key)
    begin = before.uptime_ticks if earlier else process.started
    ticks = process.ticks - (earlier.ticks if earlier else 0)
    # Both are told in ticks; what was started less than one ago has no age yet.
    return max(0.0, 100 * ticks / max(now.uptime_ticks - begin, 1.0))


def _total_percent(before: Baseline, now: Baseline) -> float:
    """The CPU time of all processes since the last sample, also of those that have ended.

    The time of one that ended becomes that of its parent, so it stays in the sum.
    """
    spent = sum(
        process.ticks + process.waited_ticks
        for process in now.members.values()
        # One that was there before and belonged to somebody else brings its past along.
        if process.key in before.members or process.started >= int(before.uptime_ticks)
    )
    spent -= sum(process.ticks + process.waited_ticks for process in before.members.values())
    return round(max(0.0, 100 * spent / max(now.uptime_ticks - before.uptime_ticks, 1.0)), 1)


def _rate(before: int, now: int, seconds: float) -> float:
    return round(max(0, now - before) / seconds, 1)


def _share(busy: int, total: int) -> float:
    return round(min(100.0, max(0.0, 100 * busy / total)), 1) if total > 0 else 0.0


_SECTOR = 512
#: What these devices do is counted again for the disks below them, or is no disk at all.
_NO_DISKS = ("dm-", "loop", "md", "ram", "zram")
#: Version 1 of control groups says "no limit" with the largest number of pages there can be.
_NO_LIMIT = 1 << 60


class Counters(NamedTuple):
    """What only ever grows: CPU time in ticks, busy and in all, by core, and bytes."""

    cores: list[tuple[int, int]]
    disk_read: int
    disk_written: int
    received: int
    sent: int


def counters(proc: str = "/proc") -> Counters:
    """Read all counters."""
    read, written = _disk_bytes(proc)
    received, sent = _network_bytes(proc)
    return Counters(_core_times(proc), read, written, received, sent)


def memory(proc: str = "/proc") -> MemoryUse:
    """The memory of the machine, and of the control group that limits the box."""
    sizes: dict[str, int] = {}
    for line in _lines(f"{proc}/meminfo"):
        name, _, rest = line.partition(":")
        words = rest.split()
        sizes[name] = int(words[0]) * 1024 if words else 0
    total, available = sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0)
    used = total - available
    return MemoryUse(
        total=total,
        available=available,
        used=used,
        percent=_percent(used, total),
        swap_total=sizes.get("SwapTotal", 0),
        swap_used=sizes.get("SwapTotal", 0) - sizes.get("SwapFree", 0),
        group=group_memory(proc),
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


def group_memory(proc: str = "/proc") -> GroupMemory | None:
    """The tightest limit on the box's memory, and what counts against it; None without a limit."""
    own = ControlGroup.find(proc, "memory")
    limited: list[GroupMemory] = []
    for group in own.above() if own else ():
        limit = _number(group.file("memory.max", "memory.limit_in_bytes"))
        if limit is not None and limit < _NO_LIMIT:
            used = _number(group.file("memory.current", "memory.usage_in_bytes")) or 0
            limited.append(GroupMemory(limit=limit, used=used))
    return min(limited, key=lambda group: group.limit - group.used, default=None)


def cpu_limit(proc: str = "/proc") -> float | None:
    """How many cores the box may use by its control group; None without a limit."""
    own = ControlGroup.find(proc, "cpu")
    limits: list[float] = []
    for group in own.above() if own else ():
        if group.unified:
            quota, _, period = "".join(_lines(group.file("cpu.max", ""))).partition(" ")
        else:
            quota = "".join(_lines(group.file("", "cpu.cfs_quota_us")))
            period = "".join(_lines(group.file("", "cpu.cfs_period_us")))
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _core_times(proc: str) -> list[tuple[int, int]]:
    times = []
    for line in _lines(f"{proc}/stat"):
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            # User, nice, system, idle, waiting for disks, interrupts, stolen; guests are in user already.
            values = [int(field) for field in fields[:8]]
            total = sum(values)
            times.append((total - values[3] - values[4], total))
    return times


def _disk_bytes(proc: str) -> tuple[int, int]:
    read = written = 0
    disks = _disks()
    for line in _lines(f"{proc}/diskstats"):
        fields = line.split()
        if fields[2] in disks:
            read += int(fields[5]) * _SECTOR
            written += int(fields[9]) * _SECTOR
    return read, written


def _disks() -> set[str]:
    """The disks as a whole; partitions are not among these."""
    try:
        return {name for name in os.listdir("/sys/block") if not name.startswith(_NO_DISKS)}
    except OSError:
        return set()


def _network_bytes(proc: str) -> tuple[int, int]:
    received = sent = 0
    for line in _lines(f"{proc}/net/dev")[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name.strip() != "lo":
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _number(path: str) -> int | None:
    text = "".join(_lines(path))
    return int(text) if text.isdigit() else None


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
