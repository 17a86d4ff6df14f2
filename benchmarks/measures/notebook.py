"""IPython cells: start with a kernel, latency, lost output, time limits, streams, and memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from time import perf_counter

from benchmarks.connection import Connection
from benchmarks.harness import OWN, REFERENCE, Group, Measure, Stage, choose
from benchmarks.load import Outcome, Request, drive
from benchmarks.peers.openhands import ALL_PLUGINS, Glovebox, fresh
from benchmarks.peers.server import Peer, Server
from benchmarks.processes import Failed, Unavailable, pss

#: Kinds of cells: from a number to the code and its output. No two cells in a row show the same, so that the
#: answer to the cell before is a wrong answer.
KINDS: Mapping[str, Callable[[int], tuple[str, str]]] = {
    "print": lambda n: (f"print({n})", f"{n}"),
    "expression": lambda n: (f"{n} * 10 + 1", f"{n * 10 + 1}"),
    "lines": lambda n: (
        f"for i in range(100): print({n}, i)",
        "\n".join(f"{n} {i}" for i in range(100)),
    ),
}
_START_ROWS = """
s ↓ | start to first `/alive` answer, all plugins ({runs}) | alive:median | ≤ 0.3
s ↓ | start to the answer of a first cell, `print(1)` ({runs}) | cell:median
MB ↓ | memory with a kernel after a first cell, all processes (PSS) | pss:median
"""
_LABELS = {
    "print": ("`print(1)`", " | < 8"),
    "expression": ("an expression", ""),
    "lines": ("100 lines of output", ""),
}
_TIMEOUT_ROW = (
    "ms ↓ | `time.sleep(30)`, timeout 1 s; from then to its answer / to that of the next cell, p50"
    " | late:median next:median"
)
_STREAM_ROW = "ms ↓ | first output of a streamed cell, which then goes on; p50 / p95 | :p50 :p95"
_TIMEOUT = 1.0


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    kinds = [
        Measure(
            kind,
            partial(load, kind, n(1.0, 0.5)),
            f"ms ↓ | {label}; p50 / p95 | :p50 :p95{target}",
            count=n(3, 1),
        )
        for kind, (label, target) in _LABELS.items()
    ]
    return [
        Stage(nullcontext, [Measure("start", start, _START_ROWS, count=n(5, 1), seconds=45)]),
        Stage(
            with_kernel,
            [
                *kinds,
                Measure("timeout", overshoot, _TIMEOUT_ROW, count=n(5, 1)),
                Measure("stream", first_output, _STREAM_ROW, count=n(30, 5), only=(OWN,)),
            ],
        ),
    ]


@contextmanager
def with_kernel(peer: Peer) -> Iterator[Server]:
    if not peer.has_cells:
        raise Unavailable
    with fresh(peer, *ALL_PLUGINS) as server:
        first_cell(server)
        yield server


def first_cell(server: Server) -> None:
    server.ask(server.api.cell("print(1)", "1"), tries=3)


def start(peer: Peer, turn: int) -> dict[str, float]:
    if not peer.has_cells:
        raise Unavailable
    with (Glovebox(*ALL_PLUGINS) if peer.name == OWN else peer).start() as server:
        alive = server.wait_alive()
        first_cell(server)
        cell = perf_counter() - server.started
        time.sleep(2.0)
        return {"alive": alive, "cell": cell, "pss": pss(server.processes())}


def cells(server: Server, kinds: Sequence[str], count: int) -> list[Request]:
    return [server.api.cell(*KINDS[kinds[n % len(kinds)]](n)) for n in range(count)]


def load(kind: str, seconds: float, server: Server, turn: int) -> Outcome:
    return drive(server.site.address, [cells(server, [kind], 4)], seconds, seconds + 60)


def overshoot(server: Server, number: int) -> dict[str, float]:
    """Milliseconds from the time limit of a cell to its answer, and to the answer of the next cell.

    The first alone would reward an answer that leaves the kernel busy. Failed: the answer does not report the
    time limit, or variables are lost after it.
    """
    server.ask(server.api.cell(f"kept = {number}; print(kept)", f"{number}"), tries=3)
    text = f"[Execution timed out ({_TIMEOUT} seconds).]"
    limit = perf_counter() + _TIMEOUT
    server.ask(server.api.cell("import time; time.sleep(30)", text, _TIMEOUT))
    late = perf_counter() - limit
    server.ask(server.api.cell("print(kept)", f"{number}"), tries=3)
    return {"late": 1000 * late, "next": 1000 * (perf_counter() - limit)}


def first_output(server: Server, number: int) -> float:
    """Milliseconds until the first output of a streamed cell arrives, while the cell goes on."""
    code = f'import time; print("first {number}", flush=True); time.sleep(0.1); print("last {number}")'
    action = {"action": "run_ipython", "args": {"code": code, "include_extra": False}, "timeout": 60}
    raw = server.site.post("/execute_action_stream", {"action": action})
    pieces, took = list[str](), 0.0
    with Connection(server.site.address) as connection:
        began = perf_counter()
        for name, data in connection.stream(raw):
            if name == "output":
                took = took or 1000 * (perf_counter() - began)
                pieces.append(json.loads(data)["text"])
            elif name in ("observation", "error"):
                pieces.append(json.loads(data).get("content", ""))
                break
    if pieces != (right := [f"first {number}\n", f"last {number}\n", f"first {number}\nlast {number}"]):
        raise Failed(f"streamed {pieces!r} instead of {right!r}")
    return took


GROUP = Group("notebook", (OWN, REFERENCE), stages)
