"""HTTP over one raw socket: requests as bytes, whole answers, streams of events."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.processes import Failed

Address = tuple[str, int]
_RECEIVE = 256 * 1024
_PART = "glovebox-benchmark-part"


@dataclass(frozen=True)
class Site:
    """Where a server is, its key and the header for it, and the folder the measures may use there."""

    address: Address
    key: str
    folder: str
    key_header: str = "X-Session-API-Key"

    def head(self, method: str, path: str, length: int = 0, more: str = "") -> bytes:
        """The head of a request; `more` are further header lines."""
        host, port = self.address
        length_line = f"Content-Length: {length}\r\n" if method == "POST" else ""
        first = f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n"
        return f"{first}{self.key_header}: {self.key}\r\n{length_line}{more}\r\n".encode()

    def post(self, path: str, body: object, more: str = "") -> bytes:
        data = json.dumps(body).encode()
        return self.head("POST", path, len(data), f"Content-Type: application/json\r\n{more}") + data

    def upload(self, path: str, name: str, content: bytes, **fields: str) -> tuple[bytes, bytes]:
        """Head and body of a form with one file."""
        parts = [f'name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
        parts.append(f'name="file"; filename="{name}"\r\nContent-Type: application/octet-stream\r\n\r\n')
        start = "".join(f"--{_PART}\r\nContent-Disposition: form-data; {part}" for part in parts)
        body = b"".join((start.encode(), content, f"\r\n--{_PART}--\r\n".encode()))
        kind = f"Content-Type: multipart/form-data; boundary={_PART}\r\nConnection: close\r\n"
        return self.head("POST", path, len(body), kind), body


@dataclass(frozen=True)
class Head:
    status: int
    fields: Mapping[str, str]


class Answers:
    """HTTP answers, from a function that returns the next bytes. Failed: there are none."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._buffer = bytearray()

    def head(self) -> Head:
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = first.split(" ")[1:2]
        if not status or not status[0].isdigit():
            raise Failed(f"no HTTP: {first[:100]!r}")
        fields = (line.partition(":")[::2] for line in lines)
        return Head(int(status[0]), {name.strip().lower(): value.strip() for name, value in fields})

    def body(self, of: Head) -> bytes:
        if "content-length" in of.fields:
            return self._exactly(int(of.fields["content-length"]))
        is_chunked = of.fields.get("transfer-encoding") == "chunked"
        return b"".join(iter(self.chunk, b"")) if is_chunked else b""

    def chunk(self) -> bytes:
        size = self._until(b"\r\n")
        try:
            piece = self._exactly(int(size.partition(b";")[0], 16))
        except ValueError:
            raise Failed(f"no length of a chunk: {size[:100]!r}") from None
        self._exactly(2)
        return piece

    def events(self) -> Iterator[tuple[str, bytes]]:
        """Server-sent events (name, data) of a chunked body, as they arrive, until its end."""
        text = b""
        while piece := self.chunk():
            *whole, text = (text + piece).replace(b"\r\n", b"\n").split(b"\n\n")
            for one in whole:
                fields = dict(line.partition(b": ")[::2] for line in one.split(b"\n"))
                if data := fields.get(b"data"):  # or a comment that keeps the connection open
                    yield fields.get(b"event", b"message").decode(), data

    def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            self._receive()
        found = self._exactly(at)
        self._exactly(len(mark))
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._receive()
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    def _receive(self) -> None:
        try:
            data = self._read(_RECEIVE)
        except OSError as error:
            raise Failed(f"no answer: {error}") from error
        if not data:
            raise Failed(f"the server closed the connection after {bytes(self._buffer[:200])!r}")
        self._buffer += data


class Connection(Answers):
    """A connection to a server. Failed: it cannot be reached or does not answer in time."""

    def __init__(self, address: Address, limit: float = 60.0) -> None:
        try:
            self._socket = socket.create_connection(address, timeout=limit)
        except OSError as error:
            raise Failed(f"cannot connect: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(self._socket.recv)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, raw: bytes) -> None:
        try:
            self._socket.sendall(raw)
        except OSError as error:
            raise Failed(f"the connection broke: {error}") from error

    def ask(self, raw: bytes) -> tuple[int, bytes]:
        self.send(raw)
        head = self.head()
        return head.status, self.body(head)

    def stream(self, raw: bytes) -> Iterator[tuple[str, bytes]]:
        self.send(raw)
        head = self.head()
        if head.status != 200 or not head.fields.get("content-type", "").startswith("text/event-stream"):
            raise Failed(f"no stream: HTTP {head.status} {self.body(head)[:200]!r}")
        return self.events()


def exchange(address: Address, raw: bytes, limit: float = 60.0) -> tuple[int, bytes]:
    with Connection(address, limit) as connection:
        return connection.ask(raw)


def parsed(body: bytes) -> Any:
    """The value of a JSON text; None if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return None
