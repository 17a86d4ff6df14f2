"""The process that started a box, and whether it is gone."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from glovebox.linux.processes import Process, pid_namespace, read_stat

_MACHINE_ID = "/etc/machine-id"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def this_process() -> str:
    """A unique name of this process: machine, boot, pid namespace, pid, time of start."""
    pid = os.getpid()
    return f"{_machine()}:{_boot()}:{_namespace()}:{pid}:{start_of(pid)}"


def is_gone(owner: str) -> bool | None:
    """Whether the process of that name has ended; None if it cannot be known here."""
    match owner.split(":"):
        case [machine, boot, namespace, pid, start] if pid.isdigit():
            if machine != _machine() or namespace != _namespace():
                return None
            return boot != _boot() or start_of(int(pid)) != start
    return None


def start_of(pid: int) -> str | None:
    """The start time of a process, which distinguishes processes of the same pid; None if it has ended."""
    try:
        process = Process(pid, read_stat(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _start_elsewhere(pid)
    return None if process.ended else str(process.started)


def _start_elsewhere(pid: int) -> str | None:
    """The same, on a system without /proc."""
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def _machine() -> str:
    """The machine, hashed, because its id is confidential."""
    named = f"{_read(_MACHINE_ID)} {platform.node()}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]


def _boot() -> str:
    boot = _read(_BOOT_ID)
    if not boot:
        import psutil

        boot = str(int(psutil.boot_time()))
    return boot


def _namespace() -> str:
    """Which processes this one can see: containers of one machine count theirs apart."""
    return pid_namespace().strip("pid:[]") or "0"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
