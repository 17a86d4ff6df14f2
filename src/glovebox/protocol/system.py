"""What the machine and the box on it use, as `/metrics/system` reports it. Sizes are in bytes."""

from __future__ import annotations

from glovebox.protocol.base import Message


class CpuUse(Message):
    """How busy the machine is."""

    #: Of all cores together, and of each.
    percent: float
    per_core: list[float]
    #: How many processes wanted to run, on average over 1, 5 and 15 minutes.
    load: list[float]
    cores: int
    #: How many cores the control group of the box may use; null without a limit.
    limit: float | None


class GroupMemory(Message):
    """The limit of the control group that the box is in; what it uses includes cached files."""

    limit: int
    used: int


class MemoryUse(Message):
    """Memory of the machine."""

    total: int
    #: What could be had without swapping.
    available: int
    used: int
    percent: float
    swap_total: int
    swap_used: int
    #: Null without a limit.
    group: GroupMemory | None


class DiskUse(Message):
    """The file system that a directory is on."""

    path: str
    total: int
    used: int
    #: What users other than root can have of it.
    free: int
    percent: float


class DiskTraffic(Message):
    """What went to and from the machine's disks; rates are in bytes per second."""

    read_bytes: int
    written_bytes: int
    read_rate: float
    write_rate: float


class NetworkTraffic(Message):
    """What went over the machine's network, without loopback; rates are in bytes per second."""

    received_bytes: int
    sent_bytes: int
    receive_rate: float
    send_rate: float


class ProcessUse(Message):
    """A process of the box."""

    pid: int
    parent: int
    name: str
    #: The beginning of its command line.
    command: str
    user: str
    rss: int
    #: 100 is one core.
    cpu_percent: float
    threads: int
    state: str
    #: Seconds since it was started.
    age: float


class BoxProcesses(Message):
    """The server, the shells, and everything they started."""

    count: int
    #: Pages that processes share are counted for each: telling them apart means going through every page of
    #: every process, which takes the system milliseconds for each.
    rss: int
    #: 100 is one core. What ended meanwhile is part of it.
    cpu_percent: float
    #: Those that use most.
    top: list[ProcessUse]


class SystemSample(Message):
    """One look at the machine and the box."""

    #: Seconds since 1970.
    time: float
    #: How long percentages of CPU time and rates were measured: since the last sample of this stream, or
    #: since the box was started with the first one.
    seconds: float
    cpu: CpuUse
    memory: MemoryUse
    workspace: DiskUse
    root: DiskUse
    disk_io: DiskTraffic
    network: NetworkTraffic
    processes: BoxProcesses
