"""What the box uses of its machine, as `/server_info` reports it."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Any

from glovebox.box.executor import Call, Outcome
from glovebox.box.services import Activity
from glovebox.protocol.base import Action, Message

if TYPE_CHECKING:
    import psutil


#: The unit in which the system counts what is read and written.
_BLOCK = 512
#: CPU time has a resolution of a hundredth of a second; shorter intervals are not measured.
_SHORTEST = 0.1


class Memory(Message):
    """Memory of the server process."""

    rss: int
    vms: int
    percent: float


class Disk(Message):
    """The root file system."""

    total: int
    used: int
    free: int
    percent: float


class Io(Message):
    """Bytes the server process has read and written."""

    read_bytes: int
    write_bytes: int


class Resources(Message):
    """A sample of the machine."""

    cpu_percent: float
    memory: Memory
    disk: Disk
    io: Io


class ServerInfo(Message):
    """How long the box has run, how long it was idle, and what it uses."""

    uptime: float
    idle_time: float
    resources: Resources


class Stats:
    """Samples the server process. CPU is measured since the last sample, or at first since the process
    began, so no sample has to wait.
    """

    def __init__(self, activity: Activity | None = None) -> None:
        self._activity = activity or Activity()
        self.created = self._activity.last
        self._process: psutil.Process | None = None
        #: When CPU was last measured, in seconds since 1970, the CPU time by then, and what it came to.
        self._measured = (0.0, 0.0, 0.0)

    # As an observer of actions: they count when they begin and when they end, so a long one is no idleness.

    def started(self, action: Action[Any], call: Call) -> None:
        self._activity.touch()

    def finished(self, outcome: Outcome) -> None:
        self._activity.touch()

    def look(self) -> ServerInfo:
        """Sample now. Blocks for the time of a few reads below /proc."""
        import psutil

        if self._process is None:
            self._process = psutil.Process()
        process, now = self._process, time.time()
        disk = psutil.disk_usage("/")
        # The counters of `/proc/self/io`, which a process that is not dumpable cannot open itself.
        usage = resource.getrusage(resource.RUSAGE_SELF)
        with process.oneshot():
            memory = process.memory_info()
            resources = Resources(
                cpu_percent=self._cpu_percent(process, now),
                memory=Memory(rss=memory.rss, vms=memory.vms, percent=float(process.memory_percent())),
                disk=Disk(total=disk.total, used=disk.used, free=disk.free, percent=float(disk.percent)),
                io=Io(read_bytes=usage.ru_inblock * _BLOCK, write_bytes=usage.ru_oublock * _BLOCK),
            )
        idle = now - self._activity.last
        return ServerInfo(uptime=now - self.created, idle_time=idle, resources=resources)

    def _cpu_percent(self, process: psutil.Process, now: float) -> float:
        """The share of one core. Two samples at the same time have the same."""
        at, before, percent = self._measured
        if not at:
            at = process.create_time()
        elif 0 <= now - at < _SHORTEST:
            return percent
        times = process.cpu_times()
        used = times.user + times.system
        percent = round(max(0.0, 100 * (used - before) / max(now - at, _SHORTEST)), 1)
        self._measured = now, used, percent
        return percent
