"""All measures of the terminal, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.plan import TerminalPlan
from benchmarks.report import Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.box import fresh_box
from benchmarks.terminal.bulk import measure_bulk
from benchmarks.terminal.crowd import measure_crowd
from benchmarks.terminal.echo import echo, measure_echo, spread
from benchmarks.terminal.endurance import measure_endurance
from benchmarks.terminal.findings import Findings
from benchmarks.terminal.long_lines import measure_long_lines
from benchmarks.terminal.stream import measure_stream


def measure_terminal(targets: Sequence[Target], plan: TerminalPlan, say: Say) -> Findings:
    """Measure fresh boxes of this project, and the other servers where they can do the same.

    Raises:
        Unavailable: a box does not start.
        LoadError: it does not answer.
    """
    peers = [target for target in targets if target.name != Glovebox.name]
    found = Findings()
    with fresh_box() as own:
        found.add(measure_echo(own.target, peers, plan, say))
        found.add(_held_by_tmux(plan, say))
        found.add(measure_stream(own, peers, plan, say))
    found.add(measure_endurance(plan, say))
    found.add(measure_crowd(peers, plan, say))
    # Last, as these may leave a server with a shell that does not answer any more.
    with fresh_box() as own:
        found.add(measure_long_lines([own.target, *peers], plan, say))
    found.add(measure_bulk(peers, plan, say))
    return found


def _held_by_tmux(plan: TerminalPlan, say: Say) -> Findings:
    try:
        with fresh_box("--terminal", "tmux") as box:
            cell = spread(echo(box.target, plan.echo_seconds / plan.echo_rounds))
    except Unavailable as problem:  # there need not be a tmux
        cell = Cell(reason=str(problem))
    say(f"terminal, echo, held by tmux: {cell.reason or cell.values} ms, n {cell.samples}")
    row = Row("terminal: `echo`, held by tmux; p50 / mean / p95 / p99", "ms", {Glovebox.name: cell})
    return Findings([row])
