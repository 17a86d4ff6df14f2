"""IPython cells: start with a kernel, latency, lost output, time limits, streams, and memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from time import perf_counter

from benchmarks.connection import Connection
from benchmarks.harness import GIVEN, NOT_OFFERED, OWN, REFERENCE, Group, Measure, Results, Sizes, table
from benchmarks.load import Outcome, Request, drive, drive_through
from benchmarks.measures.server import SLOW_START
from benchmarks.peers.openhands import ALL_PLUGINS, Glovebox, fresh_box
from benchmarks.peers.server import Peer, Server, start_all
from benchmarks.processes import Failed, all_cores_busy, in_child, pss
from benchmarks.report import Aim, below, none_wrong, times

SIZES = {
    "starts": (5, 1),
    # Of a server that takes long to start.
    "slow_starts": (2, 1),
    "cell_seconds": (3.0, 0.5),
    # Of each kind, of the other server, which needs many times as long for one.
    "slow_cells": (60, 10),
    "rounds": (3, 1),
    # One after the other, to see whether any is lost: of this box, and of the other server.
    "idle_cells": ((5_000, 600), (300, 40)),
    "busy_cells": ((1_000, 200), (100, 40)),
    "streamed_cells": (30, 5),
    "large_cells": (500, 120),
    "timeouts": (5, 1),
}
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
_ROWS = """
s ↓ | start to first `/alive` answer, no plugins | start.plain:median
s ↓ | start to first `/alive` answer, all plugins ({runs}) | start.alive:median
s ↓ | start to the answer of a first cell, `print(1)` ({runs}) | start.cell:median
MB ↓ | memory with a kernel after a first cell, all processes (PSS) | start.pss:median
ms ↓ | `print(1)`; p50 / p95 | print:p50 print:p95
 | `print(1)`; wrong or missing answers | print:wrong
ms ↓ | an expression; p50 / p95 | expression:p50 expression:p95
 | an expression; wrong or missing answers | expression:wrong
ms ↓ | 100 lines of output; p50 / p95 | lines:p50 lines:p95
 | 100 lines of output; wrong or missing answers | lines:wrong
 | cells whose output was lost or wrong, idle machine | idle:wrong
 | cells whose output was lost or wrong, all cores busy | busy:wrong
ms ↓ | `time.sleep(30)`, timeout 1 s; from then to its answer / to that of the next cell, p50 \
 | timeout.late:median timeout.next:median
ms ↓ | first output of a streamed cell, which then goes on; p50 / p95 | stream:p50 stream:p95 | not offered
MB ↓ | {large}; the server before / after the 100th / after the last (PSS) \
 | large.before:last large.settled:last large.after:last
MB ↓ | {large}; growth of the server from the 100th to the last (PSS) | large.growth:last
"""
_TIMEOUT = 1.0
#: What the server keeps of the newest cells with 1 MB of output is complete after so many.
_SETTLED = 100


def measures(size: Sizes) -> list[Measure]:
    return table(_ROWS, "notebook: ", large=f"{size.large_cells} cells with 1 MB of output")


def run(results: Results, peers: Sequence[Peer]) -> None:
    for peer in peers:
        if not peer.has_cells:
            results.excuse(peer.name, NOT_OFFERED)
    peers = [peer for peer in peers if peer.has_cells]
    measure_starts(results, peers)
    with ExitStack() as stack:
        box = stack.enter_context(fresh_box(*ALL_PLUGINS))
        servers = [box, *start_all(results, [peer for peer in peers if peer.name != OWN], stack)]
        for server in servers:
            with results.excusing(server.name):
                first_cell(server)
        _measure_cells(results, servers)
        count_lost_cells(results, servers)
        for turn, server in results.turns(results.size.timeouts, servers, "timeout"):
            with results.excusing(server.name, "timeout"):
                late, following = overshoot(server, turn)
                results.add_all(server.name, "timeout", late=late, next=following)
        for turn in range(results.size.streamed_cells):
            results.add(OWN, "stream", in_child(partial(first_output, box, turn), 70))
    _measure_large_cells(results)


def first_cell(server: Server) -> None:
    server.ask(server.api.cell("print(1)", "1"), tries=3)


def measure_starts(results: Results, peers: Sequence[Peer]) -> None:
    """This box without plugins and with all of them, and the others that have a kernel, in turns."""
    for peer in peers:
        if peer.name != OWN:
            results.excuse(peer.name, "see --bare-reference", "start.plain")
        if peer.given_url:
            results.excuse(peer.name, GIVEN, "start")
    with_plugins = [Glovebox(*ALL_PLUGINS) if peer.name == OWN else peer for peer in peers]
    for turn, peer in results.turns(results.size.starts, with_plugins, "start"):
        is_slow = (results.figure("start.alive:median", peer.name) or 0) > SLOW_START
        if is_slow and turn >= results.size.slow_starts:
            continue
        with results.excusing(peer.name, "start"):
            if peer.name == OWN:
                with Glovebox().start() as server:
                    results.add(OWN, "start.plain", server.wait_alive())
            with peer.start() as server:
                alive = server.wait_alive()
                first_cell(server)
                cell = perf_counter() - server.started
                time.sleep(2.0)
                results.add_all(peer.name, "start", alive=alive, cell=cell, pss=pss(server.processes()))


def cells(server: Server, kinds: Sequence[str], count: int) -> list[Request]:
    return [server.api.cell(*KINDS[kinds[n % len(kinds)]](n)) for n in range(count)]


def _measure_cells(results: Results, servers: Sequence[Server]) -> None:
    size = results.size
    for kind in KINDS:
        for _, server in results.turns(size.rounds, servers, kind):
            is_own, seconds = server.name == OWN, size.cell_seconds / size.rounds
            script = cells(server, [kind], 4 if is_own else size.slow_cells // size.rounds)
            with results.excusing(server.name, kind):
                outcome = drive(server.site.address, [script], seconds if is_own else None, seconds + 60)
                results.take(server.name, kind, outcome)


def count_lost_cells(results: Results, servers: Sequence[Server]) -> None:
    """Thousands of cells, on a machine with nothing else to do and on one with too much to do."""
    for series, machine in (("idle", nullcontext()), ("busy", all_cores_busy())):
        counts = getattr(results.size, f"{series}_cells")
        with machine:
            for _, server in results.turns(1, servers, series):
                script = cells(server, ["print", "expression"], counts[server.name != OWN])
                with results.excusing(server.name, series):
                    results.take(server.name, series, drive_through(server.site.address, [script], 300))


def overshoot(server: Server, number: int) -> tuple[float, float]:
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
    return 1000 * late, 1000 * (perf_counter() - limit)


def first_output(server: Server, number: int) -> float:
    """Milliseconds until the first output of a streamed cell arrives.

    Failed: what was printed did not come at once, or not all of it came.
    """
    code = f'import time; print("first {number}", flush=True); time.sleep(0.1); print("last {number}")'
    action = {"action": "run_ipython", "args": {"code": code, "include_extra": False}, "timeout": 60}
    raw = server.site.post("/execute_action_stream", {"action": action})
    pieces, took, answer = list[str](), 0.0, None
    with Connection(server.site.address) as connection:
        began = perf_counter()
        for name, data in connection.stream(raw):
            if name == "output":
                took = took or 1000 * (perf_counter() - began)
                pieces.append(json.loads(data)["text"])
            elif name in ("observation", "error"):
                answer = json.loads(data).get("content")
                break
    if answer is None:
        raise Failed("the stream ended without an observation")
    if not pieces or pieces[0].strip() != f"first {number}":
        raise Failed(f"the first output did not come while the cell ran: {pieces!r}")
    if "".join(pieces).rstrip() != answer or answer != f"first {number}\nlast {number}":
        raise Failed(f"streamed {pieces!r}, answered {answer!r}")
    return took


def _measure_large_cells(results: Results) -> None:
    """Memory of the server after hundreds of cells with much output: it must not keep all of it."""
    with fresh_box(*ALL_PLUGINS) as box:
        first_cell(box)
        large = [box.api.cell(f'print("{c}" * 1000000)', c * 1_000_000) for c in "abcd"]
        looks, outcome = [pss([box.server])], Outcome()
        for count in (_SETTLED, results.size.large_cells - _SETTLED):
            script = [large[n % len(large)] for n in range(count)]
            outcome.add(drive_through(box.site.address, [script], 60 + count))
            looks.append(pss([box.server]))
    if outcome.bad:
        raise Failed(f"{outcome.bad} of {outcome.asked} cells with 1 MB of output wrong: {outcome.example}")
    before, settled, after = looks
    growth = after - settled
    results.add_all(OWN, "large", before=before, settled=settled, after=after, growth=growth)


def aims(results: Results) -> list[Aim]:
    figure, size = results.figure, results.size
    plain, alive, cell = (figure(f"start.{name}:median") for name in ("plain", "alive", "cell"))
    added = alive - plain if alive is not None and plain is not None else None
    slow, theirs = figure("start.alive:median", REFERENCE), figure("print:p50", REFERENCE)
    idle, busy = f"{size.idle_cells[0]} cells, idle machine", f"{size.busy_cells[0]} cells, all cores busy"
    large = f"{size.large_cells} cells with 1 MB of output: growth of the server after the {_SETTLED}th"
    return [
        below("start to `/alive` with all plugins", alive, 0.3, "s"),
        below("start to `/alive`: what all plugins add to it", added, 0.03, "s"),
        times("start to the answer of a first cell: the reference's start to `/alive` is", slow, cell, 3),
        below("`print(1)` over HTTP, p50", figure("print:p50"), 8, "ms"),
        times("`print(1)` over HTTP, p50: the reference's is", theirs, figure("print:p50"), 6),
        none_wrong(f"{idle}: none lost or wrong", results.wrong("idle")),
        none_wrong(f"{busy}: none lost or wrong", results.wrong("busy")),
        below(large, figure("large.growth:last"), 10, "MB"),
    ]


GROUP = Group(SIZES, measures, run, aims)
