"""How soon the first thing a cell prints is with the client, while the cell goes on."""

from __future__ import annotations

import json
import socket
from time import perf_counter

from benchmarks.competitors import Say
from benchmarks.dialects import http
from benchmarks.load import LoadError, quantile
from benchmarks.openhands import OpenHands
from benchmarks.plan import NotebookPlan
from benchmarks.processes import in_child
from benchmarks.report import Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.findings import Findings
from benchmarks.terminal.stream import Events

_LIMIT = 60.0
#: Seconds a cell works on after its first output.
_WORK = 0.1


def measure_first_output(own: Target, plan: NotebookPlan, say: Say) -> Findings:
    """From sending a cell to the first event with its output.

    Raises:
        LoadError: what was printed did not come at once, or not all of it came.
    """
    times = [
        in_child(lambda turn=turn: first_output(own, turn), LoadError, _LIMIT + 10)  # type: ignore[misc]
        for turn in range(plan.streamed_cells)
    ]
    cell = Cell((quantile(times, 0.5), quantile(times, 0.95)), samples=len(times))
    say(f"notebook, first output of a streamed cell: {cell.values} ms")
    label = "notebook: first output of a streamed cell, which then goes on; p50 / p95"
    return Findings([Row(label, "ms", {own.name: cell})])


def first_output(target: Target, number: int) -> float:
    """Milliseconds until the first output of one cell has arrived; the rest of it is checked, too."""
    code = f'import time; print("first {number}", flush=True); time.sleep({_WORK}); print("last {number}")'
    action = {"action": "run_ipython", "args": {"code": code, "include_extra": False}, "timeout": _LIMIT}
    raw = http(
        target.site,
        "POST",
        "/execute_action_stream",
        OpenHands.key_header,
        json.dumps({"action": action}).encode(),
    )
    try:
        took, pieces, answer = _read(target, raw)
    except OSError as error:
        raise LoadError(f"the stream broke: {error}") from error
    expected = f"first {number}\nlast {number}"
    if not pieces or pieces[0].strip() != f"first {number}":
        raise LoadError(f"the first output did not come while the cell ran: {pieces!r}")
    if "".join(pieces).rstrip() != expected or answer != expected:
        raise LoadError(f"streamed {pieces!r}, answered {answer!r}")
    return took


def _read(target: Target, raw: bytes) -> tuple[float, list[str], str]:
    """Milliseconds to the first output, all output, and the content of the observation."""
    events, pieces, took = Events(), list[str](), 0.0
    with socket.create_connection(target.site.address, timeout=_LIMIT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = perf_counter()
        connection.sendall(raw)
        while data := connection.recv(65536):
            now = perf_counter()
            for name, told in events.feed(data):
                if name == "output":
                    took = took or 1000 * (now - began)
                    pieces.append(json.loads(told)["text"])
                elif name == "observation":
                    return took, pieces, json.loads(told)["content"]
                elif name == "error":
                    raise LoadError(f"an error instead of an observation: {told[:200]!r}")
    raise LoadError("the stream ended without an observation")
