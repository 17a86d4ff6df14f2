"""Whole lives: how soon the first page is there, and what everything weighs after some steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.browser.box import open_box
from benchmarks.browser.gym import GYM, GYM_IN_OPENHANDS, open_gym
from benchmarks.browser.steps import Browser, steps
from benchmarks.browser.tally import NOT_ASKED, Tally
from benchmarks.competitors import Glovebox, Say
from benchmarks.load import LoadError
from benchmarks.memory import pss
from benchmarks.plan import BrowserPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.terminal.findings import Findings


class Opened(Browser, Protocol):
    """A browser, and the moment from which its start counts."""

    @property
    def began(self) -> float:
        """Of the first request, or of the process."""


#: How each is opened, in the order of their turns.
Openers = Mapping[str, Callable[[], AbstractContextManager[Opened]]]
OPENERS: Openers = {
    Glovebox.name: open_box,
    GYM: lambda: open_gym(is_plain=True),
    GYM_IN_OPENHANDS: lambda: open_gym(is_plain=False),
}


@dataclass
class _Lives:
    """All that was seen of one."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        weighed = f", {self.megabytes[-1]:.0f} MB" if self.megabytes else ""
        return f"{self.seconds[-1]:.2f} s{weighed}" if self.seconds else "nothing yet"


def measure_lives(openers: Openers, pages: str, plan: BrowserPlan, tally: Tally, say: Say) -> Findings:
    """Open each some times, in turns, one alone at a time; the last time it is weighed.

    Raises:
        Unavailable, LoadError: the box does not start, or does not answer.
    """
    found = {name: _Lives() for name in (Glovebox.name, GYM, GYM_IN_OPENHANDS)}
    for turn in reversed(range(plan.starts)):
        for name, opener in openers.items():
            if name in tally.reasons or (name == GYM_IN_OPENHANDS and turn >= plan.slow_starts):
                continue
            with tally.excusing(name), opener() as browser:
                found[name].seconds.append(_start(browser, pages))
                if turn == 0:
                    _weigh(browser, found[name], pages, plan, tally)
            say(f"browser, start: {name} {tally.reasons.get(name) or found[name]}")
    return _findings(found, tally, plan)


def _start(browser: Opened, pages: str) -> float:
    """Seconds until the first page is there."""
    first = steps(pages)[0]
    seen = browser.step(first.actions)
    seconds = time.perf_counter() - browser.began
    if not first.is_right(seen):
        raise LoadError(f"wrong first page: {seen.url} {seen.error or seen.text[-200:]}")
    return seconds


def _weigh(browser: Opened, lives: _Lives, pages: str, plan: BrowserPlan, tally: Tally) -> None:
    cycle = steps(pages)
    for number in range(1, plan.steps):  # the first was the start
        step = cycle[number % len(cycle)]
        tally.take(browser.name, step, browser.step(step.actions), "before it is weighed")
    time.sleep(plan.settle)
    processes = browser.processes()
    lives.megabytes.append(pss(processes))
    lives.processes.append(len(processes))


def _findings(found: Mapping[str, _Lives], tally: Tally, plan: BrowserPlan) -> Findings:
    ours = found[Glovebox.name]
    starts, weights, counts = [], [], []
    for other, suffix in ((GYM, ""), (GYM_IN_OPENHANDS, f"; {GYM_IN_OPENHANDS}")):
        theirs, reason = found[other], tally.reasons.get(other, NOT_ASKED)
        label = f"browser: first request to the first page's answer{suffix}"
        starts.append(Row(label, "s", _cells(ours.seconds, theirs.seconds, reason)))
        label = f"browser: memory after {plan.steps} steps, all processes (PSS){suffix}"
        weights.append(Row(label, "MB", _cells(ours.megabytes, theirs.megabytes, reason)))
        label = f"browser: processes after {plan.steps} steps{suffix}"
        counts.append(Row(label, "", _cells(ours.processes, theirs.processes, reason), better=""))
    return Findings([*starts, *weights, *counts], [_aim(plan, ours.megabytes, found[GYM].megabytes)])


def _cells(ours: Sequence[float], theirs: Sequence[float], reason: str) -> dict[str, Cell]:
    return {
        Glovebox.name: Cell((statistics.median(ours),), samples=len(ours)),
        GYM: Cell((statistics.median(theirs),), samples=len(theirs)) if theirs else Cell(reason=reason),
    }


def _aim(plan: BrowserPlan, ours: Sequence[float], theirs: Sequence[float]) -> Aim:
    text = f"memory after {plan.steps} steps: not more than BrowserGym's"
    if not theirs:
        return Aim(text, "n/a", None)
    ours_, theirs_ = statistics.median(ours), statistics.median(theirs)
    return Aim(text, f"{ours_:.0f} MB of {theirs_:.0f} MB", ours_ <= theirs_)
