"""Where the lines of a large text file begin, found without holding the file in memory."""

from __future__ import annotations

import codecs
import os
import time
from bisect import bisect_left

from glovebox.box.files.disk.workspace import CHUNK, pieces

#: Going through a file takes no longer: a sparse one may be of any size.
SECONDS = 60.0

#: Texts that are larger, made and dropped again and again, leave holes in memory that add up.
_DECODED = 1 << 14
_RETURN = ord("\r")


class TooSlow(Exception):
    """The file was not gone through in time."""


class LineIndex:
    """Goes through an open file once; then every line is found by its number.

    A line ends with LF, CR LF or CR. Blocks.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
        TooSlow: it takes too long.
    """

    def __init__(self, file: int, *, chunk: int = CHUNK, seconds: float = SECONDS) -> None:
        self._file = file
        #: Of each chunk, where it begins and how many lines end before it.
        self._offsets: list[int] = []
        self._ends: list[int] = []
        self._pairs = self._feeds = self._returns = 0
        self.size = 0
        self._scan(chunk, time.monotonic() + seconds)

    @property
    def lines(self) -> int:
        """How many there are; the last one need not be ended."""
        return self._count() + self._unended

    @property
    def line_end(self) -> str:
        """The line end that new lines should have (see `lines.line_end`)."""
        if self._pairs > self._feeds - self._pairs:
            return "\r\n"
        return "\r" if self._feeds == 0 and self._returns else "\n"

    def offset(self, line: int) -> int:
        """Where a line begins, counted from 0; the end of the file if there are not so many."""
        if line <= 0:
            return 0
        if line > self._count():
            return self.size
        chunk = bisect_left(self._ends, line) - 1
        start = self._offsets[chunk]
        end = self._offsets[chunk + 1] if chunk + 1 < len(self._offsets) else self.size
        data = b"".join(pieces(self._file, start, end))
        return start + _after_end(data, line - self._ends[chunk])

    def _scan(self, size: int, deadline: float) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        cut = False
        chunk = buffer = bytearray(size)
        while got := os.preadv(self._file, [buffer], self.size):
            if got > 1 and buffer[got - 1] == _RETURN:
                got -= 1  # a line feed may follow: the two stay together
            chunk = buffer if got == size else buffer[:got]
            if cut or not chunk.isascii():
                for start in range(0, len(chunk), _DECODED):
                    decoder.decode(chunk[start : start + _DECODED])
                cut = bool(decoder.getstate()[0])
            self._offsets.append(self.size)
            self._ends.append(self._count())
            self._feeds += chunk.count(b"\n")
            if returns := chunk.count(b"\r"):
                self._returns += returns
                self._pairs += chunk.count(b"\r\n")
            self.size += len(chunk)
            if time.monotonic() > deadline:
                raise TooSlow
        decoder.decode(b"", final=True)
        self._unended = self.size > 0 and not chunk.endswith((b"\n", b"\r"))

    def _count(self) -> int:
        return self._feeds + self._returns - self._pairs


def _after_end(data: bytes, number: int) -> int:
    """Where the line begins that follows the `number`th line end."""
    low, high = 0, len(data)
    while low < high:
        middle = (low + high) // 2
        if _line_ends(data[:middle]) < number:
            low = middle + 1
        else:
            high = middle
    return low + (data[low - 1 : low + 1] == b"\r\n")


def _line_ends(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
