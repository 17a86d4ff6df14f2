"""The harness: measures as rows of a table, samples by peer and series, statistics, reasons.

A measure is a line of a table, as the report shows it, with the statistics of series it is made of:

    ms ↓ | `echo`; p50 / p95 | echo:p50 echo:p95

A group measures its peers in turns and adds samples to the series; the harness makes the cells of them.
A series may be part of another: a reason for `read` also holds for `read.8`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

from benchmarks.load import Outcome, quantile
from benchmarks.processes import Failed, NotOffered
from benchmarks.report import Aim, Cell, Row

#: The peer that all others are compared with, and the others.
OWN, REFERENCE, SWEREX = "glovebox", "reference", "SWE-ReX"
NOT_OFFERED, NOT_ASKED, GIVEN = "not offered", "not in this run", "given by its address"
#: A load generator busier than this is probably what limits the figure.
_CLIENT_LIMIT = 0.85
_STATISTICS: Mapping[str, Callable[[Outcome], float]] = {
    "median": lambda outcome: statistics.median(outcome.values),
    "mean": lambda outcome: statistics.fmean(outcome.values),
    "p50": lambda outcome: quantile(outcome.values, 0.5),
    "p95": lambda outcome: quantile(outcome.values, 0.95),
    "p99": lambda outcome: quantile(outcome.values, 0.99),
    "max": lambda outcome: max(outcome.values),
    "last": lambda outcome: outcome.values[-1],
    "rate": lambda outcome: outcome.per_second,
}
#: How much is measured, by name: what a group's table of sizes has for a whole or a quick run.
Sizes = Any


class Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=Named)


@dataclass(frozen=True)
class Measure:
    """A row. The statistic `wrong` counts wrong and missing answers of all its series."""

    #: `{runs}` in it becomes the number of samples.
    text: str
    unit: str
    figures: str
    better: str = ""
    #: The reason for an empty cell for which none was given.
    missing: str = ""
    #: The figures of the other peers, if they are not the same.
    others: str = ""


def table(lines: str, prefix: str = "", **values: object) -> list[Measure]:
    """Measures from lines `unit ↓ | text | figures | reason | figures of other peers`."""
    found = []
    for line in lines.strip("\n").format(runs="{runs}", **values).splitlines():
        unit, text, figures, *more = (part.strip() for part in line.split(" | "))
        better = {"↓": "lower", "↑": "higher"}.get(unit[-1:], "")
        found.append(Measure(prefix + text, unit.rstrip("↓↑ "), figures, better, *more))
    return found


@dataclass(frozen=True)
class Group:
    """Measures that belong together. `sizes` has for each name its value in a whole and in a quick run."""

    sizes: Mapping[str, tuple[object, object]]
    measures: Callable[[Sizes], Sequence[Measure]]
    run: Callable[[Results, Any], None]
    aims: Callable[[Results], Sequence[Aim]] = lambda results: ()

    def size(self, *, quick: bool, **changes: object) -> Sizes:
        return SimpleNamespace(**{name: both[quick] for name, both in self.sizes.items()} | changes)

    def results(self, label: str, size: Sizes, names: Sequence[str], peers: Any) -> Results:
        """Measure. If the box itself fails, the reason stands in its column."""
        results = Results(size, names, label)
        with results.excusing(OWN):
            self.run(results, peers)
        return results


@dataclass
class Results:
    """The samples of one group, and the reasons why some are missing."""

    size: Sizes
    names: Sequence[str]
    label: str = ""
    samples: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: Whether this project's own box failed.
    has_own_failure: bool = False

    def say(self, text: str) -> None:
        say(f"{self.label}: {text}")

    def add(self, peer: str, series: str, *values: float) -> None:
        self.samples.setdefault((peer, series), Outcome()).values += values
        shown = ", ".join(f"{value:.4g}" for value in values[:3])
        self.say(f"{series}: {peer} {shown}{f', … ({len(values)})' if len(values) > 3 else ''}")

    def add_all(self, peer: str, scope: str, **values: float) -> None:
        """Add one sample to each of several series of a scope."""
        for name, value in values.items():
            self.add(peer, f"{scope}.{name}", value)

    def take(self, peer: str, series: str, outcome: Outcome) -> None:
        """Add answers: the times of right ones, and the numbers of wrong and missing ones."""
        self.samples.setdefault((peer, series), Outcome()).add(outcome)
        median = f", p50 {quantile(outcome.values, 0.5):.3g}" if outcome.values else ""
        bad = f", {outcome.bad} of {outcome.asked} wrong or missing: {outcome.example}" if outcome.bad else ""
        self.say(f"{series}: {peer} {outcome.right} right{median}{bad}")

    def excuse(self, peer: str, reason: str, *series: str) -> None:
        """Give the reason why series of a peer (without any: all) have no samples. The first reason stays."""
        for one in series or ("",):
            self.reasons.setdefault((peer, one), reason)

    def reason(self, peer: str, series: str = "") -> str:
        """Why a series has no samples, or no more; empty if nothing is known against it."""
        while series:
            if found := self.reasons.get((peer, series)):
                return found
            series = series.rpartition(".")[0]
        return self.reasons.get((peer, ""), "")

    @contextmanager
    def excusing(self, peer: str, *series: str, optional: bool = False) -> Iterator[None]:
        """A failure becomes the reason for these series; that of the box fails the run, unless optional."""
        try:
            yield
        except Failed as problem:
            self.excuse(peer, str(problem), *series)
            self.has_own_failure |= peer == OWN and not optional and not isinstance(problem, NotOffered)
            self.say(f"{' '.join(series) or 'all'}: without {peer}: {problem}")

    def turns(self, count: int, peers: Sequence[NamedT], series: str = "") -> Iterator[tuple[int, NamedT]]:
        """So many rounds, the peers in turns, without those that failed."""
        for turn in range(count):
            yield from ((turn, peer) for peer in peers if not self.reason(peer.name, series))

    def figure(self, figure: str, peer: str = OWN) -> float | None:
        """One statistic of a series of a peer, such as `echo:p50`; None without samples."""
        series, _, statistic = figure.partition(":")
        outcome = self.samples.get((peer, series))
        return _STATISTICS[statistic](outcome) if outcome and outcome.values else None

    def wrong(self, *series: str, peer: str = OWN) -> Cell:
        """How many answers were wrong or missing; a peer that failed in the middle has left one out."""
        outcomes = [self.samples.get((peer, one), Outcome()) for one in series]
        asked = sum(outcome.asked for outcome in outcomes)
        if not asked:
            return Cell()
        missing = int(any(self.reason(peer, one) for one in series))
        bad = sum(outcome.bad for outcome in outcomes) + missing
        return Cell((bad,), samples=asked + missing, out_of=asked + missing)

    def rows(self, measures: Sequence[Measure]) -> list[Row]:
        return [
            Row(self._text(one), one.unit, {name: self.cell(one, name) for name in self.names}, one.better)
            for one in measures
        ]

    def _text(self, measure: Measure) -> str:
        series = measure.figures.partition(":")[0]
        numbers = {self.samples[name, series].right for name in self.names if (name, series) in self.samples}
        runs = f"median of {' or '.join(map(str, sorted(numbers)))}" if numbers else "no run"
        return measure.text.replace("{runs}", runs)

    def cell(self, measure: Measure, peer: str) -> Cell:
        figures = ((measure.others if peer != OWN else "") or measure.figures).split()
        series = [figure.partition(":")[0] for figure in figures]
        outcomes = [self.samples.get((peer, one), Outcome()) for one in series]
        cell = Cell()
        if figures[0].endswith(":wrong"):
            cell = self.wrong(*series, peer=peer)
        elif all(outcome.values for outcome in outcomes):
            values = tuple(self.figure(figure, peer) or 0.0 for figure in figures)
            is_limited = any(outcome.client_busy > _CLIENT_LIMIT for outcome in outcomes)
            cell = Cell(values, samples=outcomes[0].right, client_limited=is_limited)
        if cell.values:
            return cell
        reason = next(filter(None, (self.reason(peer, one) for one in series)), "")
        is_wrong = any(outcome.asked for outcome in outcomes)
        return Cell(reason=reason or ("no right answer" if is_wrong else measure.missing))


def say(text: str) -> None:
    """Report progress; only the table goes to standard output."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
