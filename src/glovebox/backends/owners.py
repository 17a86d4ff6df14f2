"""The process that started a box, and whether it is gone."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

_MACHINE_ID = "/etc/machine-id"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PID_NAMESPACE = "/proc/self/ns/pid"


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
    """The start time of a process, which tells apart processes of the same pid; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _start_elsewhere(pid)
    # The name is second, in parentheses, and may contain any character.
    fields = status.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


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
    """The pid namespace: containers of one machine have their own pids."""
    try:
        return os.readlink(_PID_NAMESPACE).strip("pid:[]")
    except OSError:
        return "0"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
