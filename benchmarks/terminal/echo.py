"""How long a command takes that takes no time, and what a bash of its own would take."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from time import perf_counter

from benchmarks.competitors import Say
from benchmarks.load import LoadError, Outcome, drive, drive_through, quantile
from benchmarks.plan import TerminalPlan
from benchmarks.processes import in_child
from benchmarks.report import Aim, Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.findings import Findings, below, of

_FORKS = 200


def measure_echo(own: Target, peers: Sequence[Target], plan: TerminalPlan, say: Say) -> Findings:
    """`echo` one after the other over one connection, the servers in turns."""
    outcomes: dict[str, Outcome] = {}
    reasons: dict[str, str] = {}
    forks: list[tuple[float, float]] = []
    for _ in range(plan.echo_rounds):
        forks.append(in_child(_fork_bash, LoadError, 60))
        for target in (own, *peers):
            if target.name in reasons:
                continue
            try:
                if target is own:
                    outcome = echo(target, plan.echo_seconds / plan.echo_rounds)
                else:
                    outcome = _echo_some(target, plan.slow_echoes // plan.echo_rounds)
            except LoadError as error:
                reasons[target.name] = str(error)
                continue
            outcomes.setdefault(target.name, Outcome()).add(outcome)
    row = Row("terminal: `echo`; p50 / mean / p95 / p99", "ms")
    wrong = Row("terminal: `echo`; wrong or missing answers", "", better="")
    for name, outcome in outcomes.items():
        row.cells[name] = spread(outcome)
        bad = outcome.asked - outcome.right
        wrong.cells[name] = Cell((bad,), samples=outcome.asked, out_of=outcome.asked)
        say(f"terminal, echo: {name} {row.cells[name].values} ms, n {outcome.right}")
    for name, reason in reasons.items():
        row.cells[name] = wrong.cells[name] = Cell(reason=reason)
    spawned, ran = (statistics.median(values) for values in zip(*forks, strict=True))
    fork = Row(
        "terminal: `bash -c true` without any server; posix_spawn / subprocess.run, p50", "ms", better=""
    )
    fork.cells[own.name] = Cell((spawned, ran), samples=_FORKS * plan.echo_rounds)
    return Findings([row, wrong, fork], _aims(row, own.name, min(spawned, ran)))


def echo(target: Target, seconds: float) -> Outcome:
    """One client, one connection, one shell.

    Raises:
        LoadError: there is no answer.
    """
    # Different words each time: the answer to the command before is a wrong answer.
    script = [target.dialect.echo(f"hi{number}") for number in range(4)]
    return drive(target.site.address, [script], seconds, seconds + 60)


def _echo_some(target: Target, count: int) -> Outcome:
    script = [target.dialect.echo(f"hi{number}") for number in range(count)]
    return drive_through(target.site.address, [script], 60)


def spread(outcome: Outcome) -> Cell:
    """p50, mean, p95 and p99 of what was answered."""
    if not outcome.right:
        return Cell(reason="no right answer")
    values = outcome.latencies
    p50, p95, p99 = (quantile(values, share) for share in (0.5, 0.95, 0.99))
    return Cell((p50, statistics.fmean(values), p95, p99), samples=outcome.right)


def _aims(row: Row, own: str, fork: float) -> list[Aim]:
    ours = row.cells.get(own, Cell()).values
    theirs = row.cells.get("reference", Cell()).values
    p50, mean = ours[:2] if ours else (None, None)
    their_p50, their_mean = theirs[:2] if theirs else (None, None)
    return [
        below("`echo` over HTTP, p50", p50, 2.0, "ms"),
        of("`echo` over HTTP, p50: the reference's is", their_p50, p50, 100),
        of("`echo` over HTTP, mean: the reference's is", their_mean, mean, 200),
        below("`echo` over HTTP, p50, against a fork of `bash -c true`:", p50, fork, "ms"),
    ]


def _fork_bash() -> tuple[float, float]:
    """Milliseconds (medians) of a bash that does nothing, started directly and in Python's usual way."""
    bash = shutil.which("bash") or "/bin/bash"
    spawned, ran = [], []
    for _ in range(_FORKS):  # in turns, so that both meet the same machine
        began = perf_counter()
        os.waitpid(os.posix_spawn(bash, ["bash", "-c", "true"], os.environ), 0)
        between = perf_counter()
        subprocess.run([bash, "-c", "true"], check=True)
        spawned.append(1000 * (between - began))
        ran.append(1000 * (perf_counter() - between))
    return statistics.median(spawned), statistics.median(ran)
