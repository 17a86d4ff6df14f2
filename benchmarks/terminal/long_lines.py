"""Command lines of 5,000 characters: longer than a terminal takes at once."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from benchmarks.competitors import Say
from benchmarks.load import LoadError, exchange
from benchmarks.plan import TerminalPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.findings import Findings

CHARACTERS = 5_000


def measure_long_lines(targets: Sequence[Target], plan: TerminalPlan, say: Say) -> Findings:
    """How many of some long commands are answered wrongly."""
    row = Row(f"terminal: command lines of {CHARACTERS} characters; wrong or missing answers", "", better="")
    for target in targets:
        wrong, asked = _ask(target, plan)
        row.cells[target.name] = Cell((wrong,), samples=asked, out_of=asked)
        say(f"terminal, long lines: {target.name} {wrong} of {asked} wrong")
    ours = row.cells[targets[0].name]
    shown = f"{ours.values[0]:.0f} of {ours.out_of}"
    return Findings([row], [Aim("command lines of 5000 characters: none wrong", shown, ours.values[0] == 0)])


def long_text(number: int) -> str:
    """Words that make a command `echo ...` of the right length, other ones for each number."""
    words = ",".join(f"{number}.{place}" for place in range(CHARACTERS))
    return words[: CHARACTERS - len("echo ")]


def _ask(target: Target, plan: TerminalPlan) -> tuple[int, int]:
    """Wrong answers, and how many were asked for: one that hangs may use up the time of the others."""
    wrong = asked = 0
    give_up = perf_counter() + plan.long_line_seconds
    while asked < plan.long_lines and perf_counter() < give_up:
        request = target.dialect.echo(long_text(asked))
        asked += 1
        try:
            wrong += not request.accepts(*exchange(target.site.address, request.raw, plan.long_line_seconds))
        except (OSError, LoadError):
            wrong += 1
    return wrong, asked
