"""MCP: how soon the tools of posted servers are there, and what a call costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from time import perf_counter

from benchmarks.connection import Connection, Site, parsed
from benchmarks.harness import GIVEN, NOT_OFFERED, OWN, Group, Measure, Results, Sizes, table
from benchmarks.load import Outcome
from benchmarks.peers import mcp
from benchmarks.peers.mcp import TOOL, EventSession, HttpSession, Session, opened
from benchmarks.peers.openhands import Box
from benchmarks.peers.server import Peer, Server
from benchmarks.processes import Failed, in_child, pss
from benchmarks.report import Aim, below, none_wrong

SIZES = {
    "starts": (5, 1),
    # Of a server that takes long to start.
    "slow_starts": (2, 1),
    # Seconds before memory is measured, in which background work ends.
    "settle": (2.0, 1.0),
    "rounds": (5, 2),
    # In each round: whole operations, calls in a session that stays open, and many calls at once.
    "operations": (40, 10),
    "calls": (200, 20),
    "crowds": (5, 2),
    # Seconds to wait for a list of tools while servers hang.
    "patience": (30.0, 2.0),
}
_ROWS = """
s ↓ | first list posted to tools/list answered ({runs}) | first.ready:median
s ↓ | the same and the start to first `/alive` answer together ({runs}) | first.total:median
s ↓ | a further list, with one new server, posted to tools/list answered | further:median
MB ↓ | memory before any list / after a first call, all processes (PSS) \
 | first.before:median first.after:median
MB ↓ | what the first list and a call add to the memory (PSS) | first.added:median
ms ↓ | connect, initialize, tools/list, disconnect; p50 / p95 | list:p50 list:p95
ms ↓ | connect, initialize, tools/call, disconnect; p50 / p95 | operation:p50 operation:p95
ms ↓ | a call in a session that stays open; p50 / p95 | call:p50 call:p95
calls/s ↑ | 32 calls at once in one session | crowd:rate
ms ↓ | connect, initialize, tools/call, disconnect over streamable HTTP; p50 / p95 \
 | http_operation:p50 http_operation:p95 | not offered
ms ↓ | a call in a session that stays open, streamable HTTP; p50 / p95 \
 | http_call:p50 http_call:p95 | not offered
ms ↓ | a call by `call_tool_mcp` of `/execute_action`; p50 / p95 | action:p50 action:p95 | not offered
ms ↓ | a call in a session that stays open, {hanging}; p50 / p95 \
 | hanging_call:p50 hanging_call:p95 | not asked
ms ↓ | connect, initialize, tools/call, disconnect, {hanging}; p50 / p95 \
 | hanging_operation:p50 hanging_operation:p95 | not asked
s ↓ | tools/list {hanging} | hanging_list:last | not asked
"""
#: Calls of one client that are under way at the same time.
AT_ONCE = 32
_HANG = "while two other servers of the list hang"
_ONE = {"one": "echo"}
_HANGING = {"good": "echo", "mute": "mute", "stuck": "stuck"}
_GOOD = mcp.public_name("good", _HANGING)

#: From a site, a word for this round and a number: so many conversations.
Work = Callable[[Site, str, int], Outcome]


def listings(site: Site, word: str, count: int) -> Outcome:

    def listed(text: str) -> str:
        with opened(EventSession(site)) as session:
            return text if session.tool_names() == [TOOL] else "other tools"

    return _one_by_one(listed, word, count)


def operations(kind: type[Session], tool: str, site: Site, word: str, count: int) -> Outcome:
    """Connect, initialize, call, disconnect: as the contract's client does it for every call."""

    def called(text: str) -> str:
        with opened(kind(site)) as session:
            return session.call(tool, text)

    return _one_by_one(called, word, count)


def calls(kind: type[Session], tool: str, site: Site, word: str, count: int) -> Outcome:
    with opened(kind(site)) as session:
        return _one_by_one(lambda text: session.call(tool, text), word, count)


def crowds(site: Site, word: str, count: int) -> Outcome:
    """Many calls at once in one session, the next ones when all are answered."""
    outcome = Outcome()
    with opened(EventSession(site)) as session:
        session.connect(AT_ONCE)
        for turn in range(count):
            texts = [f"{word} {turn} {number}" for number in range(AT_ONCE)]
            params = [{"name": TOOL, "arguments": {"text": text}} for text in texts]
            began = perf_counter()
            try:
                answers = session.exchange(session.numbered([("tools/call", one) for one in params]))
            except Failed as problem:
                outcome.add(Outcome(unanswered=AT_ONCE, example=str(problem)))
                break
            outcome.seconds += (took := perf_counter() - began)
            for text, answer in zip(texts, answers, strict=True):
                _judge(outcome, text, mcp.result_text(answer.get("result", answer)), took)
    return outcome


def actions(site: Site, word: str, count: int) -> Outcome:
    """Have the box call the tool, by the action `call_tool_mcp`, over one connection."""

    def called(text: str) -> str:
        action = {"action": "call_tool_mcp", "args": {"name": TOOL, "arguments": {"text": text}}}
        connection.send(site.post("/execute_action", {"action": action}))
        match parsed(connection.body(connection.head())):
            case {"observation": "mcp", "content": str(content)}:
                return mcp.result_text(parsed(content.encode()))
            case other:
                return str(other)

    with Connection(site.address) as connection:
        return _one_by_one(called, word, count)


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
        outcome.seconds += (took := perf_counter() - began)
        _judge(outcome, text, answer, took)
    return outcome


def _judge(outcome: Outcome, text: str, answer: str, took: float) -> None:
    example = f"{answer[:200]!r} instead of {text!r}"
    outcome.add(Outcome([1000 * took]) if answer == text else Outcome(wrong=1, example=example))


#: By series: the work, and the size that says how often in each round. Only the box offers all.
_COMMON: dict[str, tuple[Work, str]] = {
    "list": (listings, "operations"),
    "operation": (partial(operations, EventSession, TOOL), "operations"),
    "call": (partial(calls, EventSession, TOOL), "calls"),
    "crowd": (crowds, "crowds"),
}
_KINDS: dict[str, tuple[Work, str]] = {
    **_COMMON,
    "http_operation": (partial(operations, HttpSession, TOOL), "operations"),
    "http_call": (partial(calls, HttpSession, TOOL), "calls"),
    "action": (actions, "calls"),
}
_HANGING_KINDS: dict[str, tuple[Work, str]] = {
    "hanging_call": (partial(calls, EventSession, _GOOD), "calls"),
    "hanging_operation": (partial(operations, EventSession, _GOOD), "operations"),
}
_ALL = (*_KINDS, *_HANGING_KINDS)


def measures(size: Sizes) -> list[Measure]:
    wrong = " ".join(f"{series}:wrong" for series in _ALL)
    return [*table(_ROWS, "mcp: ", hanging=_HANG), Measure("mcp: wrong or missing answers", "", wrong)]


def run(results: Results, peers: Sequence[Peer]) -> None:
    size = results.size
    for peer in peers:
        if not peer.has_mcp or peer.given_url:
            results.excuse(peer.name, GIVEN if peer.given_url else NOT_OFFERED)
    with ExitStack() as stack:
        servers = measure_first_lists(results, peers, stack)
        for turn in range(size.rounds):
            for series in _KINDS:
                for _, server in results.turns(1, servers):
                    if server.name == OWN or series in _COMMON:
                        with results.excusing(server.name):
                            converse(results, server, series, *_KINDS[series], turn)
        # After the rounds: a server that takes no second list may be the worse for it.
        measure_further_lists(results, servers)
        for server in servers:
            if isinstance(server, Box) and not results.reason(OWN):
                _measure_hanging(results, server)


def converse(results: Results, server: Server, series: str, work: Work, often: str, turn: int = 0) -> None:
    """So many conversations as the sizes say, in a process of their own."""
    count = getattr(results.size, often)
    results.take(server.name, series, in_child(partial(work, server.site, f"{series} {turn}", count), 180))


def measure_first_lists(results: Results, peers: Sequence[Peer], stack: ExitStack) -> list[Server]:
    """Start each several times, in turns; the last ones stay, and have their list."""
    size, servers = results.size, []
    for turn, peer in results.turns(size.starts, peers):
        left = size.starts - turn
        if peer.name != OWN and left > size.slow_starts:
            continue
        with results.excusing(peer.name), ExitStack() as end:
            server = end.enter_context(peer.start())
            _measure_first_list(results, server)
            if left == 1:
                servers.append(server)
                stack.push(end.pop_all())
    return servers


def _measure_first_list(results: Results, server: Server) -> None:
    alive = server.wait_alive()
    time.sleep(results.size.settle)
    before = pss(server.processes())
    ready = mcp.time_to_tools(server.site, _ONE)
    with opened(EventSession(server.site)) as session:
        answer = session.call(TOOL, "first")
        time.sleep(results.size.settle)
        after = pss(server.processes())
    if answer != "first":
        raise Failed(f"a first call was answered {answer[:200]!r}")
    results.add_all(server.name, "first", ready=ready, total=alive + ready)
    results.add_all(server.name, "first", before=before, after=after, added=after - before)


def measure_further_lists(results: Results, servers: Sequence[Server]) -> None:
    for turn, server in results.turns(results.size.rounds, servers, "further"):
        with results.excusing(server.name, "further"):
            took = mcp.time_to_tools(server.site, {**_ONE, f"more{turn}": "echo"})
            results.add(server.name, "further", took)


def _measure_hanging(results: Results, box: Box) -> None:
    """The good server of a list in which one never answers, and another is stuck in a call."""
    mcp.post_servers(box.site, _HANGING)
    give_up = time.monotonic() + 30
    while True:
        states = {one["name"]: one["state"] for one in box.get("/mcp/servers")["servers"]}
        if states.get("good") == states.get("stuck") == "ready":
            break
        if time.monotonic() > give_up:
            raise Failed(f"MCP servers not ready within 30 s: {states}")
        time.sleep(0.01)
    with opened(EventSession(box.site)) as stuck:
        params = {"name": mcp.public_name("stuck", _HANGING), "arguments": {"text": "never answered"}}
        stuck.send(stuck.numbered([("tools/call", params)]))
        for series, (work, often) in _HANGING_KINDS.items():
            converse(results, box, series, work, often)
    with results.excusing(OWN, "hanging_list", optional=True):
        results.add(OWN, "hanging_list", _list_while_hanging(box.site, results.size.patience))


def _list_while_hanging(site: Site, limit: float) -> float:
    began = perf_counter()
    try:
        with opened(EventSession(site, limit)) as session:
            names = session.tool_names()
    except Failed as problem:
        is_late = perf_counter() - began >= limit
        raise Failed(f"not within {limit:.0f} s" if is_late else str(problem)) from problem
    if _GOOD not in names:
        raise Failed(f"only {', '.join(names) or 'none'}")
    return perf_counter() - began


def aims(results: Results) -> list[Aim]:
    alone, beside = results.figure("call:p50"), results.figure("hanging_call:p50")
    ratio = beside / alone if alone and beside else None
    return [
        below(f"a call {_HANG}, p50", ratio, 2, "times one without them"),
        none_wrong("MCP: no answer wrong or missing", results.wrong(*_ALL)),
    ]


GROUP = Group(SIZES, measures, run, aims)
