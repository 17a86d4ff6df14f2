"""IPython cells: start with a kernel, memory, latency."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from time import perf_counter

from benchmarks.harness import OWN, REFERENCE, Group, Measure, Stage, choose
from benchmarks.load import Outcome, drive
from benchmarks.peers.openhands import ALL_PLUGINS, Glovebox, fresh
from benchmarks.peers.server import Peer, Server
from benchmarks.processes import pss

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
_ROWS = {
    "print": "ms ↓ | `print(1)`; p50 / p95 | :p50 :p95 | < 8",
    "expression": "ms ↓ | an expression; p50 / p95 | :p50 :p95",
    "lines": "ms ↓ | 100 lines of output; p50 / p95 | :p50 :p95",
}


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    cells = [Measure(kind, partial(load, kind, n(1.0, 0.5)), row, n(5, 1)) for kind, row in _ROWS.items()]
    starts = [Measure("start", start, _START_ROWS, count=n(5, 1), seconds=45)]
    return [Stage(nullcontext, starts), Stage(with_kernel, cells)]


@contextmanager
def with_kernel(peer: Peer) -> Iterator[Server]:
    with fresh(peer, *ALL_PLUGINS) as server:
        first_cell(server)
        yield server


def first_cell(server: Server) -> None:
    server.ask(server.api.cell("print(1)", "1"), tries=3)


def start(peer: Peer, turn: int) -> dict[str, float]:
    with (Glovebox(*ALL_PLUGINS) if peer.name == OWN else peer).start() as server:
        alive = server.wait_alive()
        first_cell(server)
        cell = perf_counter() - server.started
        time.sleep(2.0)
        return {"alive": alive, "cell": cell, "pss": pss(server.processes())}


def load(kind: str, seconds: float, server: Server, turn: int) -> Outcome:
    script = [server.api.cell(*KINDS[kind](number)) for number in range(4)]
    return drive(server.site.address, [script], seconds, seconds + 60)


GROUP = Group("notebook", (OWN, REFERENCE), stages)
