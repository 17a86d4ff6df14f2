"""The start of a box in steps, with their times."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Literal

from glovebox.linux import processes
from glovebox.protocol.base import Message

State = Literal["running", "done", "failed"]


class Step(Message):
    """One step of the start: when it began, counted from the start of the process, and how long it took."""

    name: str
    state: State
    began_ms: float
    took_ms: float
    error: str | None = None


class StartupReport(Message):
    """The whole start; `ready_ms` is null until the box serves."""

    ready: bool
    ready_ms: float | None
    steps: list[Step]
    #: Names in `damaged/` of the state directory: what could not be read at this start or an earlier one.
    damaged: tuple[str, ...] = ()


class Startup:
    """The clock of a start, which began with the process."""

    def __init__(self) -> None:
        self._zero = time.monotonic() - _process_age()
        self._steps: dict[str, tuple[State, float, float, str | None]] = {}
        self._ready: float | None = None
        self._steps["interpreter"] = ("done", 0.0, self._now(), None)

    def _now(self) -> float:
        return (time.monotonic() - self._zero) * 1000

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step; one that raises is reported as failed."""
        began = self._now()
        self._steps[name] = ("running", began, 0.0, None)
        try:
            yield
        finally:
            error = sys.exception()
            reason = None if error is None else str(error) or type(error).__name__
            self._steps[name] = ("failed" if error else "done", began, self._now() - began, reason)

    def ready(self) -> float:
        """The box serves; returns how many milliseconds that took."""
        if self._ready is None:
            self._ready = self._now()
        return self._ready

    def report(self, damaged: Sequence[str] = ()) -> StartupReport:
        """All steps so far; a running one counts up to now."""
        steps = [
            Step(
                name=name,
                state=state,
                began_ms=round(began, 1),
                took_ms=round(self._now() - began if state == "running" else took, 1),
                error=error,
            )
            for name, (state, began, took, error) in self._steps.items()
        ]
        ready = None if self._ready is None else round(self._ready, 1)
        return StartupReport(
            ready=self._ready is not None, ready_ms=ready, steps=steps, damaged=tuple(damaged)
        )


def _process_age() -> float:
    """Seconds since the start of this process; 0 where that is unknown."""
    own = processes.read(os.getpid())
    return max(0.0, processes.uptime() - own.started / processes.TICKS_PER_SECOND) if own else 0.0
