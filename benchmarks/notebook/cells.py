"""How long cells take that take no time, and how many of thousands are answered wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.competitors import Glovebox, Reference, Say
from benchmarks.load import LoadError, Outcome, Request, drive, drive_through, quantile
from benchmarks.notebook.busy import all_cores_busy
from benchmarks.openhands import OpenHands
from benchmarks.plan import NotebookPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.findings import Findings, below, of

_PRINT = "`print(1)`"

#: Kinds of cells: from a number to the code and what is to come of it. No two cells in a row show the
#: same, so that the answer to the cell before is a wrong answer.
KINDS: Mapping[str, Callable[[int], tuple[str, str]]] = {
    _PRINT: lambda n: (f"print({n})", f"{n}"),
    "an expression": lambda n: (f"{n} * 10 + 1", f"{n * 10 + 1}"),
    "100 lines of output": lambda n: (
        f"for line in range(100): print({n}, line)",
        "\n".join(f"{n} {line}" for line in range(100)),
    ),
}

#: Seconds for all cells of one server; what is not answered by then is missing.
_LIMIT = 300.0


def script(target: Target, kinds: Sequence[str], count: int) -> list[Request]:
    """So many cells, the kinds in turns."""
    dialect = OpenHands(target.site)
    return [dialect.cell(*KINDS[kinds[n % len(kinds)]](n)) for n in range(count)]


def measure_cells(own: Target, peers: Sequence[Target], plan: NotebookPlan, say: Say) -> Findings:
    """One cell after the other over one connection, the servers in turns."""
    found = Findings()
    for kind in KINDS:
        outcomes: dict[str, Outcome] = {}
        reasons: dict[str, str] = {}
        for _ in range(plan.cell_rounds):
            for target in (own, *peers):
                if target.name in reasons:
                    continue
                try:
                    outcome = _round(target, kind, plan)
                except LoadError as error:
                    reasons[target.name] = str(error)
                    continue
                outcomes.setdefault(target.name, Outcome()).add(outcome)
        row = Row(f"notebook: {kind}; p50 / p95", "ms")
        row.cells |= {name: _spread(outcome) for name, outcome in outcomes.items()}
        row.cells |= {name: Cell(reason=reason) for name, reason in reasons.items()}
        wrong = _wrong(f"{kind}; wrong or missing answers", outcomes, reasons)
        found.rows += [row, wrong]
        say(f"notebook, {kind}: {_summary(row)}")
        if kind == _PRINT:
            found.aims += _aims(row)
    return found


def _round(target: Target, kind: str, plan: NotebookPlan) -> Outcome:
    if target.name == Glovebox.name:
        seconds = plan.cell_seconds / plan.cell_rounds
        return drive(target.site.address, [script(target, [kind], 4)], seconds, seconds + 60)
    count = plan.slow_cells // plan.cell_rounds
    return drive_through(target.site.address, [script(target, [kind], count)], 60)


def _spread(outcome: Outcome) -> Cell:
    if not outcome.right:
        return Cell(reason="no right answer")
    both = quantile(outcome.latencies, 0.5), quantile(outcome.latencies, 0.95)
    return Cell(both, samples=outcome.right)


def _wrong(label: str, outcomes: Mapping[str, Outcome], reasons: Mapping[str, str]) -> Row:
    row = Row(f"notebook: {label}", "", better="")
    for name, outcome in outcomes.items():
        bad = outcome.asked - outcome.right
        row.cells[name] = Cell((bad,), samples=outcome.asked, out_of=outcome.asked)
    row.cells |= {name: Cell(reason=reason) for name, reason in reasons.items()}
    return row


def _aims(row: Row) -> list[Aim]:
    ours = row.cells.get(Glovebox.name, Cell()).values
    theirs = row.cells.get(Reference.name, Cell()).values
    p50 = ours[0] if ours else None
    return [
        below("`print(1)` over HTTP, p50", p50, 8, "ms"),
        of("`print(1)` over HTTP, p50: the reference's is", theirs[0] if theirs else None, p50, 6),
    ]


def _summary(row: Row) -> str:
    return ", ".join(f"{name} {cell.reason or cell.values}" for name, cell in row.cells.items())


def measure_lost_cells(own: Target, peers: Sequence[Target], plan: NotebookPlan, say: Say) -> Findings:
    """Thousands of cells, on a machine with nothing else to do and on one with too much to do."""
    found = _lost("idle machine", own, peers, (plan.checked_cells, plan.slow_checked_cells), say)
    with all_cores_busy():
        found.add(_lost("all cores busy", own, peers, (plan.busy_cells, plan.slow_busy_cells), say))
    return found


def _lost(when: str, own: Target, peers: Sequence[Target], counts: tuple[int, int], say: Say) -> Findings:
    outcomes: dict[str, Outcome] = {}
    reasons: dict[str, str] = {}
    for target in (own, *peers):
        count = counts[0] if target is own else counts[1]
        cells = script(target, list(KINDS)[:2], count)
        try:
            outcome = drive_through(target.site.address, [cells], _LIMIT)
        except LoadError as error:
            reasons[target.name] = str(error)
            say(f"notebook, {when}: {target.name} n/a: {error}")
            continue
        outcomes[target.name] = outcome
        bad = outcome.asked - outcome.right
        say(f"notebook, {when}: {target.name} {bad} of {outcome.asked} lost or wrong. {outcome.example}")
    row = _wrong(f"cells whose output was lost or wrong, {when}", outcomes, reasons)
    ours = row.cells[own.name]
    shown = f"{ours.values[0]:.0f} of {ours.out_of}" if ours.values else "n/a"
    is_none_lost = ours.values[0] == 0 and ours.out_of == counts[0] if ours.values else None
    return Findings([row], [Aim(f"{counts[0]} cells, {when}: none lost or wrong", shown, is_none_lost)])
