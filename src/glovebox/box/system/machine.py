"""What the machine says of itself: counters and sizes, read from /proc, and the limits of control groups.

Without a library: one that knows all systems takes longer to import than a box to answer.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from glovebox.box.oom import ControlGroup
from glovebox.protocol.system import DiskUse, GroupMemory, MemoryUse

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
