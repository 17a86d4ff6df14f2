"""The load generator: prebuilt requests over raw keep-alive sockets, in a process of its own.

It shares the machine with the server it measures, so it does as little as possible per request: one
`send`, one `epoll_wait`, one `recv`, a search for the end of the header, and a comparison of the body
with the last one that was found right. Only a body that differs is parsed and checked.
"""

from __future__ import annotations

import gc
import math
import resource
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.connection import Address as Address
from benchmarks.connection import exchange, parsed
from benchmarks.processes import Failed, Wrong, in_child

#: Receives status and body, returns whether this is the right answer to the request.
Check = Callable[[int, bytes], bool]
_RECEIVE = 256 * 1024


@dataclass(slots=True)
class Request:
    """What is sent, and how its answer is checked."""

    raw: bytes
    check: Check
    #: The last body that passed the check; equal bodies need no second look.
    known: bytes | None = None

    def accepts(self, status: int, body: bytes) -> bool:
        if status == 200 and body == self.known:
            return True
        if not self.check(status, body):
            return False
        self.known = body
        return True

    def ask(self, address: Address, tries: int = 1, limit: float = 60.0) -> bytes:
        """Send this until its answer is right, and return the body. Raises Wrong if it never is."""
        status, body = 0, b""
        for _ in range(tries):
            status, body = exchange(address, self.raw, limit)
            if self.accepts(status, body):
                return body
        raise Wrong(f"wrong answer: HTTP {status} {body[:200].decode(errors='replace')}")


def json_check(judge: Callable[[Any], bool]) -> Check:
    """A check of an answer's JSON; an answer of another shape is wrong."""

    def check(status: int, body: bytes) -> bool:
        try:
            return status == 200 and judge(parsed(body))
        except (KeyError, TypeError, AttributeError, IndexError):
            return False

    return check


@dataclass(slots=True)
class Outcome:
    """Samples (of answers: the milliseconds of right ones), and the number of wrong and missing answers."""

    values: list[float] = field(default_factory=list)
    wrong: int = 0
    unanswered: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    reconnects: int = 0
    example: str = ""

    @property
    def right(self) -> int:
        return len(self.values)

    @property
    def bad(self) -> int:
        return self.wrong + self.unanswered

    @property
    def asked(self) -> int:
        return self.right + self.bad

    @property
    def per_second(self) -> float:
        return self.right / self.seconds if self.seconds else 0.0

    @property
    def client_busy(self) -> float:
        """The share of the time in which the load generator itself was computing."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0

    def add(self, other: Outcome) -> None:
        self.values += other.values
        for name in ("wrong", "unanswered", "seconds", "cpu_seconds", "reconnects"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.example = self.example or other.example


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies (nearest rank)."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def split_answer(data: bytes) -> tuple[int, bytes, bool] | None:
    """Read (status, body, whether the server closes) from the bytes so far; None when some are missing."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = data[:end].lower()
    at = head.find(b"content-length:")
    if at < 0:
        raise Failed(f"an answer without a length: {head[:200]!r}")
    length = int(head[at + 15 :].partition(b"\r")[0])
    body = data[end + 4 :]
    if len(body) < length:
        return None
    return int(head[9:12]), body[:length], b"connection: close" in head


class _Client:
    """One simulated client: its connection, its requests in turn, and the bytes of the current answer."""

    def __init__(self, address: Address, script: Sequence[Request]) -> None:
        self.address, self.script, self.turn, self.sent = address, script, 0, 0.0
        self.connect()

    def connect(self) -> None:
        self.socket = socket.create_connection(self.address, timeout=10)
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    def send(self) -> None:
        self.sent = perf_counter()
        self.socket.sendall(self.script[self.turn].raw)

    def receive(self) -> tuple[int, bytes, bool] | None:
        data = self.socket.recv(_RECEIVE)
        if not data:
            raise ConnectionResetError("closed by the server")
        answer = split_answer(data := self.pending + data if self.pending else data)
        self.pending = b"" if answer else data
        return answer


class _Loop:
    """Drives all clients until the time is over, or their scripts are, and every answer is in."""

    def __init__(self, address: Address, scripts: Sequence[Sequence[Request]]) -> None:
        self.poller, self.clients = select.epoll(), dict[int, _Client]()
        self.outcome, self.stop_at = Outcome(), math.inf
        for script in scripts:
            self._register(_Client(address, script))
        self.waiting = len(self.clients)

    def _register(self, client: _Client) -> None:
        self.clients[client.socket.fileno()] = client
        self.poller.register(client.socket.fileno(), select.EPOLLIN)

    def run(self, seconds: float | None, limit: float) -> Outcome:
        start = perf_counter()
        self.stop_at = math.inf if seconds is None else start + seconds
        for client in self.clients.values():
            client.send()
        while self.waiting and (left := start + limit - perf_counter()) > 0:
            for number, _ in self.poller.poll(left):
                self._step(number, self.clients[number])
        self.outcome.seconds = perf_counter() - start
        self.outcome.unanswered += self.waiting
        return self.outcome

    def _step(self, number: int, client: _Client) -> None:
        closes = True
        try:
            if (answer := client.receive()) is None:
                return
            now, (status, body, closes) = perf_counter(), answer
            if client.script[client.turn].accepts(status, body):
                self.outcome.values.append((now - client.sent) * 1000)
            else:
                shown = f"HTTP {status} {body[:300].decode(errors='replace')}"
                self.outcome.add(Outcome(wrong=1, example=shown))
        except ConnectionError as error:
            self.outcome.add(Outcome(unanswered=1, example=str(error)))
        if closes:
            self.poller.unregister(number)
            self.clients.pop(number).socket.close()
            client.connect()
            self.outcome.reconnects += 1
            self._register(client)
        client.turn = (client.turn + 1) % len(client.script)
        if perf_counter() >= self.stop_at or (self.stop_at == math.inf and client.turn == 0):
            self.waiting -= 1
            # That the server closes this connection does not matter any more.
            self.poller.unregister(client.socket.fileno())
        else:
            client.send()


def drive(
    address: Address, scripts: Sequence[Sequence[Request]], seconds: float | None, limit: float
) -> Outcome:
    """Let one client per script send for this long, each waiting for its answer before it sends again.

    After the time no new request is sent, but answers under way are awaited, up to the limit.
    """

    def work() -> Outcome:
        gc.disable()
        try:
            before = resource.getrusage(resource.RUSAGE_SELF)
            outcome = _Loop(address, scripts).run(seconds, limit)
            after = resource.getrusage(resource.RUSAGE_SELF)
        except OSError as error:
            raise Failed(f"the connection broke: {error}") from error
        outcome.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return outcome

    return in_child(work, limit + 30)


def drive_through(address: Address, scripts: Sequence[Sequence[Request]], limit: float) -> Outcome:
    """Let one client per script send each of its requests once, each after the answer to the one before."""
    return drive(address, scripts, None, limit)
