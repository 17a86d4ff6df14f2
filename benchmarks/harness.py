"""The harness: tables of measures, carried out for peers in turns; samples, statistics, reasons, targets.

A measure is one call, how many of them, and the rows that show its samples:

    Measure("echo", call, "ms ↓ | `echo`; p50 / p95 | :p50 :p95 | ≤ 1.2 × bare", count=200)

A row is `unit ↓ | text | figures | target`. A figure is a statistic of the measure's samples (`:p50`), or of
one of the series that its calls return by name (`growth:max`). A target compares the first figure of the box
with a number, or with a multiple of another peer's figure or another measure's (`≤ 1.8 × alive.1:p50`).
"""

from __future__ import annotations

import gc
import re
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.load import Outcome, quantile
from benchmarks.processes import Failed, Unavailable, Wrong
from benchmarks.report import Cell, Row, Target

#: The peer that all others are compared with; servers; what a program or the kernel needs without any server.
OWN, REFERENCE, SWEREX, BARE = "glovebox", "reference", "SWE-ReX", "bare"
SERVERS = (OWN, REFERENCE, SWEREX)
NOT_OFFERED = "not offered"
#: A load generator busier than this is probably what limits the figure.
_CLIENT_LIMIT = 0.85
_ROUNDS = 5
_STATISTICS: Mapping[str, Callable[[Outcome], float]] = {
    "median": lambda outcome: statistics.median(outcome.values),
    "mean": lambda outcome: statistics.fmean(outcome.values),
    "p50": lambda outcome: quantile(outcome.values, 0.5),
    "p95": lambda outcome: quantile(outcome.values, 0.95),
    "p99": lambda outcome: quantile(outcome.values, 0.99),
    "max": lambda outcome: max(outcome.values),
    "rate": lambda outcome: outcome.per_second,
}
_TARGET = re.compile(r"(?P<sign>[<≤≥=]) (?P<number>[\d.]+)( × (?P<against>\S+))?( \+ (?P<plus>[\d.]+))?")
#: One sample in the unit of the row, samples of several series, many answers, or None: the time of the call.
Sample = float | Mapping[str, float] | Outcome | None


@dataclass(frozen=True)
class Measure:
    name: str
    #: Receives the subject of a peer and the number of the call.
    call: Callable[[Any, int], Sample]
    rows: str
    count: int = 1
    #: After so many seconds a peer is not called again.
    seconds: float = 20.0
    #: What is compared without any server, from the number of the call.
    bare: Callable[[int], Sample] | None = None
    #: The peers that have it; without any: all.
    only: tuple[str, ...] = ()
    #: A failure also holds for the other series whose names begin with this.
    scope: str = ""


@dataclass(frozen=True)
class Stage:
    """Measures with the same subjects: `setup` makes that of a peer, which is there until all are done."""

    setup: Callable[[Any], AbstractContextManager[Any]]
    measures: Sequence[Measure]


@dataclass(frozen=True)
class Group:
    """Stages that belong together, for a whole or a quick run; their rows are one table."""

    name: str
    peers: tuple[str, ...]
    stages: Callable[[bool], Sequence[Stage]]


def choose(quick: bool) -> Callable[[Any, Any], Any]:
    """A function that takes the value for a whole run and that for a quick one."""
    return lambda whole, short: short if quick else whole


@dataclass
class Results:
    """The samples of one group, and the reasons why some are missing."""

    group: str
    names: Sequence[str]
    samples: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    measured: list[Measure] = field(default_factory=list)
    #: Whether this project's own box failed.
    has_own_failure: bool = False

    def say(self, text: str) -> None:
        say(f"{self.group}: {text}")

    def run(self, stages: Sequence[Stage], peers: Sequence[Any], names: Collection[str]) -> None:
        """Carry out the measures that are wanted; peers are named, and may be those of SERVERS or others."""
        for stage in stages:
            wanted = [measure for measure in stage.measures if measure.name in names]
            self.measured += wanted
            if wanted:
                with self.excusing(OWN), ExitStack() as stack:
                    self._measure(wanted, self._subjects(stage, wanted, peers, stack))

    def _subjects(
        self, stage: Stage, measures: Sequence[Measure], peers: Sequence[Any], stack: ExitStack
    ) -> dict[str, Any]:
        subjects: dict[str, Any] = {BARE: None} if BARE in self.names else {}
        for peer in peers:
            takes_part = [one.name for one in measures if not one.only or peer.name in one.only]
            if takes_part and not self.reason(peer.name):
                with self.excusing(peer.name, *takes_part):
                    subjects[peer.name] = stack.enter_context(stage.setup(peer))
        return subjects

    def _measure(self, measures: Sequence[Measure], subjects: Mapping[str, Any]) -> None:
        """The peers in turns, in rounds, so that noise of the machine meets all of them."""
        for measure in measures:
            spent, turns = dict.fromkeys(subjects, 0.0), dict.fromkeys(subjects, 0)
            rounds = min(measure.count, _ROUNDS)
            for number in range(rounds):
                for name, subject in subjects.items():
                    until = measure.count * (number + 1) // rounds
                    while turns[name] < until and not self.reason(name, measure.name):
                        began, turns[name] = time.perf_counter(), turns[name] + 1
                        with self.excusing(name, measure.scope or measure.name):
                            self._call(measure, name, subject, turns[name] - 1)
                        spent[name] += time.perf_counter() - began
                        if spent[name] > measure.seconds:
                            turns[name] = measure.count
            for name in subjects:
                self._tell(name, measure.name)

    def _call(self, measure: Measure, name: str, subject: Any, turn: int) -> None:
        call = partial(measure.call, subject) if name != BARE else measure.bare
        if call is None or (measure.only and name not in measure.only):
            raise Unavailable
        gc.disable()
        began = time.perf_counter()
        try:
            sample = call(turn)
            took = 1000 * (time.perf_counter() - began)
        except Wrong as problem:
            sample, took = Outcome(wrong=1, example=str(problem)), 0.0
        finally:
            gc.enable()
        if isinstance(sample, Mapping):
            for series, value in sample.items():
                self.take(name, f"{measure.name}.{series}", Outcome([value]))
        elif isinstance(sample, Outcome):
            self.take(name, measure.name, sample)
        else:
            self.take(name, measure.name, Outcome([took if sample is None else sample]))

    def take(self, peer: str, series: str, outcome: Outcome) -> None:
        self.samples.setdefault((peer, series), Outcome()).add(outcome)

    def _tell(self, peer: str, measure: str) -> None:
        for (name, series), outcome in self.samples.items():
            if name == peer and (series == measure or series.startswith(f"{measure}.")):
                median = f", p50 {quantile(outcome.values, 0.5):.4g}" if outcome.values else ""
                bad = f", {outcome.bad} wrong or missing: {outcome.example}" if outcome.bad else ""
                self.say(f"{series}: {peer} {outcome.right} samples{median}{bad}")

    @contextmanager
    def excusing(self, peer: str, *series: str) -> Iterator[None]:
        """A failure becomes the reason for these series (without any: all); that of the box fails the run."""
        try:
            yield
        except Failed as problem:
            for one in series or ("",):
                self.reasons.setdefault((peer, one), str(problem))
            self.has_own_failure |= peer == OWN and not isinstance(problem, Unavailable)
            if str(problem) != NOT_OFFERED:
                self.say(f"{' '.join(series) or 'all'}: without {peer}: {problem}")

    def reason(self, peer: str, series: str = "") -> str:
        """Why a series has no samples, or no more; empty if nothing is known against it."""
        while series:
            if found := self.reasons.get((peer, series)):
                return found
            series = series.rpartition(".")[0]
        return self.reasons.get((peer, ""), "")

    def figure(self, figure: str, peer: str = OWN) -> float | None:
        """One statistic of a series of a peer, such as `echo:p50`; None without samples."""
        series, _, statistic = figure.partition(":")
        outcome = self.samples.get((peer, series))
        return _STATISTICS[statistic](outcome) if outcome and outcome.values else None

    def wrong(self, peer: str, *series: str) -> Cell:
        """How many answers were wrong or missing; a peer that failed in the middle has left one out."""
        found = [outcome for (name, one), outcome in self.samples.items() if name == peer and one in series]
        asked, bad = (sum(getattr(outcome, name) for outcome in found) for name in ("asked", "bad"))
        is_cut = bool(asked) and any(self.reason(peer, one) for one in series if (peer, one) in self.samples)
        return Cell((bad + is_cut,), out_of=asked + is_cut, samples=asked + is_cut) if asked else Cell()

    def rows(self) -> list[Row]:
        """The rows of all measures, and one with the wrong and missing answers of all."""
        found = [
            self._row(measure, line) for measure in self.measured for line in measure.rows.split("\n") if line
        ]
        all_series = list(dict.fromkeys(series for _, series in self.samples))
        cells = {name: self.wrong(name, *all_series) for name in self.names}
        return [*found, Row("wrong or missing answers", "", cells, "", self._target("= 0", cells))]

    def _row(self, measure: Measure, line: str) -> Row:
        unit, text, figures, target = (*(part.strip() for part in line.split(" | ")), "")[:4]
        better = {"↓": "lower", "↑": "higher"}.get(unit[-1:], "")
        keys = [_key(measure.name, figure) for figure in figures.split()]
        cells = {name: self._cell(keys, name) for name in self.names}
        numbers = {cell.samples for cell in cells.values() if cell.values}
        runs = f"median of {' or '.join(map(str, sorted(numbers)))}" if numbers else "no run"
        shown = text.replace("{runs}", runs)
        return Row(shown, unit.rstrip("↓↑ "), cells, better, self._target(target, cells))

    def _cell(self, figures: Sequence[str], peer: str) -> Cell:
        series = [figure.partition(":")[0] for figure in figures]
        if figures[0].endswith(":wrong"):
            cell = self.wrong(peer, *series)
        else:
            outcomes = [self.samples.get((peer, one), Outcome()) for one in series]
            cell = Cell()
            if all(outcome.values for outcome in outcomes):
                values = tuple(self.figure(figure, peer) or 0.0 for figure in figures)
                is_limited = any(outcome.client_busy > _CLIENT_LIMIT for outcome in outcomes)
                cell = Cell(values, samples=outcomes[0].right, client_limited=is_limited)
            elif any(outcome.asked for outcome in outcomes):
                cell = Cell(reason="no right answer")
        reason = next(filter(None, (self.reason(peer, one) for one in series)), "")
        if peer == BARE and reason in ("", NOT_OFFERED) and not cell.values:
            return Cell()
        return cell if cell.values else Cell(reason=reason or cell.reason or NOT_OFFERED)

    def _target(self, text: str, cells: Mapping[str, Cell]) -> Target | None:
        """What the first figure should be, and whether it is; None without a target."""
        match = _TARGET.fullmatch(text)
        if not match:
            return None
        against, values = match["against"], cells[OWN].values
        base: float | None = 1.0
        if against:
            base = next(iter(cells[against].values), None) if against in cells else self.figure(against)
        if not values or base is None:
            return Target(text, None)
        bound = float(match["number"]) * base + float(match["plus"] or 0)
        is_reached = {"<": values[0] < bound, "≤": values[0] <= bound, "≥": values[0] >= bound}
        ratio = values[0] / base if against and base else None
        return Target(text, is_reached.get(match["sign"], values[0] == bound), ratio)


def _key(measure: str, figure: str) -> str:
    series, _, statistic = figure.partition(":")
    return f"{measure}.{series}:{statistic}" if series else f"{measure}:{statistic}"


def say(text: str) -> None:
    """Report progress; only the table goes to standard output."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
