"""MCP: how soon the tool of a posted server is there, and what a call of it costs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.connection import Connection, Site, exchange, parsed
from benchmarks.harness import OWN, REFERENCE, Group, Measure, Stage, choose
from benchmarks.load import Outcome
from benchmarks.peers import mcp_stdio
from benchmarks.peers.openhands import fresh
from benchmarks.peers.server import Peer, Server
from benchmarks.processes import Failed, Wrong, in_child, pss

_FIRST_ROWS = """
s ↓ | first list posted to tools/list answered ({runs}) | ready:median
s ↓ | the same and the start to first `/alive` answer together ({runs}) | total:median
MB ↓ | memory before any list / after a first call, all processes (PSS) | before:median after:median
MB ↓ | what the first list and a call add to the memory (PSS) | added:median
"""
_WHOLE_ROW = "ms ↓ | connect, initialize, tools/call, disconnect; p50 / p95 | :p50 :p95"
_CALL_ROW = "ms ↓ | a call in a session that stays open; p50 / p95 | :p50 :p95"
TOOL = "echo"
_CLIENT = {"name": "benchmark", "version": "1"}
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    first = Measure("first", partial(first_list, n(2.0, 1.0)), _FIRST_ROWS, n(5, 1), seconds=45)
    repeated = [
        Measure("operation", partial(operations, n(40, 10)), _WHOLE_ROW, n(5, 2)),
        Measure("call", partial(calls, n(200, 20)), _CALL_ROW, n(5, 2)),
    ]
    return [Stage(nullcontext, [first]), Stage(with_tool, repeated)]


class Session:
    """A client over server-sent events: one raw connection for answers, another for requests."""

    def __init__(self, site: Site) -> None:
        self.site, self.number = site, 0
        self._answers, self._requests = Connection(site.address), Connection(site.address)
        try:
            self._events = self._answers.stream(site.head("GET", "/mcp/sse", more=_lines(site)))
            name, path = next(self._events, ("nothing", b""))
            if name != "endpoint":
                raise Failed(f"{name} {path[:200]!r} instead of where to post")
            self._path = path.decode()
            self.request("initialize", _HELLO)
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except Failed:
            self.close()
            raise

    def close(self) -> None:
        self._answers.close()
        self._requests.close()

    def _send(self, message: object) -> None:
        status, body = self._requests.ask(self.site.post(self._path, message, _lines(self.site)))
        if status != 202:
            raise Failed(f"a message was not accepted: HTTP {status} {body[:200]!r}")

    def request(self, method: str, params: object) -> Any:
        self.number += 1
        self._send({"jsonrpc": "2.0", "method": method, "params": params, "id": self.number})
        for _, data in self._events:
            match parsed(data):
                case {"id": self.number, "result": result}:
                    return result
                case {"id": self.number, **rest}:
                    raise Failed(f"an error instead of a result: {rest!r:.200}")
        raise Failed("the stream of events ended")

    def call(self, text: str, tool: str = TOOL) -> None:
        """Only the same text is a right answer."""
        match self.request("tools/call", {"name": tool, "arguments": {"text": text}}):
            case {"content": [{"type": "text", "text": answer}]} if answer == text:
                return
            case other:
                raise Wrong(f"{json.dumps(other)[:200]} instead of {text!r}")


def _lines(site: Site) -> str:
    """Header lines with the key in the other way that MCP asks for."""
    return f"Authorization: Bearer {site.key}\r\nAccept: application/json, text/event-stream\r\n"


@contextmanager
def session_with(site: Site) -> Iterator[Session]:
    session = Session(site)
    try:
        yield session
    finally:
        session.close()


def time_to_tools(site: Site, kind: str = TOOL) -> float:
    """Post a list with one server over standard streams: the seconds until its tool is listed."""
    program = {
        "command": sys.executable,
        "args": ["-I", "-S", str(Path(mcp_stdio.__file__)), kind],
        "env": {},
    }
    began = perf_counter()
    raw = site.post("/update_mcp_server", [{"name": "one", **program}], _lines(site))
    status, body = exchange(site.address, raw)
    if status != 200:
        raise Failed(f"a list of MCP servers was not taken: HTTP {status} {body[:200]!r}")
    with session_with(site) as session:
        tools = session.request("tools/list", {})["tools"]
    if [tool["name"] for tool in tools] != [TOOL]:
        raise Failed(f"other tools: {tools!r:.200}")
    return perf_counter() - began


def first_list(settle: float, peer: Peer, turn: int) -> dict[str, float]:
    with peer.start() as server:
        alive = server.wait_alive()
        time.sleep(settle)
        before = pss(server.processes())
        ready = time_to_tools(server.site)
        with session_with(server.site) as session:
            session.call("first")
            time.sleep(settle)
            after = pss(server.processes())
    return {"ready": ready, "total": alive + ready, "before": before, "after": after, "added": after - before}


@contextmanager
def with_tool(peer: Peer) -> Iterator[Server]:
    with fresh(peer) as server:
        time_to_tools(server.site)
        yield server


def operations(count: int, server: Server, turn: int) -> Outcome:
    """As the contract's client does it for every call."""

    def ask(text: str) -> None:
        with session_with(server.site) as session:
            session.call(text)

    return in_child(partial(_one_by_one, ask, turn, count), 180)


def calls(count: int, server: Server, turn: int) -> Outcome:
    def work() -> Outcome:
        with session_with(server.site) as session:
            return _one_by_one(session.call, turn, count)

    return in_child(work, 180)


def _one_by_one(ask: Callable[[str], object], turn: int, count: int) -> Outcome:
    """Another text each time."""
    outcome = Outcome()
    for number in range(count):
        began = perf_counter()
        try:
            ask(f"turn {turn} {number}")
            outcome.values.append(1000 * (perf_counter() - began))
        except Wrong as problem:
            outcome.add(Outcome(wrong=1, example=str(problem)))
    return outcome


GROUP = Group("mcp", (OWN, REFERENCE), stages)
