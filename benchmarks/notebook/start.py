"""Start with plugins: when the server answers, when a first cell is answered, and what it weighs then."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.competitors import FOR_CELLS, Competitor, Glovebox, Reference, Say, Unavailable
from benchmarks.memory import pss
from benchmarks.notebook.asking import first_cell
from benchmarks.openhands import OpenHands
from benchmarks.plan import NotebookPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.servers import run
from benchmarks.terminal.findings import Findings, below, of

#: All plugins that can be chosen by name.
ALL_PLUGINS = (*FOR_CELLS, "vscode")

#: Background work after the start is over by then.
_SETTLE = 2.0

#: A server that takes longer is started less often.
_SLOW = 5.0


@dataclass(frozen=True)
class Life:
    """One server with its kernel: seconds since its start, and megabytes."""

    alive: float
    first_cell: float
    memory: float

    def summary(self) -> str:
        return f"alive {self.alive:.2f} s, first cell {self.first_cell:.2f} s, {self.memory:.0f} MB"


@dataclass
class _Lives:
    """All starts of one server, or why there are no more."""

    competitor: Competitor
    lives: list[Life]
    reason: str = ""

    def is_enough(self, plan: NotebookPlan) -> bool:
        is_slow = bool(self.lives) and self.lives[0].alive > _SLOW
        return bool(self.reason) or len(self.lives) >= (plan.slow_starts if is_slow else plan.starts)

    def cell(self, field: str) -> Cell:
        if not self.lives:
            return Cell(reason=self.reason)
        return Cell(
            (statistics.median(getattr(life, field) for life in self.lives),), samples=len(self.lives)
        )


def measure_notebook_starts(competitors: Sequence[Competitor], plan: NotebookPlan, say: Say) -> Findings:
    """Start this box without plugins and with all of them, and the others that have a kernel, in turns."""
    servers = {
        one.name: _Lives(Glovebox(*ALL_PLUGINS) if one.name == Glovebox.name else one, [])
        for one in competitors
        if one.dialect is OpenHands
    }
    plain: list[float] = []
    for _ in range(plan.starts):
        try:
            plain.append(_alive(Glovebox()))
        except Unavailable as problem:
            say(f"notebook, start without plugins: {problem}")
        for name, server in servers.items():
            if server.is_enough(plan):
                continue
            try:
                server.lives.append(_live(server.competitor))
            except Unavailable as problem:
                server.reason = str(problem)
            say(f"notebook, start {name}: {server.reason or server.lives[-1].summary()}")
    rows = _rows(servers, plain)
    unable = {one.name: Cell(reason="not offered") for one in competitors if one.name not in servers}
    for row in rows:
        row.cells |= unable
    return Findings(rows, _aims(rows))


def _alive(competitor: Competitor) -> float:
    with run(competitor) as running:
        return running.wait_alive()


def _live(competitor: Competitor) -> Life:
    with run(competitor) as running:
        alive = running.wait_alive()
        first_cell(running.target())
        answered = time.perf_counter() - running.started
        time.sleep(_SETTLE)
        return Life(alive, answered, pss(running.processes()))


def _rows(servers: Mapping[str, _Lives], plain: Sequence[float]) -> list[Row]:
    runs = sorted({len(server.lives) for server in servers.values()} - {0})
    times = f"median of {' or '.join(map(str, runs))}" if runs else "no run"
    without = Row("notebook: start to first `/alive` answer, no plugins", "s")
    without.cells[Glovebox.name] = (
        Cell((statistics.median(plain),), samples=len(plain)) if plain else Cell(reason="did not start")
    )
    if Reference.name in servers:
        without.cells[Reference.name] = Cell(reason="see --bare-reference")
    fields = (
        ("alive", f"start to first `/alive` answer, all plugins ({times})", "s"),
        ("first_cell", f"start to the answer of a first cell, `print(1)` ({times})", "s"),
        ("memory", "memory with a kernel after a first cell, all processes (PSS)", "MB"),
    )
    return [
        without,
        *(
            Row(f"notebook: {label}", unit, {name: server.cell(field) for name, server in servers.items()})
            for field, label, unit in fields
        ),
    ]


def _aims(rows: Sequence[Row]) -> list[Aim]:
    without, alive, cell = (_value(row, Glovebox.name) for row in rows[:3])
    added = alive - without if alive is not None and without is not None else None
    return [
        below("start to `/alive` with all plugins", alive, 0.3, "s"),
        below("start to `/alive`: what all plugins add to it", added, 0.03, "s"),
        of(
            "start to the answer of a first cell: the reference's start to `/alive` is",
            _value(rows[1], Reference.name),
            cell,
            3,
        ),
    ]


def _value(row: Row, name: str) -> float | None:
    values = row.cells.get(name, Cell()).values
    return values[0] if values else None
