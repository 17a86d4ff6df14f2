"""What a client adds to a request: the same command through it, and by bare HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from benchmarks.boxes.client import Client
from benchmarks.boxes.peer import ASYNC, PROCESS, SYNC, Begun
from benchmarks.boxes.tally import NOT_OFFERED, BoxFindings, Tally
from benchmarks.competitors import Glovebox, Reference, SweRexServer
from benchmarks.dialects import Site
from benchmarks.load import LoadError, drive_through, quantile
from benchmarks.openhands import OpenHands
from benchmarks.plan import BoxesPlan
from benchmarks.report import Cell, Row
from benchmarks.terminal.findings import below

#: By no client at all.
_BARE = "bare"
_LIMIT = 120.0
_WAYS = {
    Glovebox.name: (_BARE, ASYNC, SYNC),
    Reference.name: (_BARE, SYNC),
    SweRexServer.name: (ASYNC,),
}
_LABELS = {
    _BARE: "by bare HTTP",
    ASYNC: "by the client, `await`",
    SYNC: "by the client that blocks",
}
_ADDED = 1.0


@dataclass
class _Asked:
    """A box, and all that it was asked."""

    client: Client
    site: Site
    times: dict[str, list[float]] = field(default_factory=dict)

    def ask(self, way: str, number: int) -> None:
        """Ask some more."""
        if way == _BARE:
            # One request after the other over one connection, as a client has it.
            script = [OpenHands(self.site).command("true") for _ in range(number)]
            outcome = drive_through(self.site.address, [script], _LIMIT)
            if outcome.right < number:
                raise LoadError(f"wrong or missing answers: {outcome.example or outcome.unanswered}")
            taken = outcome.latencies
        else:
            taken = self.client.commands(number, way)
        self.times.setdefault(way, []).extend(taken)


def measure_overhead(
    clients: Sequence[Client], boxes: Mapping[str, Begun], plan: BoxesPlan, tally: Tally
) -> BoxFindings:
    """Run `true` in a box of each, in turns and rounds.

    Raises:
        LoadError: the box of this project does not answer.
    """
    asked = [_Asked(client, _site(boxes[client.name])) for client in clients if client.name in boxes]
    for _ in range(plan.rounds):
        for one in asked:
            number = plan.commands if one.client.name == Glovebox.name else plan.slow_commands
            for way in _WAYS[one.client.name]:
                with tally.excusing(one.client.name, PROCESS):
                    one.ask(way, max(1, number // plan.rounds))
    return _findings({one.client.name: one.times for one in asked}, clients, tally)


def _site(box: Begun) -> Site:
    parts = urlsplit(box.url)
    return Site((parts.hostname or "", parts.port or 0), box.key, box.workspace)


def _findings(
    times: Mapping[str, Mapping[str, Sequence[float]]], clients: Sequence[Client], tally: Tally
) -> BoxFindings:
    findings = BoxFindings()
    for way, label in _LABELS.items():
        row = Row(f"boxes: `true` in a process of this machine {label}; p50 / p95", "ms")
        for client in clients:
            taken = times.get(client.name, {}).get(way, ())
            reason = tally.reason(client.name, PROCESS) or NOT_OFFERED
            row.cells[client.name] = _both(taken) if taken else Cell(reason=reason)
        findings.rows.append(row)
    added = Row("boxes: what the client adds to bare HTTP, p50", "ms")
    for client in clients:
        added.cells[client.name] = _added(times.get(client.name, {}), tally.reason(client.name, PROCESS))
    findings.rows.append(added)
    ours = added.cells[Glovebox.name].values
    findings.aims.append(
        below("what the client adds to bare HTTP, p50", ours[0] if ours else None, _ADDED, "ms")
    )
    tally.say("boxes, `true`: " + ", ".join(_shown(client.name, times) for client in clients))
    return findings


def _both(taken: Sequence[float]) -> Cell:
    return Cell((quantile(taken, 0.5), quantile(taken, 0.95)), samples=len(taken))


def _added(times: Mapping[str, Sequence[float]], reason: str) -> Cell:
    """Of the way that a client is meant to be used first."""
    way = next((way for way in (ASYNC, SYNC) if way in times), None)
    if way is None or _BARE not in times:
        return Cell(reason=reason or NOT_OFFERED)
    added = quantile(times[way], 0.5) - quantile(times[_BARE], 0.5)
    if added <= 0:
        return Cell(reason="lost in the noise")
    return Cell((added,), samples=len(times[way]))


def _shown(name: str, times: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    parts = [f"{way} {quantile(taken, 0.5):.2f} ms" for way, taken in times.get(name, {}).items()]
    return f"{name} {', '.join(parts) or 'n/a'}"
