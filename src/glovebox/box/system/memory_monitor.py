"""Logs how much memory the box and all it started use, as the contract has it."""

from __future__ import annotations

import logging
import threading
import time

from glovebox.box.system import processes
from glovebox.box.system.sampling import Roots

log = logging.getLogger(__name__)

INTERVAL = 0.1
LONGEST = 3600.0
_STOP_LIMIT = 5.0


class MemoryMonitor:
    """A thread that looks ten times a second, for an hour at most."""

    def __init__(self, roots: Roots, *, interval: float = INTERVAL, longest: float = LONGEST) -> None:
        self._roots = roots
        self._interval = interval
        self._longest = longest
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._thread is not None:
            return
        self._stopping.clear()
        self._thread = threading.Thread(target=self._watch, name="memory-monitor", daemon=True)
        log.info("Memory monitoring started")
        self._thread.start()

    def stop(self) -> None:
        """End; without a start it does nothing. Waits for the last look."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join(_STOP_LIMIT)
        self._thread = None
        log.info("Memory monitoring stopped")

    def _watch(self) -> None:
        until = time.monotonic() + self._longest
        try:
            while time.monotonic() < until:
                used = sum(process.rss for process in processes.tree(self._roots()))
                # The words of the tool that the reference measures with: mebibytes, and seconds since 1970.
                log.info("[Memory usage] MEM %.6f %.4f", used / 2**20, time.time())
                if self._stopping.wait(self._interval):
                    return
        except (OSError, ValueError) as error:
            log.error("Memory monitoring failed: %s", error)
