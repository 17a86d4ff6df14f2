"""Conversations in rounds, the servers in turns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.mcp.calls import AT_ONCE, Work, actions, calls, converse, crowds, listings, operations
from benchmarks.mcp.client import EventSession, HttpSession
from benchmarks.mcp.posting import ALONE, Entry, ready
from benchmarks.mcp.tally import Tally
from benchmarks.plan import McpPlan
from benchmarks.report import Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.findings import Findings

#: The call that the one with servers that hang is compared with.
CALL = "a call in a session that stays open"
CROWD = f"{AT_ONCE} calls at once in one session"


@dataclass(frozen=True)
class _Kind:
    """What is done, how often in each round, and whether any other server offers it."""

    work: Work
    often: str
    is_common: bool = True


_KINDS: Mapping[str, _Kind] = {
    "connect, initialize, tools/list, disconnect": _Kind(listings, "operations"),
    "connect, initialize, tools/call, disconnect": _Kind(operations(EventSession), "operations"),
    CALL: _Kind(calls(EventSession), "calls"),
    CROWD: _Kind(crowds, "crowds"),
    "connect, initialize, tools/call, disconnect over streamable HTTP": _Kind(
        operations(HttpSession), "operations", is_common=False
    ),
    f"{CALL}, streamable HTTP": _Kind(calls(HttpSession), "calls", is_common=False),
    "a call by `call_tool_mcp` of `/execute_action`": _Kind(actions, "calls", is_common=False),
}


def measure_rounds(targets: Sequence[Target], plan: McpPlan, tally: Tally, say: Say) -> Findings:
    """Let each do the same, round after round.

    Raises:
        LoadError: the box does not answer.
    """
    for turn in range(plan.rounds):
        for label, kind in _KINDS.items():
            for target in targets:
                is_own = target.name == Glovebox.name
                if target.name in tally.reasons or not (is_own or kind.is_common):
                    continue
                with tally.excusing(target.name):
                    count: int = getattr(plan, kind.often)
                    tally.take(target.name, label, converse(kind.work, target.site, f"{label} {turn}", count))
        say(f"mcp, round {turn + 1} of {plan.rounds}")
    return Findings([_row(label, kind, targets, tally) for label, kind in _KINDS.items()])


def _row(label: str, kind: _Kind, targets: Sequence[Target], tally: Tally) -> Row:
    is_rate = label == CROWD
    row = Row(
        f"mcp: {label}" if is_rate else f"mcp: {label}; p50 / p95",
        "calls/s" if is_rate else "ms",
        better="higher" if is_rate else "lower",
    )
    for target in targets:
        shown = tally.rate if is_rate else tally.spread
        is_offered = kind.is_common or target.name == Glovebox.name
        row.cells[target.name] = shown(target.name, label) if is_offered else Cell(reason="not offered")
    return row


def measure_further_lists(targets: Sequence[Target], plan: McpPlan, tally: Tally, say: Say) -> Findings:
    """Post further lists, each with another server beside the first: when are the tools of both there?

    Raises:
        Unavailable: the box does not have them.
    """
    row = Row("mcp: a further list, with one new server, posted to tools/list answered", "s")
    for target in targets:
        if target.name in tally.reasons:
            continue
        try:
            took = [ready(target.site, [*ALONE, Entry(f"more{turn}")]) for turn in range(plan.rounds)]
        except Unavailable as problem:
            if target.name == Glovebox.name:
                raise
            row.cells[target.name] = Cell(reason=str(problem))
        else:
            row.cells[target.name] = Cell((statistics.median(took),), samples=len(took))
        cell = row.cells[target.name]
        say(f"mcp, further lists: {target.name} {cell.reason or cell.values}")
    return Findings([row])
