"""HTTP over one raw connection, as far as MCP needs it: whole answers, and streams of events."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.dialects import Site, head
from benchmarks.load import Address, LoadError
from benchmarks.openhands import OpenHands

#: Seconds for anything that is awaited.
LIMIT = 60.0
_RECEIVE = 65536


@dataclass(frozen=True)
class Head:
    """What comes before the body of an answer."""

    status: int
    fields: Mapping[str, str]

    @property
    def is_stream(self) -> bool:
        """Tell whether the body is made of events."""
        return self.fields.get("content-type", "").startswith("text/event-stream")


class Connection:
    """A connection to a server. Whatever is awaited has a limit.

    Raises everywhere:
        OSError: it cannot be reached, or does not answer in time.
        LoadError: it closed the connection, or sent what is not HTTP.
    """

    def __init__(self, address: Address, limit: float = LIMIT) -> None:
        self._socket = socket.create_connection(address, timeout=limit)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, raw: bytes) -> None:
        """Send a whole request."""
        self._socket.sendall(raw)

    def head(self) -> Head:
        """Wait for the next answer."""
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = first.split(" ")[1:2]
        if not status or not status[0].isdigit():
            raise LoadError(f"no HTTP: {first[:100]!r}")
        fields = (line.partition(":")[::2] for line in lines)
        return Head(int(status[0]), {name.strip().lower(): value.strip() for name, value in fields})

    def body(self, of: Head) -> bytes:
        """The whole body that follows a head."""
        if "content-length" in of.fields:
            return self._exactly(int(of.fields["content-length"]))
        if of.fields.get("transfer-encoding") != "chunked":
            return b""
        return b"".join(iter(self.chunk, b""))

    def chunk(self) -> bytes:
        """The next piece of a body in pieces; nothing at its end."""
        size = self._until(b"\r\n")
        try:
            length = int(size, 16)
        except ValueError:
            raise LoadError(f"no length of a piece: {size[:100]!r}") from None
        piece = self._exactly(length)
        self._exactly(2)
        return piece

    def events(self) -> Iterator[tuple[str, bytes]]:
        """Events (name, data) of a body in pieces, as they come, until its end."""
        text = b""
        while piece := self.chunk():
            *whole, text = (text + piece).replace(b"\r\n", b"\n").split(b"\n\n")
            for one in whole:
                name, data = _event(one)
                if data:  # or a comment that keeps the connection open
                    yield name, data

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._receive()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._receive()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _receive(self) -> None:
        data = self._socket.recv(_RECEIVE)
        if not data:
            raise LoadError(f"the server closed the connection after {self._buffer[:200]!r}")
        self._buffer += data


def request(site: Site, method: str, path: str, body: bytes = b"", more: str = "") -> bytes:
    """A request with the key in both ways that MCP asks for."""
    lines = f"Authorization: Bearer {site.key}\r\nAccept: application/json, text/event-stream\r\n{more}"
    return head(site, method, path, OpenHands.key_header, "application/json", len(body), lines) + body


def _event(text: bytes) -> tuple[str, bytes]:
    fields = dict(line.partition(b": ")[::2] for line in text.split(b"\n"))
    return fields.get(b"event", b"message").decode(), fields.get(b"data", b"")
