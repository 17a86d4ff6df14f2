"""From a new client to the answer of a first command, wherever the box lives."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.boxes.client import Client
from benchmarks.boxes.peer import BUBBLEWRAP, CONTAINER, POOL, PROCESS, Begun
from benchmarks.boxes.tally import BoxFindings, Tally
from benchmarks.competitors import Glovebox, Reference
from benchmarks.plan import BoxesPlan
from benchmarks.report import Row
from benchmarks.terminal.findings import below, of

#: How each is called in the table.
KINDS = {
    PROCESS: "a process of this machine",
    BUBBLEWRAP: "a process within bubblewrap",
    CONTAINER: "a container",
    POOL: "a container that the warm pool had ready",
}
#: Only this project has them.
OWN_KINDS = (BUBBLEWRAP, POOL)
_LIMIT = 0.5


@dataclass
class Starts:
    """All starts of one kind by one client."""

    begun: list[Begun] = field(default_factory=list)
    #: How long each step took, of those that the engine told of.
    steps: list[tuple[float, ...]] = field(default_factory=list)


#: By the name of the client and the kind of box.
Found = dict[tuple[str, str], Starts]


def measure_first(clients: Sequence[Client], plan: BoxesPlan, tally: Tally) -> Found:
    """Start boxes of every kind, one alone at a time, the clients in turns.

    Raises:
        LoadError: the box of this project does not answer.
    """
    found: Found = {(client.name, kind): Starts() for client in clients for kind in KINDS}
    for kind in KINDS:
        for client in clients:
            if client.name == Glovebox.name and not tally.reason(client.name, kind):
                with tally.excusing(client.name, kind):
                    _start(client, kind)  # what is made once is there then
        for turn in range(plan.starts):
            for client in clients:
                is_slow = (client.name, kind) == (Reference.name, PROCESS)
                if tally.reason(client.name, kind) or (is_slow and turn >= plan.slow_starts):
                    continue
                with tally.excusing(client.name, kind):
                    _take(found[client.name, kind], *_start(client, kind))
                    tally.say(
                        f"boxes, {kind}: {client.name} {found[client.name, kind].begun[-1].seconds:.2f} s"
                    )
    return found


@contextmanager
def kept(clients: Sequence[Client], found: Found, tally: Tally) -> Iterator[dict[str, Begun]]:
    """A box of each that can be asked more, as a process of this machine; its start counts, too.

    Raises:
        LoadError: the box of this project does not answer.
    """
    boxes: dict[str, Begun] = {}
    try:
        for client in clients:
            if not tally.reason(client.name, PROCESS):
                with tally.excusing(client.name, PROCESS):
                    boxes[client.name] = client.begin(PROCESS)
                    _take(found[client.name, PROCESS], boxes[client.name], ())
                    tally.say(f"boxes, {PROCESS}: {client.name} {boxes[client.name].seconds:.2f} s")
        yield boxes
    finally:
        for client in clients:
            client.end()


def _take(starts: Starts, begun: Begun, steps: tuple[float, ...]) -> None:
    starts.begun.append(begun)
    starts.steps += [steps] if steps else []


def _start(client: Client, kind: str) -> tuple[Begun, tuple[float, ...]]:
    """Start a box and end it; what it came to, and how long each step took."""
    try:
        begun = client.begin(kind)
        steps: tuple[float, ...] = ()
        if kind == CONTAINER and client.engine and client.name == Glovebox.name:
            at = client.engine.moments(f"glovebox-{begun.name}", begun.made, begun.answered)
            if {"create", "start"} <= at.keys():
                steps = _between(begun.made, at["create"], at["start"], begun.connected, begun.answered)
    finally:
        client.end()
    return begun, steps


def _between(*moments: float) -> tuple[float, ...]:
    return tuple(after - before for before, after in pairwise(moments))


def first_findings(found: Found, names: Sequence[str], tally: Tally) -> BoxFindings:
    """What all starts came to."""
    findings = BoxFindings()
    medians: dict[tuple[str, str], float] = {}
    for kind, label in KINDS.items():
        row = Row(f"boxes: new client to the answer of a first command, {label}", "s")
        for name in names:
            row.cells[name] = tally.median(name, kind, [begun.seconds for begun in found[name, kind].begun])
            if row.cells[name].values:
                medians[name, kind] = row.cells[name].values[0]
        runs = sorted({cell.samples for cell in row.cells.values()} - {0})
        row.measure += f" (median of {' or '.join(map(str, runs))})" if runs else ""
        findings.rows.append(row)
    findings.notes += _steps(found)
    ours = medians.get((Glovebox.name, CONTAINER))
    findings.aims.append(below("a container, to the answer of a first command", ours, _LIMIT, "s"))
    theirs, ours = medians.get((Reference.name, PROCESS)), medians.get((Glovebox.name, PROCESS))
    if Reference.name in names:
        text = "a process, to the answer of a first command: the reference's is"
        findings.aims.append(of(text, theirs, ours, 10))
    return findings


def _steps(found: Found) -> list[str]:
    """Where the time of a start of this project's goes."""
    notes = []
    for (name, kind), starts in found.items():
        if name != Glovebox.name or not starts.begun:
            continue
        words: tuple[str, ...] = ("the box answers after", "a first command")
        parts = [_between(begun.made, begun.connected, begun.answered) for begun in starts.begun]
        if starts.steps:
            words = ("the engine has created it after", "started it", "the box answers", *words[1:])
            parts = starts.steps
        medians = [statistics.median(values) for values in zip(*parts, strict=True)]
        told = ", ".join(f"{word} {1000 * value:.0f} ms" for word, value in zip(words, medians, strict=True))
        notes.append(f"a first command, {KINDS[kind]}: {told} (medians of the steps)")
    return notes
