"""Secrets that came with the environment are erased from it, and other programs cannot look into the process.

The first process of a container loads this, so nothing is imported that every Python has not loaded anyway.
"""

from __future__ import annotations

import os

from glovebox.linux.processes import read_stat, stat_fields

#: Variables that are shown neither to commands nor by the system: keys, and the headers that collectors want.
SECRET_VARIABLES = frozenset(
    {
        "SESSION_API_KEY",
        "GLOVEBOX_HUB_KEY",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    }
)
#: Begins the variables of plugins, which may be secrets too: `GLOVEBOX_PLUGIN_JUPYTER_KERNEL`.
PLUGIN_PREFIX = "GLOVEBOX_PLUGIN_"

#: The field of `/proc/self/stat` with the address of the environment, counted behind the program's name.
_ENV_START = 47
#: From the kernel's `prctl.h`.
_PR_SET_DUMPABLE = 4


def is_secret(variable: str) -> bool:
    """Whether a variable of this name is kept from commands."""
    return variable in SECRET_VARIABLES or variable.startswith(PLUGIN_PREFIX)


def erase_secrets() -> bool:
    """Erase secrets from the environment that the kernel gave this process; whether none is left.

    Removing a variable leaves its text where the kernel put it, and `/proc/PID/environ` shows that. Blocks.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            block = file.read()
        begin = int(stat_fields(read_stat("self"))[_ENV_START])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            offset = 0
            for entry in block.split(b"\0"):
                if is_secret(os.fsdecode(entry.partition(b"=")[0])):
                    memory.seek(begin + offset)
                    memory.write(bytes(len(entry)))
                offset += len(entry) + 1
        with open("/proc/self/environ", "rb") as file:
            left = file.read().split(b"\0")
    except (OSError, ValueError, IndexError):  # not Linux, or a process cannot read its own memory here
        return False
    return not any(is_secret(os.fsdecode(entry.partition(b"=")[0])) for entry in left)


def forbid_inspection() -> None:
    """Let no program but one with CAP_SYS_PTRACE read the memory, environment or descriptors of this process.

    Programs that it starts are as open as any. Blocks a little: it loads `ctypes`.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
