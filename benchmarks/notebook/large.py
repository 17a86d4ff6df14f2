"""Hundreds of cells with much output: the server must not keep all of it."""

from __future__ import annotations

from benchmarks.competitors import Glovebox, Say
from benchmarks.load import LoadError, Outcome, drive_through
from benchmarks.memory import pss
from benchmarks.notebook.asking import first_cell
from benchmarks.notebook.start import ALL_PLUGINS
from benchmarks.openhands import OpenHands
from benchmarks.plan import NotebookPlan
from benchmarks.report import Cell, Row
from benchmarks.terminal.box import fresh_box
from benchmarks.terminal.findings import Findings, below

_CHARACTERS = 1_000_000
#: What is kept of the newest cells is kept after so many.
_SETTLED = 100
#: Megabytes that the memory may differ between two moments.
_FLAT = 10.0


def measure_large_cells(plan: NotebookPlan, say: Say) -> Findings:
    """Look at the server's memory after the first hundred and after all.

    Raises:
        Unavailable: a box does not start.
        LoadError: it does not answer, or wrongly.
    """
    with fresh_box(*ALL_PLUGINS) as box:
        first_cell(box.target)
        dialect = OpenHands(box.site)
        cells = [dialect.cell(f'print("{c}" * {_CHARACTERS})', c * _CHARACTERS) for c in "abcd"]
        outcome, looks = Outcome(), [pss([box.server])]
        for count in (_SETTLED, plan.large_cells - _SETTLED):
            script = [cells[n % len(cells)] for n in range(count)]
            outcome.add(drive_through(box.site.address, [script], 60 + count))
            looks.append(pss([box.server]))
    bad = outcome.asked - outcome.right
    if bad:
        raise LoadError(f"{bad} of {outcome.asked} cells with 1 MB of output wrong: {outcome.example}")
    grown = looks[2] - looks[1]
    say(f"notebook, cells with 1 MB of output: server {looks} MB")
    label = f"{plan.large_cells} cells with 1 MB of output"
    rows = [
        Row(
            f"notebook: {label}; the server before / after the {_SETTLED}th / after the last (PSS)",
            "MB",
            {Glovebox.name: Cell(tuple(looks), samples=1)},
        ),
        Row(
            f"notebook: {label}; growth of the server from the {_SETTLED}th to the last (PSS)",
            "MB",
            {Glovebox.name: Cell((grown,), samples=1)},
        ),
    ]
    return Findings(
        rows, [below(f"{label}: growth of the server after the {_SETTLED}th", grown, _FLAT, "MB")]
    )
