"""Latency and throughput of single requests, at several numbers of clients."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.competitors import Say, Unavailable
from benchmarks.dialects import OPERATIONS, NotOffered, fixture
from benchmarks.load import LoadError, Outcome, Request, drive, exchange, quantile
from benchmarks.plan import Plan
from benchmarks.report import Cell, Row
from benchmarks.servers import Target

#: A load generator busier than this is probably what limits the figure.
_CLIENT_LIMIT = 0.85

#: A server that takes longer for one round of all clients is asked once, not in several rounds.
_LONG_ROUND = 1.0

#: As many requests one client should make at least, as long as that does not take too long.
_SAMPLES = 20


def set_up(target: Target) -> None:
    """Open a session if the server needs one, and make the files the measures use.

    Raises:
        Unavailable: that does not work.
    """
    make = target.dialect.command(fixture(target.site.folder))
    answer: tuple[int, bytes] = (0, b"")
    try:
        for request in target.dialect.opening():
            exchange(target.site.address, request.raw)
        for _ in range(3):
            answer = exchange(target.site.address, make.raw)
            if target.dialect.output(answer[1]).endswith("ready"):
                return
    except (OSError, LoadError) as error:
        raise Unavailable(f"no answer: {error}") from error
    raise Unavailable(f"cannot make its files: HTTP {answer[0]} {answer[1][:100]!r}")


def clean_up(target: Target) -> None:
    """Remove what `set_up` made at a server that goes on living."""
    request = target.dialect.command(f"rm -rf {target.site.folder}")
    try:
        exchange(target.site.address, request.raw)
    except (OSError, LoadError):
        return  # it is somebody else's server, and it is gone


@dataclass
class _Contestant:
    """A server that offers the operation, and how long one request takes it."""

    target: Target
    seconds: float


def measure_requests(targets: Sequence[Target], plan: Plan, say: Say) -> list[Row]:
    """Measure every operation at every number of clients, the servers in turns."""
    rows: list[Row] = []
    for name in plan.operations:
        reasons: dict[str, str] = {}
        contestants = []
        for target in targets:
            try:
                contestants.append(_Contestant(target, _probe(target, name)))
            except Unavailable as problem:
                reasons[target.name] = str(problem)
        if not contestants:
            say(f"{name}: nobody offers it: {reasons}")
            cells = {server: Cell(reason=why) for server, why in reasons.items()}
            rows.append(Row(OPERATIONS[name], "", cells, better=""))
            continue
        totals = {contestant.target.name: Outcome() for contestant in contestants}
        for clients in plan.clients:
            outcomes, failures = _load(contestants, name, clients, plan)
            say(_summary(name, clients, outcomes, {**reasons, **failures}))
            rows += _rows(name, clients, outcomes, {**reasons, **failures})
            for server, outcome in outcomes.items():
                totals[server].add(outcome)
        rows.append(_wrong(name, totals, reasons, say))
    return rows


def _probe(target: Target, name: str) -> float:
    """Ask a few times to see whether the server can do this, and return the seconds it takes.

    Raises:
        Unavailable: it cannot.
    """
    try:
        operation = target.dialect.operation(name, 1)
    except NotOffered:
        raise Unavailable("not offered") from None
    best: float | None = None
    problem = ""
    for attempt in range(4):  # the first one may have to start something, and one may fail by chance
        try:
            _send_all(target, operation.prepare)
            began = time.perf_counter()
            status, body = exchange(target.site.address, operation.scripts[0][0].raw)
        except (OSError, LoadError) as error:
            problem = str(error)
            continue
        if operation.scripts[0][0].accepts(status, body):
            took = time.perf_counter() - began
            best = took if best is None else min(best, took)
        else:
            problem = _why(status, body)
        if best is None and attempt == 2:
            break
    if best is None:
        raise Unavailable(problem)
    return best


#: How servers of the OpenHands API say that they do not know an action.
_UNKNOWN = ("is not defined", "has no attribute", "Requirement not found")


def _why(status: int, body: bytes) -> str:
    text = body.decode(errors="replace")
    if status == 404 or (status >= 400 and any(words in text for words in _UNKNOWN)):
        return "not offered"
    return f"wrong answer: HTTP {status} {text[:200]}"


def _send_all(target: Target, requests: Sequence[Request]) -> None:
    for request in requests:
        exchange(target.site.address, request.raw)


def _load(
    contestants: Sequence[_Contestant], name: str, clients: int, plan: Plan
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Load the servers in turns; return what came of it and, for those that failed, why."""
    outcomes: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    for turn in range(plan.rounds):
        for contestant in contestants:
            server = contestant.target.name
            seconds = _share(contestant.seconds, clients, turn, plan)
            if server in failures or seconds is None:
                continue
            try:
                outcome = _round(contestant, name, clients, seconds)
            except LoadError as error:
                failures[server] = str(error)
                outcomes.pop(server, None)
                continue
            outcomes.setdefault(server, Outcome()).add(outcome)
    return outcomes, failures


def _share(latency: float, clients: int, turn: int, plan: Plan) -> float | None:
    """How long to load a server in this turn; None for not at all."""
    if clients == 1:
        wanted = min(_SAMPLES * latency, plan.slow_seconds)
        return max(wanted, plan.seconds) / plan.rounds
    if clients * latency > _LONG_ROUND:
        return plan.seconds if turn == 0 else None
    return plan.seconds / plan.rounds


def _round(contestant: _Contestant, name: str, clients: int, seconds: float) -> Outcome:
    target = contestant.target
    operation = target.dialect.operation(name, clients)
    try:
        _send_all(target, operation.prepare)
    except OSError as error:
        raise LoadError(f"the connection broke: {error}") from error
    limit = min(seconds + 15 + 4 * contestant.seconds * clients, 90)
    return drive(target.site.address, operation.scripts, seconds, limit)


def _rows(name: str, clients: int, outcomes: dict[str, Outcome], reasons: dict[str, str]) -> list[Row]:
    label = f"{OPERATIONS[name]}; {clients} client{'s' if clients > 1 else ''}"
    times = Row(f"{label}, p50 / p95", "ms")
    rate = Row(label, "req/s", better="higher")
    for server, outcome in outcomes.items():
        if not outcome.right:
            times.cells[server] = rate.cells[server] = Cell(reason="no right answer")
            continue
        limited = outcome.client_busy > _CLIENT_LIMIT
        both = (quantile(outcome.latencies, 0.5), quantile(outcome.latencies, 0.95))
        times.cells[server] = Cell(both, samples=outcome.right, client_limited=limited)
        rate.cells[server] = Cell((outcome.per_second,), samples=outcome.right, client_limited=limited)
    for server, reason in reasons.items():
        times.cells[server] = rate.cells[server] = Cell(reason=reason)
    return [times, rate]


def _wrong(name: str, totals: dict[str, Outcome], reasons: dict[str, str], say: Say) -> Row:
    row = Row(f"{OPERATIONS[name]}; wrong or missing answers", "", better="")
    for server, outcome in totals.items():
        bad = outcome.wrong + outcome.unanswered
        row.cells[server] = Cell((bad,), samples=outcome.asked, out_of=outcome.asked)
        if bad:
            say(f"{name}: {server}: {bad} of {outcome.asked} answers wrong or missing. {outcome.example}")
    for server, reason in reasons.items():
        row.cells[server] = Cell(reason=reason)
    return row


def _summary(name: str, clients: int, outcomes: dict[str, Outcome], reasons: dict[str, str]) -> str:
    parts = [
        f"{server} {outcome.per_second:.0f}/s "
        f"(p50 {quantile(outcome.latencies, 0.5):.2f} ms, n {outcome.right})"
        for server, outcome in outcomes.items()
        if outcome.right
    ]
    parts += [f"{server} n/a: {reason}" for server, reason in reasons.items()]
    return f"{name}, {clients} at a time: {', '.join(parts)}"
