"""Lines of text: what `read` cuts out, what `write` puts in, and line ends that stay what they were.

A line ends with LF, CR LF or CR. What is shown has LF only ("shown" text); what is in a file keeps
its own ends ("raw" text).
"""

from __future__ import annotations

import codecs
import io
import os
import time
from bisect import bisect_left

from glovebox.box.files.disk.atomic import CHUNK, pieces

#: How much is looked at in one go; other threads wait for as long.
_WINDOW = 1 << 16
#: Going through a file takes no longer: a sparse one may be of any size.
SECONDS = 60.0

#: Texts that are larger, made and dropped again and again, leave holes in memory that add up.
_DECODED = 1 << 14
_RETURN = ord("\r")


def shown(raw: str) -> str:
    """The text with every line end as LF."""
    return raw.replace("\r\n", "\n").replace("\r", "\n") if "\r" in raw else raw


def split(text: str) -> list[str]:
    """The lines, each with its own end; nothing but LF, CR LF and CR ends a line."""
    return list(io.StringIO(text, newline=""))


def count(text: str) -> int:
    """How many lines shown text has; a last line need not be ended."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def line_end(raw: str) -> str:
    """The line end that new lines of this text should have."""
    pairs = raw.count("\r\n")
    feeds = raw.count("\n") - pairs
    if pairs > feeds:
        return "\r\n"
    return "\r" if pairs == feeds == 0 and "\r" in raw else "\n"


def with_line_end(text: str, end: str) -> str:
    """The text with lines ended by `end`; text for an LF file is left as it is."""
    return text if end == "\n" else text.replace("\r\n", "\n").replace("\n", end)


def raw_offset(raw: str, offset: int) -> int:
    """Where in raw text the character is that is at `offset` in the shown text."""
    at = raw.find("\r\n")
    while at != -1 and at < offset:
        offset += 1
        at = raw.find("\r\n", at + 2)
    return offset


def line_start(text: str, line: int) -> int:
    """Where a line of shown text begins, counted from 0; the end of the text if there are not so many."""
    at = 0
    while line > 0 and at < len(text):
        ends = text.count("\n", at, at + _WINDOW)
        if ends < line:
            line -= ends
            at += _WINDOW
            continue
        for _ in range(line):
            at = text.index("\n", at) + 1
        return at
    return min(at, len(text))


def cut(text: str, start: int, end: int) -> str:
    """The lines from `start` up to `end`, as `cut_range` has them."""
    if end == -1 and start <= 0:
        return text
    lines = split(text)
    first, stop = cut_range(len(lines), start, end)
    return "".join(lines[first:stop])


def cut_range(total: int, start: int, end: int) -> tuple[int, int]:
    """The lines to read: from `start` up to `end` (0-based, exclusive, -1 for all), as the contract computes.

    A start in the last line is pulled back by one, and there is always at least one line, unless the end
    is open.
    """
    start = max(0, min(start, total))
    if end == -1:
        return start, total
    begin = max(0, min(start, total - 2))
    return begin, max(begin + 1, min(max(end, 0), total))


def splice(raw: str, content: str, start: int | None, end: int | None) -> str:
    """The text with `content` and a line end in place of the lines from `start` up to `end`."""
    if start == 0 and end == -1:
        return content + "\n"
    lines = split(raw)
    kept, resumed = splice_range(len(lines), start, end)
    before, after = "".join(lines[:kept]), "".join(lines[resumed:])
    return before + with_line_end(content + "\n", line_end(raw)) + after


def splice_range(total: int, start: int | None, end: int | None) -> tuple[int, int]:
    """How many lines are kept before those that are put in, and from which one on lines follow.

    Indices are those of Python slices, except that an end of -1 keeps nothing after.
    """
    kept = slice(None, start).indices(total)[1]
    resumed = total if end == -1 else slice(end, None).indices(total)[0]
    return kept, resumed


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
