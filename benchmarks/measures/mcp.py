"""MCP: how soon the tools of posted servers are there, and what a call costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from time import perf_counter

from benchmarks.connection import Site
from benchmarks.harness import OWN, REFERENCE, Group, Measure, Stage, choose
from benchmarks.load import Outcome
from benchmarks.peers import mcp
from benchmarks.peers.mcp import TOOL, EventSession, opened
from benchmarks.peers.openhands import fresh
from benchmarks.peers.server import Peer, Server
from benchmarks.processes import Failed, in_child, pss

_FIRST_ROWS = """
s ↓ | first list posted to tools/list answered ({runs}) | ready:median
s ↓ | the same and the start to first `/alive` answer together ({runs}) | total:median
MB ↓ | memory before any list / after a first call, all processes (PSS) | before:median after:median
MB ↓ | what the first list and a call add to the memory (PSS) | added:median
"""
_ONE = {"one": "echo"}
#: From a site, a word for this round and a number: so many conversations.
Work = Callable[[Site, str, int], Outcome]


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    first = Measure("first", partial(first_list, n(2.0, 1.0)), _FIRST_ROWS, n(5, 1), seconds=45)
    further_row = "s ↓ | a further list, with one new server, posted to tools/list answered | :median"
    works: dict[str, tuple[str, Work, int]] = {
        "list": ("connect, initialize, tools/list, disconnect", listings, n(40, 10)),
        "operation": ("connect, initialize, tools/call, disconnect", operations, n(40, 10)),
        "call": ("a call in a session that stays open", calls, n(200, 20)),
    }
    repeated = [
        Measure(name, partial(converse, work, count), f"ms ↓ | {label}; p50 / p95 | :p50 :p95", n(5, 2))
        for name, (label, work, count) in works.items()
    ]
    # Last: a server that takes no second list may be the worse for it.
    further = Measure("further", further_list, further_row, n(5, 2))
    return [Stage(nullcontext, [first]), Stage(with_tool, [*repeated, further])]


def listings(site: Site, word: str, count: int) -> Outcome:

    def listed(text: str) -> str:
        with opened(EventSession(site)) as session:
            return text if session.tool_names() == [TOOL] else "other tools"

    return _one_by_one(listed, word, count)


def operations(site: Site, word: str, count: int) -> Outcome:
    """Connect, initialize, call, disconnect: as the contract's client does it for every call."""

    def called(text: str) -> str:
        with opened(EventSession(site)) as session:
            return session.call(TOOL, text)

    return _one_by_one(called, word, count)


def calls(site: Site, word: str, count: int) -> Outcome:
    with opened(EventSession(site)) as session:
        return _one_by_one(lambda text: session.call(TOOL, text), word, count)


def _one_by_one(ask: Callable[[str], str], word: str, count: int) -> Outcome:
    """Send another text each time; only the same text is a right answer."""
    outcome = Outcome()
    for turn in range(count):
        text, began = f"{word} {turn}", perf_counter()
        try:
            answer = ask(text)
        except Failed as problem:
            outcome.add(Outcome(unanswered=1, example=str(problem)))
            break  # the next would fail in the same way, or take as long
        took, example = 1000 * (perf_counter() - began), f"{answer[:200]!r} instead of {text!r}"
        outcome.add(Outcome([took]) if answer == text else Outcome(wrong=1, example=example))
    return outcome


def converse(work: Work, count: int, server: Server, turn: int) -> Outcome:
    return in_child(partial(work, server.site, f"turn {turn}", count), 180)


def first_list(settle: float, peer: Peer, turn: int) -> dict[str, float]:
    with peer.start() as server:
        alive = server.wait_alive()
        time.sleep(settle)
        before = pss(server.processes())
        ready = mcp.time_to_tools(server.site, _ONE)
        with opened(EventSession(server.site)) as session:
            answer = session.call(TOOL, "first")
            time.sleep(settle)
            after = pss(server.processes())
    if answer != "first":
        raise Failed(f"a first call was answered {answer[:200]!r}")
    return {"ready": ready, "total": alive + ready, "before": before, "after": after, "added": after - before}


@contextmanager
def with_tool(peer: Peer) -> Iterator[Server]:
    with fresh(peer) as server:
        mcp.time_to_tools(server.site, _ONE)
        yield server


def further_list(server: Server, turn: int) -> float:
    return mcp.time_to_tools(server.site, {**_ONE, f"more{turn}": "echo"})


GROUP = Group("mcp", (OWN, REFERENCE), stages)
