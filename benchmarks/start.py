"""Start, memory after the start, and end of each server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.competitors import Competitor, Say, Unavailable
from benchmarks.load import LoadError, exchange
from benchmarks.memory import pss
from benchmarks.plan import Plan
from benchmarks.report import Cell, Row
from benchmarks.servers import Running, forget_cached, run

#: Background work after the start (plugins, caches) is over by then.
_SETTLE = 2.0

#: A server that takes longer is started less often.
_SLOW = 5.0


@dataclass(frozen=True)
class Life:
    """One server from its start to its end."""

    alive: float
    first_command: float
    processes: int
    pss: float
    stop: float | None
    left: int


def measure_starts(competitors: Sequence[Competitor], plan: Plan, say: Say) -> list[Row]:
    """Start and end every server several times, in turns."""
    lives: dict[str, list[Life]] = {competitor.name: [] for competitor in competitors}
    cold: dict[str, Cell] = {}
    reasons: dict[str, str] = {}
    for turn in range(plan.starts + plan.cold_start):
        is_cold = plan.cold_start and turn == 0
        for competitor in competitors:
            if competitor.name in reasons or _is_enough(lives[competitor.name], plan):
                continue
            try:
                life = _live(competitor, is_cold)
            except Unavailable as problem:
                say(f"start {competitor.name}: {problem}")
                reasons[competitor.name] = str(problem)
                continue
            say(_summary(competitor, life, is_cold))
            if is_cold:
                cold[competitor.name] = Cell((life.alive,), samples=1)
            else:
                lives[competitor.name].append(life)
    return _rows(lives, cold, reasons, plan)


def _is_enough(lives: Sequence[Life], plan: Plan) -> bool:
    is_slow = bool(lives) and lives[0].alive > _SLOW
    return len(lives) >= (plan.slow_starts if is_slow else plan.starts)


def _live(competitor: Competitor, is_cold: bool) -> Life:
    if is_cold:
        forget_cached(competitor.program_files())
    with run(competitor) as running:
        alive = running.wait_alive()
        first_command = _first_command(running)
        time.sleep(_SETTLE)
        processes = running.processes()
        memory = pss(processes)
        stop, left = running.stop()
        return Life(alive, first_command, len(processes), memory, stop, left)


def _first_command(running: Running) -> float:
    """Seconds from the start to the end of a first command.

    Raises:
        Unavailable: there is no right answer to one.
    """
    answer: tuple[int, bytes] = (0, b"")
    try:
        for request in running.target().dialect.opening():
            for _ in range(3):  # a wrong answer here and there is counted elsewhere
                answer = exchange(running.site.address, request.raw)
                if request.accepts(*answer):
                    break
            else:
                raise Unavailable(f"wrong answer to a first command: HTTP {answer[0]} {answer[1][:100]!r}")
    except (OSError, LoadError) as error:
        raise Unavailable(f"no answer to a first command: {error}") from error
    return time.perf_counter() - running.started


def _summary(competitor: Competitor, life: Life, is_cold: bool) -> str:
    kind = "cold start" if is_cold else "start"
    stop = "never" if life.stop is None else f"{life.stop:.2f} s"
    return (
        f"{kind} {competitor.name}: alive {life.alive:.2f} s, command {life.first_command:.2f} s, "
        f"{life.processes} processes, {life.pss:.0f} MB, end {stop}, {life.left} left behind"
    )


def _rows(
    lives: dict[str, list[Life]], cold: dict[str, Cell], reasons: dict[str, str], plan: Plan
) -> list[Row]:
    runs = sorted({len(series) for series in lives.values()} - {0})
    times = f"median of {' or '.join(map(str, runs))}" if runs else "no run"
    fields = (
        ("alive", f"start to first `/alive` answer ({times})", "s", "lower"),
        ("first_command", f"start to end of a first command ({times})", "s", "lower"),
        ("pss", "memory after a first command, all processes (PSS)", "MB", "lower"),
        ("processes", "processes after a first command", "", ""),
        ("stop", f"SIGTERM to exit ({times})", "s", "lower"),
        ("left", "processes left behind after exit", "", ""),
    )
    rows = [
        Row(label, unit, {name: _median(lives[name], key, reasons.get(name)) for name in lives}, better)
        for key, label, unit, better in fields
    ]
    if plan.cold_start:
        cells = {name: cold.get(name) or Cell(reason=reasons.get(name, "")) for name in lives}
        rows.insert(1, Row("start to first `/alive` answer, files not in memory (1 run)", "s", cells))
    return rows


def _median(lives: Sequence[Life], key: str, reason: str | None) -> Cell:
    if not lives:
        return Cell(reason=reason or "")
    values = [getattr(life, key) for life in lives]
    known = [value for value in values if value is not None]
    if not known:
        return Cell(reason="did not end within 20 s")
    return Cell((statistics.median(known),), samples=len(known))
