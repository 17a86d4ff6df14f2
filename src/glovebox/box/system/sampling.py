"""Samples of what the machine and the box use, each measured against the one before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from glovebox.box.system import machine, processes
from glovebox.box.system.machine import Counters
from glovebox.box.system.processes import TICKS_PER_SECOND, Process
from glovebox.protocol.system import (
    BoxProcesses,
    CpuUse,
    DiskTraffic,
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
    members: dict[tuple[int, int], Process]

    @classmethod
    def take(cls, roots: Roots) -> Baseline:
        """This moment. Blocks."""
        found = processes.tree(roots())
        members = {process.key: process for process in found}
        return cls(time.monotonic(), processes.uptime_ticks(), machine.counters(), members)


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
        memory = machine.memory()
        return SystemSample(
            time=time.time(),
            seconds=round(seconds, 3),
            cpu=_cpu(old, new),
            memory=memory,
            workspace=machine.disk(self._workspace),
            root=machine.disk("/"),
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
            processes=_processes(before, now, top, memory.total),
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
        limit=machine.cpu_limit(),
    )


def _processes(before: Baseline, now: Baseline, top: int, memory: int) -> BoxProcesses:
    used = {process.pid: _own_percent(process, before, now) for process in now.members.values()}
    cores = os.cpu_count() or 1

    def weight(process: Process) -> float:
        """Its share of the machine, in CPU time and in memory."""
        return used[process.pid] / 100 / cores + process.rss / (memory or 1)

    largest = sorted(now.members.values(), key=weight, reverse=True)[:top]
    return BoxProcesses(
        count=len(now.members),
        rss=sum(process.rss for process in now.members.values()),
        cpu_percent=_total_percent(before, now),
        top=[_described(process, used[process.pid], now.uptime_ticks) for process in largest],
    )


def _described(process: Process, percent: float, uptime_ticks: float) -> ProcessUse:
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


def _own_percent(process: Process, before: Baseline, now: Baseline) -> float:
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
