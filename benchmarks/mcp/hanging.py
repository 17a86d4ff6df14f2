"""Calls of a server while others of its list hang: one never answers, another is stuck in a call."""

from __future__ import annotations

import time
from time import perf_counter

from benchmarks.competitors import Say, Unavailable
from benchmarks.dialects import Site, parsed
from benchmarks.load import LoadError, exchange
from benchmarks.mcp.calls import calls, converse, operations
from benchmarks.mcp.client import EventSession, greet, opened, tools
from benchmarks.mcp.posting import Entry, post, public_name
from benchmarks.mcp.rounds import CALL
from benchmarks.mcp.tally import Tally
from benchmarks.mcp.wire import request
from benchmarks.plan import McpPlan
from benchmarks.report import Aim, Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.findings import Findings, below

_GOOD, _MUTE, _STUCK = Entry("good"), Entry("mute", "mute"), Entry("stuck", "stuck")
_LIST = [_GOOD, _MUTE, _STUCK]
_WHILE = "while two other servers of the list hang"
#: Seconds until those that answer are ready.
_READY = 30.0


def measure_hanging(own: Target, plan: McpPlan, tally: Tally, say: Say) -> Findings:
    """What the good server of such a list is like.

    Raises:
        Unavailable: it never is ready.
        LoadError: calls cannot be made.
    """
    post(own.site, _LIST)
    _wait_ready(own.site)
    good = public_name(_GOOD, _LIST)
    works = {
        f"{CALL}, {_WHILE}": (calls(EventSession, good), plan.calls),
        f"connect, initialize, tools/call, disconnect, {_WHILE}": (
            operations(EventSession, good),
            plan.operations,
        ),
    }
    try:
        with opened(own.site, EventSession) as stuck:
            asked = {"name": public_name(_STUCK, _LIST), "arguments": {"text": "never answered"}}
            stuck.send([("tools/call", asked)])
            for label, (work, count) in works.items():
                tally.take(own.name, label, converse(work, own.site, label, count))
    except OSError as error:
        raise LoadError(f"no answer {_WHILE}: {error}") from error
    rows = [
        Row(f"mcp: {label}; p50 / p95", "ms", {own.name: tally.spread(own.name, label)}) for label in works
    ]
    listed = _listed(own.site, plan.patience)
    say(f"mcp, tools/list {_WHILE}: {listed.reason or listed.values}")
    rows.append(Row(f"mcp: tools/list {_WHILE}", "s", {own.name: listed}))
    return Findings(rows, [_aim(own.name, next(iter(works)), tally)])


def _wait_ready(site: Site) -> None:
    give_up = time.monotonic() + _READY
    asked = request(site, "GET", "/mcp/servers")
    while True:
        try:
            status, body = exchange(site.address, asked)
        except (OSError, LoadError) as error:
            raise Unavailable(f"no answer about MCP servers: {error}") from error
        answer = parsed(body) if status == 200 else None
        if not isinstance(answer, dict):
            raise Unavailable(f"no answer about MCP servers: HTTP {status}")
        if {_GOOD.name, _STUCK.name} <= {one["name"] for one in answer["servers"] if one["state"] == "ready"}:
            return
        if time.monotonic() > give_up:
            raise Unavailable(f"MCP servers not ready within {_READY:.0f} s")
        time.sleep(0.01)


def _listed(site: Site, limit: float) -> Cell:
    """How long a new client waits for the list of tools, or that it waits too long."""
    began = perf_counter()
    try:
        session = EventSession(site, limit)
        try:
            greet(session)
            names = tools(session)
        finally:
            session.close()
    except TimeoutError:
        return Cell(reason=f"not within {limit:.0f} s")
    except (LoadError, OSError) as error:
        return Cell(reason=str(error))
    if public_name(_GOOD, _LIST) not in names:
        return Cell(reason=f"only {', '.join(names) or 'none'}")
    return Cell((perf_counter() - began,), samples=1)


def _aim(name: str, label: str, tally: Tally) -> Aim:
    alone, beside = tally.spread(name, CALL).values, tally.spread(name, label).values
    ratio = beside[0] / alone[0] if alone and beside else None
    return below(f"a call {_WHILE}, p50", ratio, 2, "times one without them")
