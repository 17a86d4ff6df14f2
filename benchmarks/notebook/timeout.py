"""A cell that takes longer than it may: how late it is answered, and whether its kernel is still good."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from time import perf_counter

from benchmarks.competitors import Say
from benchmarks.load import LoadError, exchange
from benchmarks.notebook.asking import ask
from benchmarks.openhands import OpenHands
from benchmarks.plan import NotebookPlan
from benchmarks.report import Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.findings import Findings

#: Seconds.
_TIMEOUT = 1.0


def measure_timeouts(targets: Sequence[Target], plan: NotebookPlan, say: Say) -> Findings:
    """How late a cell is answered, and how late its kernel is there for the next one.

    The first alone would reward an answer that leaves the kernel at work.
    """
    row = Row(
        "notebook: `time.sleep(30)`, timeout 1 s; from then to its answer / to that of the next cell, p50",
        "ms",
    )
    for target in targets:
        try:
            late = [overshoot(target, turn) for turn in range(plan.timeouts)]
        except LoadError as error:
            row.cells[target.name] = Cell(reason=str(error))
        else:
            medians = tuple(map(statistics.median, zip(*late, strict=True)))
            row.cells[target.name] = Cell(medians, samples=len(late))
        cell = row.cells[target.name]
        say(f"notebook, timeout: {target.name} {cell.reason or cell.values} ms")
    return Findings([row])


def overshoot(target: Target, number: int) -> tuple[float, float]:
    """Milliseconds from the time limit of a cell to its answer, and to the answer of the next cell.

    Raises:
        LoadError: the answer does not tell of the limit, or variables are lost after it.
    """
    dialect = OpenHands(target.site)
    ask(target, dialect.cell(f"kept = {number}; print(kept)", f"{number}"))
    text = f"[Execution timed out ({_TIMEOUT} seconds).]"
    sleep = dialect.cell("import time; time.sleep(30)", text, _TIMEOUT)
    limit = perf_counter() + _TIMEOUT
    try:
        status, body = exchange(target.site.address, sleep.raw)
    except OSError as error:
        raise LoadError(f"no answer: {error}") from error
    late = perf_counter() - limit
    if not sleep.accepts(status, body):
        raise LoadError(f"wrong answer: HTTP {status} {body[:200].decode(errors='replace')}")
    ask(target, dialect.cell("print(kept)", f"{number}"))
    return 1000 * late, 1000 * (perf_counter() - limit)
