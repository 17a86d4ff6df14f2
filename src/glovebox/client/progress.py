"""How a runtime tells what it does."""

from __future__ import annotations

from collections.abc import Callable

from glovebox.client.backend import Level, RuntimeStatus

#: `callback(level, status, message)`, as the contract has it.
StatusCallback = Callable[[Level, RuntimeStatus, str], None]
#: `callback(step, done, total)`; `total` is None if nobody knows.
ProgressCallback = Callable[[str, int, int | None], None]


class Reporter:
    """Hands on what is reported, and remembers the last status."""

    def __init__(self, status: StatusCallback | None, progress: ProgressCallback | None) -> None:
        self.last = RuntimeStatus.STOPPED
        self._status = status
        self._progress = progress

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None:
        """A step begins or ends."""
        self.last = status
        if self._status is not None:
            self._status(level, status, message)

    def progress(self, step: str, done: int, total: int | None) -> None:
        """So much of a step is done."""
        if self._progress is not None:
            self._progress(step, done, total)
