"""Memory of a process tree."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

MEGABYTE = 1024 * 1024


def pss(processes: Iterable[psutil.Process]) -> float:
    """Megabytes in use, with memory shared between processes divided among its users."""
    return sum(_field(f"/proc/{process.pid}/smaps_rollup", "Pss:") for process in processes) / 1024


class PeakGrowth:
    """How far the resident memory of some processes rose above where it stood.

    The kernel keeps the highest mark of each process and forgets it on request, so nothing has to be
    sampled while the measured work runs. Processes born meanwhile are not seen.
    """

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        self._before: dict[int, int] = {}
        for process in processes:
            if _forget_peak(process.pid):
                self._before[process.pid] = _field(f"/proc/{process.pid}/status", "VmRSS:")

    def megabytes(self) -> float | None:
        """The growth so far; None where the kernel does not tell."""
        if not self._before:
            return None
        growth = 0
        for pid, before in self._before.items():
            growth += max(0, _field(f"/proc/{pid}/status", "VmHWM:") - before)
        return growth / 1024


def _forget_peak(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _field(path: str, name: str) -> int:
    """A size in kB from one of the kernel's tables; 0 when the process is gone or has none."""
    try:
        with open(path) as table:
            for line in table:
                if line.startswith(name):
                    return int(line.split()[1])
    except OSError:
        return 0
    return 0
