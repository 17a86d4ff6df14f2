"""Server-sent events, taken apart as their bytes come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from glovebox.errors import BadAnswer


class ServerSentEvent(NamedTuple):
    """One event."""

    event: str
    data: bytes
    id: str = ""


class EventParser:
    """Bytes in, events out. It holds what is not whole yet, up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """The events that end in this piece.

        Raises:
            BadAnswer: one of them is too large to be held.
        """
        looked = len(self._buffer)  # no line ends before
        self._buffer += piece
        if len(self._buffer) + self._size > self._most:
            raise BadAnswer(f"An event of more than {self._most >> 20} MB is not taken.")
        begin = 0
        while (end := self._buffer.find(b"\n", max(begin, looked))) >= 0:
            line = bytes(self._buffer[begin:end]).removesuffix(b"\r")
            begin = end + 1
            if line:
                self._take(line)
            elif self._data:
                yield ServerSentEvent(self._event or "message", b"\n".join(self._data), self._id)
                self._reset()
            else:
                self._reset()
        del self._buffer[:begin]

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")

    def _reset(self) -> None:
        self._data, self._size, self._event, self._id = [], 0, "", ""
