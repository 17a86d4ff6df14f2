"""Callers that speak to a server byte by byte, as no library would."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

PATIENCE = 60.0


class Wire:
    """One connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)
        self.host = parts.netloc

    def send(self, data: bytes) -> bool:
        """Send it; whether the other side was there to take it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def receive(self) -> bytes:
        """An answer in JSON on a connection that stays open."""
        received = b""
        while not received.endswith(b"}"):
            piece = self._socket.recv(1 << 16)
            assert piece, received
            received += piece
        return received

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of what was answered until the other side closed."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while piece := self._socket.recv(1 << 16):
                received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(status.split()[1]) if status else 0, headers, body

    def is_closed(self) -> bool:
        """Whether the other side has closed it without a word."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Go away."""
        self._socket.close()


@contextlib.contextmanager
def wire(url: str) -> Iterator[Wire]:
    """A connection that is closed in the end."""
    connection = Wire(url)
    try:
        yield connection
    finally:
        connection.close()


def cpu_seconds(pid: int) -> float:
    """How much time a process has computed."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
