"""A fresh box of this project, and a look into its processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from benchmarks.competitors import Glovebox, Unavailable
from benchmarks.dialects import Site, http, parsed
from benchmarks.load import LoadError, exchange
from benchmarks.memory import MEGABYTE, pss
from benchmarks.openhands import OpenHands
from benchmarks.servers import Running, Target, run

#: Seconds a shell may take to be there.
_SHELL_LIMIT = 10.0


class Box:
    """A box that answers, its server, its holder and its shells."""

    def __init__(self, running: Running) -> None:
        self.target: Target = running.target()
        self.site: Site = running.site
        self.server = psutil.Process(running.pid)

    @property
    def holder(self) -> psutil.Process:
        """The process that owns the shells.

        Raises:
            Unavailable: there is none.
        """
        for child in self.server.children():
            if any("holder.main" in word for word in child.cmdline()):
                return child
        raise Unavailable("the box has no holder")

    def shell(self, session: str = "main") -> psutil.Process:
        """The shell of a session."""
        return psutil.Process(self.get(f"/sessions/{session}")["pid"])

    def get(self, path: str) -> Any:
        """Ask for something as JSON.

        Raises:
            Unavailable: it is not there.
        """
        try:
            status, body = exchange(self.site.address, http(self.site, "GET", path, OpenHands.key_header))
        except (OSError, LoadError) as error:
            raise Unavailable(f"GET {path}: {error}") from error
        if status != 200:
            raise Unavailable(f"GET {path}: HTTP {status}")
        return parsed(body)

    def holder_memory(self) -> tuple[float, float]:
        """Megabytes of the holder: its share of memory (PSS), and with all it shares with others (RSS)."""
        return pss([self.holder]), rss(self.holder)


def rss(process: psutil.Process) -> float:
    """Megabytes a process has in memory, with all that it shares with others."""
    return float(process.memory_info().rss) / MEGABYTE


def descriptors(process: psutil.Process) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{process.pid}/fd"))


@contextmanager
def fresh_box(*flags: str) -> Iterator[Box]:
    """A box that was just started, with its first shell, and has run nothing.

    Raises:
        Unavailable: it does not start.
    """
    with run(Glovebox(*flags)) as running:
        running.wait_alive()
        box = Box(running)
        give_up = time.monotonic() + _SHELL_LIMIT
        while box.get("/sessions/main")["pid"] is None:  # it answers before its shell is ready
            if time.monotonic() > give_up:
                raise Unavailable("the box has no shell")
            time.sleep(0.01)
        yield box
