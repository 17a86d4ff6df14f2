"""The load generator: prebuilt requests over raw keep-alive sockets, in a process of its own.

It shares the machine with the server it measures, so it does as little as possible per request: one
`send`, one `epoll_wait`, one `recv`, a search for the end of the header, and a comparison of the body
with the last one that was found right. Only a body that differs is parsed and checked.
"""

from __future__ import annotations

import gc
import heapq
import math
import resource
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.processes import in_child

Address = tuple[str, int]

#: Receives status and body, tells whether this is the answer the request should have.
Check = Callable[[int, bytes], bool]

_HEADER_END = b"\r\n\r\n"
_RECEIVE = 256 * 1024


class LoadError(Exception):
    """The server could not be loaded at all: it refuses, hangs or answers what cannot be read."""


@dataclass(slots=True)
class Request:
    """What is sent, and how its answer is judged."""

    raw: bytes
    check: Check
    #: The last body that passed the check; equal bodies need no second look.
    known: bytes | None = None

    def accepts(self, status: int, body: bytes) -> bool:
        """Tell whether this answer is right."""
        if status == 200 and body == self.known:
            return True
        if not self.check(status, body):
            return False
        self.known = body
        return True


@dataclass(slots=True)
class Outcome:
    """What came of one or several rounds of load."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    wrong: int = 0
    unanswered: int = 0
    reconnects: int = 0
    cpu_seconds: float = 0.0
    example: str = ""

    @property
    def right(self) -> int:
        """How many answers were as they should be."""
        return len(self.latencies)

    @property
    def asked(self) -> int:
        """How many requests were sent."""
        return self.right + self.wrong + self.unanswered

    @property
    def per_second(self) -> float:
        """Right answers per second."""
        return self.right / self.seconds if self.seconds else 0.0

    @property
    def client_busy(self) -> float:
        """The share of the time in which the load generator itself was computing."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0

    def add(self, other: Outcome) -> None:
        """Take another round into account."""
        self.latencies += other.latencies
        self.seconds += other.seconds
        self.wrong += other.wrong
        self.unanswered += other.unanswered
        self.reconnects += other.reconnects
        self.cpu_seconds += other.cpu_seconds
        self.example = self.example or other.example


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def split_answer(data: bytes) -> tuple[int, bytes, bool] | None:
    """Read (status, body, whether the server closes) from the bytes so far; None when some are missing.

    Raises:
        LoadError: the answer has no length.
    """
    end = data.find(_HEADER_END)
    if end < 0:
        return None
    head = data[:end].lower()
    length = _length(head)
    body = data[end + 4 :]
    if len(body) < length:
        return None
    return int(head[9:12]), body[:length], b"connection: close" in head


def _length(head: bytes) -> int:
    """The length that an answer's head, in lower case, says its body has."""
    at = head.find(b"content-length:")
    if at < 0:
        raise LoadError(f"an answer without a length: {head[:200]!r}")
    return int(head[at + 15 :].partition(b"\r")[0])


def _size(data: bytearray) -> int:
    """How long a whole answer is; 0 while its head is not complete."""
    end = data.find(_HEADER_END)
    return end + 4 + _length(bytes(data[:end]).lower()) if end >= 0 else 0


def exchange(address: Address, raw: bytes, limit: float = 60.0) -> tuple[int, bytes]:
    """Send one request on a fresh connection and return (status, body).

    Raises:
        OSError: no connection, or no answer within the limit.
        LoadError: what came back is not an answer.
    """
    with socket.create_connection(address, timeout=limit) as connection:
        connection.sendall(raw)
        data = bytearray()
        while not (size := _size(data)) or len(data) < size:
            piece = connection.recv(_RECEIVE)
            if not piece:
                raise LoadError(f"the server closed the connection after {len(data)} bytes")
            data += piece
    answer = split_answer(bytes(data))
    assert answer is not None
    return answer[0], answer[1]


class _Client:
    """One simulated client: its connection, its requests in turn, and the bytes of the current answer."""

    def __init__(self, address: Address, script: Sequence[Request]) -> None:
        self.address = address
        self.script = script
        self.turn = 0
        self.sent = 0.0
        self.pending = b""
        self.resent = False
        self.is_idle = False
        self.socket = self._connect()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self.address, timeout=10)
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def reconnect(self) -> None:
        self.socket.close()
        self.pending = b""
        self.socket = self._connect()

    @property
    def request(self) -> Request:
        return self.script[self.turn]

    def send(self) -> None:
        self.is_idle = False
        self.sent = perf_counter()
        self.socket.sendall(self.script[self.turn].raw)

    def next(self) -> None:
        self.turn = (self.turn + 1) % len(self.script)
        self.resent = False

    def receive(self) -> tuple[int, bytes, bool] | None:
        data = self.socket.recv(_RECEIVE)
        if not data:
            raise ConnectionResetError("closed by the server")
        if self.pending:
            data = self.pending + data
        answer = split_answer(data)
        self.pending = b"" if answer else data
        return answer


class _Loop:
    """Drives all clients until the time is over, or their scripts are, and every answer is in."""

    def __init__(
        self, address: Address, scripts: Sequence[Sequence[Request]], limit: float, pace: float = 0.0
    ) -> None:
        self.poller = select.epoll()
        self.clients: dict[int, _Client] = {}
        self.outcome = Outcome()
        self.limit = limit
        self.pace = pace
        #: Clients that pause, by the time of their next request.
        self.due: list[tuple[float, int, _Client]] = []
        self.waiting = 0
        self.stop_at = 0.0
        self.is_once = False
        for script in scripts:
            self._register(_Client(address, script))

    def _register(self, client: _Client) -> None:
        number = client.socket.fileno()
        self.clients[number] = client
        self.poller.register(number, select.EPOLLIN)

    def run(self, seconds: float | None) -> Outcome:
        start = perf_counter()
        self.is_once = seconds is None
        self.stop_at = math.inf if seconds is None else start + seconds
        give_up = start + self.limit
        self.waiting = len(self.clients)
        for turn, client in enumerate(list(self.clients.values())):
            if self.pace:  # not all in the same moment
                self._pause(client, start + self.pace * turn / self.waiting)
            else:
                client.send()
        while self.waiting:
            now = perf_counter()
            while self.due and self.due[0][0] <= now:
                heapq.heappop(self.due)[2].send()
            wake = min(give_up, self.due[0][0]) if self.due else give_up
            events = self.poller.poll(max(0.0, wake - now))
            if not events and perf_counter() >= give_up:
                break
            for number, _ in events:
                self._step(number)
        self.outcome.seconds = perf_counter() - start
        self.outcome.unanswered += self.waiting
        return self.outcome

    def _step(self, number: int) -> None:
        client = self.clients[number]
        try:
            answer = client.receive()
        except ConnectionError:
            self._lost(number, client)
            return
        if answer is None:
            return
        status, body, closes = answer
        now = perf_counter()
        if client.request.accepts(status, body):
            self.outcome.latencies.append((now - client.sent) * 1000)
        else:
            self._note_wrong(status, body)
        client.next()
        if closes:
            self._replace(number, client)
        self._go_on(client, now)

    def _go_on(self, client: _Client, now: float) -> None:
        if now >= self.stop_at or (self.is_once and client.turn == 0):
            self.waiting -= 1
            # It has asked for the last time: that the server closes its connection is no loss any more.
            self.poller.unregister(client.socket.fileno())
        elif self.pace:
            self._pause(client, client.sent + self.pace)
        else:
            client.send()

    def _pause(self, client: _Client, until: float) -> None:
        client.is_idle = True
        heapq.heappush(self.due, (until, id(client), client))

    def _lost(self, number: int, client: _Client) -> None:
        """Ask again once on a new connection: a server may close one that was idle."""
        self._replace(number, client)
        if client.is_idle:
            return
        if client.resent:
            self.outcome.unanswered += 1
            client.next()
            self._go_on(client, perf_counter())
            return
        client.resent = True
        client.send()

    def _replace(self, number: int, client: _Client) -> None:
        self.poller.unregister(number)
        del self.clients[number]
        client.reconnect()
        self.outcome.reconnects += 1
        self._register(client)

    def _note_wrong(self, status: int, body: bytes) -> None:
        self.outcome.wrong += 1
        if not self.outcome.example:
            self.outcome.example = f"HTTP {status} {body[:300].decode(errors='replace')}"

    def close(self) -> None:
        for client in self.clients.values():
            client.socket.close()
        self.poller.close()


def _drive(
    address: Address,
    scripts: Sequence[Sequence[Request]],
    seconds: float | None,
    limit: float,
    pace: float = 0.0,
) -> Outcome:
    gc.disable()
    try:
        loop = _Loop(address, scripts, limit, pace)
    except OSError as error:
        raise LoadError(f"cannot connect: {error}") from error
    before = resource.getrusage(resource.RUSAGE_SELF)
    try:
        outcome = loop.run(seconds)
    except OSError as error:
        raise LoadError(f"the connection broke: {error}") from error
    finally:
        loop.close()
    after = resource.getrusage(resource.RUSAGE_SELF)
    outcome.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return outcome


def drive(
    address: Address,
    scripts: Sequence[Sequence[Request]],
    seconds: float,
    limit: float,
    *,
    pace: float = 0.0,
) -> Outcome:
    """Let one client per script ask for this long, each waiting for its answer before it asks again.

    With a pace, a client asks once in so many seconds (later if its answer is later). After the time no
    new request is sent, but answers under way are awaited, up to the limit.

    Raises:
        LoadError: the server cannot be reached or understood.
    """
    return in_child(lambda: _drive(address, scripts, seconds, limit, pace), LoadError, limit + 30)


def drive_through(address: Address, scripts: Sequence[Sequence[Request]], limit: float) -> Outcome:
    """Let one client per script send each of its requests once, each after the answer to the one before.

    Raises:
        LoadError: the server cannot be reached or understood.
    """
    return in_child(lambda: _drive(address, scripts, None, limit), LoadError, limit + 30)
