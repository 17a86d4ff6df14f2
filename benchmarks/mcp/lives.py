"""The first list after a start: how soon its tools are there, and what that weighs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.competitors import Competitor, Glovebox, Say, Unavailable
from benchmarks.load import LoadError
from benchmarks.mcp.client import EventSession, call, opened
from benchmarks.mcp.posting import ALONE, TOOL, ready
from benchmarks.mcp.tally import Tally
from benchmarks.memory import pss
from benchmarks.plan import McpPlan
from benchmarks.report import Cell, Row
from benchmarks.servers import Running, Target, run
from benchmarks.terminal.findings import Findings


@dataclass(frozen=True)
class Life:
    """A server that got its first list: seconds of its start and to its tools, megabytes before and after."""

    alive: float
    ready: float
    before: float
    after: float

    @property
    def total(self) -> float:
        """Seconds of both: what is loaded at the start need not be loaded for the list."""
        return self.alive + self.ready

    @property
    def added(self) -> float:
        """What the list and the call have added."""
        return self.after - self.before

    def __str__(self) -> str:
        weighed = f"{self.before:.0f} MB, then {self.after:.0f} MB"
        return f"alive after {self.alive:.2f} s, tools/list after {self.ready:.2f} s, {weighed}"


Lives = Mapping[str, list[Life]]


def measure_lives(
    competitors: Sequence[Competitor], plan: McpPlan, stack: ExitStack, tally: Tally, say: Say
) -> tuple[list[Target], Findings]:
    """Start each some times, in turns; the last ones stay, and have their list.

    Raises:
        Unavailable, LoadError: the box does not start, or does not answer.
    """
    lives: Lives = {one.name: [] for one in competitors}
    targets: list[Target] = []
    for turn in reversed(range(plan.starts)):
        for one in competitors:
            is_enough = one.name != Glovebox.name and turn >= plan.slow_starts
            if is_enough or one.name in tally.reasons:
                continue
            with tally.excusing(one.name), ExitStack() as end:
                running = end.enter_context(run(one))
                lives[one.name].append(live(running, plan.settle))
                say(f"mcp, first list: {one.name} {lives[one.name][-1]}")
                if turn == 0:
                    targets.append(running.target())
                    stack.push(end.pop_all())
    return targets, Findings(_rows(lives, tally))


def live(running: Running, settle: float) -> Life:
    """Give a server that was just started its first list, and call a tool of it.

    Raises:
        Unavailable: it does not start, or has no such tools.
        LoadError: the call is answered wrong, or not at all.
    """
    alive = running.wait_alive()
    time.sleep(settle)
    before = pss(running.processes())
    took = ready(running.site, ALONE)
    try:
        with opened(running.site, EventSession) as session:
            answer = call(session, TOOL, "first")
            time.sleep(settle)
            after = pss(running.processes())
    except OSError as error:
        raise LoadError(f"a first call was not answered: {error}") from error
    if answer != "first":
        raise Unavailable(f"a first call was answered {answer[:200]!r}")
    return Life(alive, took, before, after)


def _rows(lives: Lives, tally: Tally) -> list[Row]:
    runs = sorted({len(some) for some in lives.values()} - {0})
    times = f"median of {' or '.join(map(str, runs))}" if runs else "no run"
    fields: Sequence[tuple[str, str, tuple[str, ...]]] = (
        (f"first list posted to tools/list answered ({times})", "s", ("ready",)),
        (f"the same and the start to first `/alive` answer together ({times})", "s", ("total",)),
        ("memory before any list / after a first call, all processes (PSS)", "MB", ("before", "after")),
        ("what the first list and a call add to the memory (PSS)", "MB", ("added",)),
    )
    return [
        Row(
            f"mcp: {label}",
            unit,
            {name: _cell(some, names, tally.reasons.get(name, "")) for name, some in lives.items()},
        )
        for label, unit, names in fields
    ]


def _cell(lives: Sequence[Life], names: Sequence[str], reason: str) -> Cell:
    if not lives:
        return Cell(reason=reason)
    medians = tuple(statistics.median(getattr(life, name) for life in lives) for name in names)
    return Cell(medians, samples=len(lives))
