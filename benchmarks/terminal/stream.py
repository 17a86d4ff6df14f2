"""How long a line takes from the program that prints it to the client."""

from __future__ import annotations

import json
import shlex
import socket
import statistics
import sys
from collections.abc import Sequence
from time import monotonic_ns

from benchmarks.competitors import Say
from benchmarks.dialects import http
from benchmarks.load import Address, LoadError, exchange, quantile
from benchmarks.openhands import OpenHands
from benchmarks.plan import TerminalPlan
from benchmarks.processes import in_child
from benchmarks.report import Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.box import Box
from benchmarks.terminal.findings import Findings, below

#: Prints numbered lines with the time of their printing, by the clock all processes share.
_SCRIPT = (
    "import time; [(print(n, time.monotonic_ns(), flush=True), time.sleep({pause})) for n in range({lines})]"
)
_PAUSE = 0.004
_LIMIT = 60.0


def measure_stream(own: Box, peers: Sequence[Target], plan: TerminalPlan, say: Say) -> Findings:
    """Lines as they are printed; of a server without a stream, when the command has ended."""
    row = Row("terminal: a printed line until the client has it; first / p50 / p99", "ms")
    command = _command(plan.stream_lines)
    runs = []
    for _ in range(plan.stream_rounds):
        runs.append(in_child(lambda: _streamed(own, command, plan.stream_lines), LoadError, _LIMIT + 10))
    row.cells[own.target.name] = _cell(runs)
    for peer in peers:
        try:
            # Its clock might be another one.
            if peer.running is None:
                raise LoadError("given by its address")
            waited = in_child(lambda at=peer: _awaited(at, command, plan), LoadError, _LIMIT + 10)  # type: ignore[misc]
            row.cells[peer.name] = _cell([waited])
        except LoadError as error:
            row.cells[peer.name] = Cell(reason=str(error))
    for name, cell in row.cells.items():
        say(f"terminal, stream: {name} {cell.reason or cell.values} ms, n {cell.samples}")
    p99 = row.cells[own.target.name].values[2]
    return Findings([row], [below("a printed line until the client has it, p99", p99, 10, "ms")])


def _command(lines: int) -> str:
    script = _SCRIPT.format(pause=_PAUSE, lines=lines)
    return f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(script)}"


def _cell(runs: Sequence[Sequence[float]]) -> Cell:
    every = [latency for run in runs for latency in run]
    first = statistics.median(run[0] for run in runs)
    return Cell((first, quantile(every, 0.5), quantile(every, 0.99)), samples=len(every))


def _awaited(target: Target, command: str, plan: TerminalPlan) -> list[float]:
    """The milliseconds each line had to wait for the answer."""
    try:
        _, body = exchange(target.site.address, target.dialect.command(command).raw, _LIMIT)
    except OSError as error:
        raise LoadError(f"no answer: {error}") from error
    now = monotonic_ns()
    lines = Lines()
    lines.add(target.dialect.output(body) + "\n", now)
    return lines.checked(plan.stream_lines)


class Lines:
    """Puts printed lines together from pieces of text, and compares their times with their arrival."""

    def __init__(self) -> None:
        self._rest = ""
        self._numbers: list[int] = []
        self._latencies: list[float] = []

    def add(self, text: str, now: int) -> None:
        """Take what has arrived by now (nanoseconds)."""
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            number, _, printed = line.strip().partition(" ")
            if number.isdigit() and printed.isdigit():
                self._numbers.append(int(number))
                self._latencies.append((now - int(printed)) / 1e6)

    def checked(self, count: int) -> list[float]:
        """The milliseconds of each line.

        Raises:
            LoadError: lines are missing, or not in order.
        """
        if self._numbers != list(range(count)):
            raise LoadError(f"{len(self._numbers)} of {count} lines arrived, or not in order")
        return self._latencies


def _streamed(own: Box, command: str, count: int) -> list[float]:
    body = json.dumps({"action": {"action": "run", "args": {"command": command}, "timeout": 60}}).encode()
    raw = http(own.site, "POST", "/execute_action_stream", OpenHands.key_header, body)
    lines, events = Lines(), Events()
    try:
        _read(own.site.address, raw, events, lines)
    except OSError as error:
        raise LoadError(f"the stream broke: {error}") from error
    return lines.checked(count)


def _read(address: Address, raw: bytes, events: Events, lines: Lines) -> None:
    with socket.create_connection(address, timeout=_LIMIT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(raw)
        while data := connection.recv(65536):
            now = monotonic_ns()
            for name, told in events.feed(data):
                if name == "output":
                    lines.add(json.loads(told)["text"], now)
                elif name in ("observation", "error"):
                    return
    raise LoadError("the stream ended without an observation")


class Events:
    """Server-sent events from the bytes of a chunked answer."""

    def __init__(self) -> None:
        self._raw = b""
        self._text = b""
        self._in_body = False

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """The events (name, data) that are complete now.

        Raises:
            LoadError: the answer is an error.
        """
        self._raw += data
        if not self._in_body:
            head, end, rest = self._raw.partition(b"\r\n\r\n")
            if not end:
                return []
            if b" 200 " not in head.split(b"\r\n")[0]:
                raise LoadError(f"no stream: {self._raw[:200]!r}")
            self._in_body, self._raw = True, rest
        self._dechunk()
        *whole, self._text = self._text.split(b"\n\n")
        return [_event(one) for one in whole]

    def _dechunk(self) -> None:
        while True:
            size, end, rest = self._raw.partition(b"\r\n")
            if not end or len(rest) < int(size, 16) + 2:
                return
            length = int(size, 16)
            self._text += rest[:length]
            self._raw = rest[length + 2 :]


def _event(text: bytes) -> tuple[str, bytes]:
    fields = dict(line.partition(b": ")[::2] for line in text.split(b"\n"))
    return fields.get(b"event", b"").decode(), fields.get(b"data", b"")
