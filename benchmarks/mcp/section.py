"""All measures of MCP, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.competitors import Competitor, Glovebox, Say
from benchmarks.mcp.hanging import measure_hanging
from benchmarks.mcp.lives import measure_lives
from benchmarks.mcp.rounds import measure_further_lists, measure_rounds
from benchmarks.mcp.tally import Tally
from benchmarks.openhands import OpenHands
from benchmarks.plan import McpPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.terminal.findings import Findings


def measure_mcp(competitors: Sequence[Competitor], plan: McpPlan, say: Say) -> Findings:
    """Measure fresh servers: this box, and the others that have MCP.

    Raises:
        Unavailable: the box does not start, or has no MCP.
        LoadError: it does not answer.
    """
    able = [one for one in competitors if one.dialect is OpenHands]
    tally = Tally(say)
    with ExitStack() as stack:
        targets, found = measure_lives(able, plan, stack, tally, say)
        found.add(measure_rounds(targets, plan, tally, say))
        # After the rounds: a server that takes no second list may be the worse for it.
        found.rows[2:2] = measure_further_lists(targets, plan, tally, say).rows
        for own in (target for target in targets if target.name == Glovebox.name):
            found.add(measure_hanging(own, plan, tally, say))
    wrong = Row("mcp: wrong or missing answers", "", better="")
    wrong.cells = {one.name: tally.wrong(one.name) for one in able}
    found.rows.append(wrong)
    found.aims.append(_none_wrong(wrong.cells.get(Glovebox.name, Cell())))
    for row in found.rows:
        for one in competitors:
            reason = tally.reasons.get(one.name, "not asked" if one in able else "not offered")
            row.cells.setdefault(one.name, Cell(reason=reason))
    return found


def _none_wrong(ours: Cell) -> Aim:
    shown = f"{ours.values[0]:.0f} of {ours.out_of}" if ours.values else "n/a"
    return Aim("MCP: no answer wrong or missing", shown, ours.values[0] == 0 if ours.values else None)
