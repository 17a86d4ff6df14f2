"""Many sessions: what opening one takes, what all at once take, and what they weigh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.competitors import Say, Unavailable
from benchmarks.load import LoadError, Outcome, Request, drive, exchange, quantile
from benchmarks.plan import TerminalPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.box import Box, fresh_box
from benchmarks.terminal.findings import Findings, below

#: One command per session and so many seconds: shells that are used, but not all the time.
_PACE = 0.25


@dataclass
class _Crowd:
    """What one server showed."""

    opening: list[float] = field(default_factory=list)
    #: The same, with a first command.
    ready: list[float] = field(default_factory=list)
    at_once: Outcome = field(default_factory=Outcome)
    paced: Outcome = field(default_factory=Outcome)


def measure_crowd(peers: Sequence[Target], plan: TerminalPlan, say: Say) -> Findings:
    """Open sessions one after the other, then use them all together."""
    crowds: dict[str, _Crowd] = {}
    reasons: dict[str, str] = {}
    with fresh_box() as own:
        memory = _HolderMemory(own)
        for target in (own.target, *peers):
            try:
                crowds[target.name] = _use(target, plan, memory if target is own.target else None)
            except (Unavailable, LoadError) as problem:
                reasons[target.name] = str(problem)
                say(f"terminal, {plan.sessions} sessions: {target.name} n/a: {problem}")
                continue
            say(f"terminal, {plan.sessions} sessions: {target.name} {_summary(crowds[target.name])}")
    rows = _rows(crowds, reasons, plan)
    rows += memory.rows(plan)
    return Findings(rows, _aims(crowds.get(own.target.name), memory, plan))


class _HolderMemory:
    """The holder's memory at three moments."""

    def __init__(self, own: Box) -> None:
        self._own = own
        self.looks = [own.holder_memory()]

    def look(self) -> None:
        """Look again."""
        self.looks.append(self._own.holder_memory())

    def rows(self, plan: TerminalPlan) -> list[Row]:
        """What was seen."""
        label = f"terminal: the holder; fresh / after a command / with {plan.sessions} sessions more"
        return [
            Row(f"{label} ({kind})", "MB", {self._own.target.name: Cell(values, samples=1)})
            for kind, values in zip(("PSS", "RSS"), zip(*self.looks, strict=True), strict=True)
        ]


def _use(target: Target, plan: TerminalPlan, memory: _HolderMemory | None) -> _Crowd:
    crowd = _Crowd()
    _ask(target, target.dialect.echo("first"))
    if memory:
        memory.look()
    names = [f"crowd{number}" for number in range(plan.sessions)]
    for name in names:
        began = perf_counter()
        _ask(target, target.dialect.session(name))
        crowd.opening.append(1000 * (perf_counter() - began))
        _ask(target, target.dialect.echo(f"in {name}", name))
        crowd.ready.append(1000 * (perf_counter() - began))
    if memory:
        memory.look()
    scripts = [[target.dialect.echo(f"{name}.{n}", name) for n in range(4)] for name in names]
    limit = plan.crowd_seconds + 60
    crowd.at_once = drive(target.site.address, scripts, plan.crowd_seconds, limit)
    crowd.paced = drive(target.site.address, scripts, plan.crowd_seconds, limit, pace=_PACE)
    return crowd


def _ask(target: Target, request: Request) -> None:
    try:
        status, body = exchange(target.site.address, request.raw)
    except OSError as error:
        raise LoadError(f"no answer: {error}") from error
    if status == 404:
        raise Unavailable("not offered")
    if not request.accepts(status, body):
        raise LoadError(f"wrong answer: HTTP {status} {body[:200]!r}")


def _rows(crowds: dict[str, _Crowd], reasons: dict[str, str], plan: TerminalPlan) -> list[Row]:
    count = plan.sessions
    opening = Row("terminal: a new session; opened / with its first command, p50", "ms")
    at_once = Row(f"terminal: {count} sessions, commands without pause; p50 / p95", "ms")
    rate = Row(f"terminal: {count} sessions, commands without pause", "req/s", better="higher")
    paced = Row(f"terminal: {count} sessions, 4 commands per second each; p50 / p95", "ms")
    wrong = Row(f"terminal: {count} sessions; wrong or missing answers", "", better="")
    rows = [opening, at_once, rate, paced, wrong]
    for name, crowd in crowds.items():
        medians = (quantile(crowd.opening, 0.5), quantile(crowd.ready, 0.5))
        opening.cells[name] = Cell(medians, samples=len(crowd.opening))
        at_once.cells[name] = _spread(crowd.at_once)
        rate.cells[name] = Cell((crowd.at_once.per_second,), samples=crowd.at_once.right)
        paced.cells[name] = _spread(crowd.paced)
        asked = crowd.at_once.asked + crowd.paced.asked
        right = crowd.at_once.right + crowd.paced.right
        wrong.cells[name] = Cell((asked - right,), samples=asked, out_of=asked)
    for row in rows:
        row.cells |= {name: Cell(reason=reason) for name, reason in reasons.items()}
    return rows


def _spread(outcome: Outcome) -> Cell:
    if not outcome.right:
        return Cell(reason="no right answer")
    both = quantile(outcome.latencies, 0.5), quantile(outcome.latencies, 0.95)
    return Cell(both, samples=outcome.right)


def _aims(ours: _Crowd | None, memory: _HolderMemory, plan: TerminalPlan) -> list[Aim]:
    count = plan.sessions
    at_once = quantile(ours.at_once.latencies, 0.95) if ours and ours.at_once.right else None
    paced = quantile(ours.paced.latencies, 0.95) if ours and ours.paced.right else None
    opened = quantile(ours.opening, 0.5) if ours else None
    share, resident = (max(values) for values in zip(*memory.looks, strict=True))
    return [
        below(f"{count} sessions, commands without pause, p95", at_once, 30, "ms"),
        below(f"{count} sessions, 4 commands per second each, p95", paced, 30, "ms"),
        below("a new session, p50", opened, 50, "ms"),
        below(f"memory of the holder with up to {count + 1} sessions, PSS", share, 10, "MB"),
        below(f"memory of the holder with up to {count + 1} sessions, RSS", resident, 10, "MB"),
    ]


def _summary(crowd: _Crowd) -> str:
    return (
        f"opened in {quantile(crowd.opening, 0.5):.1f} ms, {crowd.at_once.per_second:.0f} commands/s, "
        f"{crowd.at_once.asked + crowd.paced.asked - crowd.at_once.right - crowd.paced.right} wrong"
    )
