"""Many boxes at once: how long until all have answered, and what each of them weighs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil

from benchmarks.boxes.client import Client
from benchmarks.boxes.first import KINDS
from benchmarks.boxes.peer import CONTAINER, PROCESS
from benchmarks.boxes.tally import NOT_ASKED, BoxFindings, Tally
from benchmarks.competitors import Reference, SweRexServer
from benchmarks.memory import MEGABYTE, pss
from benchmarks.plan import BoxesPlan
from benchmarks.report import Cell, Row

#: What a server of the reference's own weighs; more of them than fit are not started.
_REFERENCE_WEIGHT = 800 * MEGABYTE
_IN_CLIENT = "in the client's process"


def measure_crowd(clients: Sequence[Client], plan: BoxesPlan, tally: Tally) -> BoxFindings:
    """Start many boxes at once, of each kind that several have.

    Raises:
        LoadError: those of this project do not answer.
    """
    findings = BoxFindings()
    for kind in (PROCESS, CONTAINER):
        label = f"boxes: {plan.crowd} at once, {KINDS[kind]}"
        times = Row(f"{label}, until all have answered a command", "s")
        weights = Row(f"{label}, memory of each, all processes (PSS)", "MB")
        for client in clients:
            reason = tally.reason(client.name, kind) or _against(client, kind, plan)
            taken = weight = Cell(reason=reason)
            if not reason:
                taken, weight = _together(client, kind, plan, tally)
            times.cells[client.name], weights.cells[client.name] = taken, weight
        findings.rows += [times, weights]
    return findings


def _against(client: Client, kind: str, plan: BoxesPlan) -> str:
    """Why a client is not asked for so many boxes."""
    if (client.name, kind) != (Reference.name, PROCESS):
        return ""
    if not plan.has_slow_crowd:
        return NOT_ASKED
    if psutil.virtual_memory().available < plan.crowd * _REFERENCE_WEIGHT:
        return f"{plan.crowd} of its servers may not fit into the memory that is free"
    return ""


def _together(client: Client, kind: str, plan: BoxesPlan, tally: Tally) -> tuple[Cell, Cell]:
    weight = Cell(reason=_IN_CLIENT)
    try:
        with tally.excusing(client.name, f"{plan.crowd} at once, {kind}"):
            taken = client.crowd(kind, plan.crowd, plan.crowd_seconds)
            if (client.name, kind) != (SweRexServer.name, PROCESS):
                time.sleep(plan.settle)
                weight = Cell((pss(client.boxes()) / plan.crowd,), samples=plan.crowd)
            tally.say(f"boxes, {plan.crowd} at once, {kind}: {client.name} {taken:.2f} s")
            return Cell((taken,), samples=1), weight
    finally:
        client.end()
    failed = Cell(reason=tally.reason(client.name, f"{plan.crowd} at once, {kind}"))
    return failed, failed
