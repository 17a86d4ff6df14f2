"""Thousands of commands in one session: the last ones are to be as the first ones were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from benchmarks.competitors import Glovebox, Say
from benchmarks.load import LoadError, Outcome, drive_through, exchange, quantile
from benchmarks.memory import pss
from benchmarks.plan import TerminalPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.terminal.box import descriptors, fresh_box
from benchmarks.terminal.findings import Findings

#: First and last commands that are compared (a quick run has fewer).
_PART = 1_000


@dataclass(frozen=True)
class Look:
    """Megabytes (PSS) and descriptors of the server, the holder and the shell."""

    memory: tuple[float, ...]
    descriptors: tuple[int, ...]


def measure_endurance(plan: TerminalPlan, say: Say) -> Findings:
    """One command after the other, each with a number of its own, each answer checked."""
    outcome = Outcome()
    with fresh_box() as box:
        echo = box.target.dialect.echo
        # Some commands first: what is loaded and cached only once is no growth.
        for number in range(20):
            exchange(box.site.address, echo(f"before {number}").raw)
        processes = (box.server, box.holder, box.shell())
        looks = [_look(processes)]
        half = plan.commands // 2
        for start in (0, half):
            script = [echo(f"number {number}") for number in range(start, start + half)]
            outcome.add(drive_through(box.site.address, [script], 60 + plan.commands / 50))
            looks.append(_look(processes))
        is_same_shell = box.shell() == processes[2]
    say(f"terminal, {plan.commands} commands: {outcome.asked - outcome.right} wrong. {outcome.example}")
    if not outcome.right:
        raise LoadError("no right answer")
    return _findings(f"{plan.commands} commands in one session", outcome, looks, is_same_shell)


def _look(processes: tuple[psutil.Process, ...]) -> Look:
    return Look(tuple(pss([one]) for one in processes), tuple(descriptors(one) for one in processes))


def _findings(count: str, outcome: Outcome, looks: Sequence[Look], is_same_shell: bool) -> Findings:
    part = min(_PART, outcome.right // 4)
    first, last = (quantile(some, 0.5) for some in (outcome.latencies[:part], outcome.latencies[-part:]))
    bad = outcome.asked - outcome.right
    memory = (Cell(look.memory, samples=1) for look in looks)
    opened = (Cell(look.descriptors, samples=1) for look in (looks[0], looks[-1]))
    cells = [
        (f"p50 of the first / of the last {part}", "ms", Cell((first, last), samples=part)),
        ("wrong or missing answers", "", Cell((bad,), samples=outcome.asked, out_of=outcome.asked)),
        *(
            (f"server / holder / bash {when} (PSS)", "MB", cell)
            for when, cell in zip(("at the start", "half-way", "at the end"), memory, strict=True)
        ),
        *(
            (f"descriptors of the three {when}", "", cell)
            for when, cell in zip(("at the start", "at the end"), opened, strict=True)
        ),
    ]
    rows = [
        Row(f"terminal: {count}; {what}", unit, {Glovebox.name: cell}, better="")
        for what, unit, cell in cells
    ]
    grown = sum(looks[-1].memory) - sum(looks[1].memory)
    more = sum(looks[-1].descriptors) - sum(looks[0].descriptors)
    slower = last / first
    aims = [
        Aim(f"{count}: none wrong, all in one shell", f"{bad} wrong", bad == 0 and is_same_shell),
        Aim(f"{count}: the last as fast as the first (within a fifth)", f"{slower:.2f} times", slower < 1.2),
        Aim(f"{count}: no descriptor more", f"{more:+d}", more <= 0),
        Aim(f"{count}: no growth in the second half (within 1 MB)", f"{grown:+.2f} MB", grown < 1),
    ]
    return Findings(rows, aims)
