"""Reads the lines to show: around each match, in bounded memory whatever the length of a line."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator

from glovebox.box.files.search.hits import Hit, Place
from glovebox.protocol.files import GrepMatch

#: A longer line is cut around its match.
MAX_CHARACTERS = 1000
#: Stands where a line was cut.
CUT = "[…]"
#: The most bytes that so many characters can take.
_WINDOW = 4 * MAX_CHARACTERS
#: Context is looked for this far, in bytes, on either side.
_CONTEXT_WINDOW = 1 << 16


def excerpts(places: Iterable[Place], *, before: int, after: int) -> Iterator[GrepMatch | None]:
    """The line at each of the given places; `None` for one whose file has changed since."""
    path: bytes | None = None
    descriptor = -1
    try:
        for place_path, hit in places:
            if place_path != path:
                _close(descriptor)
                path, descriptor = place_path, _opened(place_path)
            try:
                yield _excerpt(descriptor, place_path, hit, before, after)
            except OSError:  # not opened, or no longer a file
                yield None
    finally:
        _close(descriptor)


def _opened(path: bytes) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def _excerpt(descriptor: int, path: bytes, hit: Hit, before: int, after: int) -> GrepMatch | None:
    line, offset, column = hit
    start = max(offset, offset + column - _WINDOW)
    data = os.pread(descriptor, offset + column + _WINDOW - start, start)
    if offset and os.pread(descriptor, 1, offset - 1) != b"\n":
        return None
    text, ending, _ = data.partition(b"\n")
    whole = bool(ending) or len(data) < offset + column + _WINDOW - start
    return GrepMatch(
        path=path.decode("utf-8", "replace"),
        line=line,
        text=clipped(text, offset + column - start, starts=start == offset, ends=whole, first=offset == 0),
        before=_lines_before(descriptor, offset, before) if before else [],
        after=_lines_after(descriptor, offset, after) if after else [],
    )


def clipped(data: bytes, at: int, *, starts: bool = True, ends: bool = True, first: bool = False) -> str:
    """A line, or the part of it around `at` when it is long.

    `starts` and `ends` tell whether the data has the line's start and end, `first` whether a byte order
    mark may stand there.
    """
    if ends:
        data = data.removesuffix(b"\r")
    left = _decoded(data[:at], starts=starts, ends=True)
    right = _decoded(data[at:], starts=True, ends=ends)
    if first and starts:
        left, right = (left.removeprefix("\ufeff"), right) if left else (left, right.removeprefix("\ufeff"))
    if starts and ends and len(left) + len(right) <= MAX_CHARACTERS:
        return left + right
    # A quarter of the room shows what leads to the match; what one side does not need the other gets.
    shown_right = min(len(right), MAX_CHARACTERS - min(len(left), MAX_CHARACTERS // 4))
    shown_left = min(len(left), MAX_CHARACTERS - shown_right)
    cut_left = CUT if not starts or shown_left < len(left) else ""
    cut_right = CUT if not ends or shown_right < len(right) else ""
    return cut_left + left[len(left) - shown_left :] + right[:shown_right] + cut_right


def _decoded(data: bytes, *, starts: bool, ends: bool) -> str:
    """Text whose first or last character may have been cut in two; that part is dropped."""
    if not starts:
        lead = next((index for index, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
        data = data[lead:]
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=ends)


def _lines_before(descriptor: int, offset: int, count: int) -> list[str]:
    start = max(0, offset - _CONTEXT_WINDOW)
    data = os.pread(descriptor, offset - start, start)
    if not data:
        return []
    found = data.removesuffix(b"\n").split(b"\n")
    cut = start > 0 and os.pread(descriptor, 1, start - 1) != b"\n"
    lines = [
        clipped(line, 0, starts=True, first=start == 0 and index == 0)
        if index or not cut
        else clipped(line, len(line), starts=False)
        for index, line in enumerate(found)
    ]
    return lines[-count:]


def _lines_after(descriptor: int, offset: int, count: int) -> list[str]:
    data = os.pread(descriptor, _CONTEXT_WINDOW, offset)
    cut = len(data) == _CONTEXT_WINDOW
    _, ending, rest = data.partition(b"\n")
    if not ending or not rest:
        return []
    found = rest.split(b"\n", count)[: count + 1]
    complete = found[:-1] if len(found) > count or not found[-1] else found
    return [clipped(line, 0, ends=not cut or index < len(found) - 1) for index, line in enumerate(complete)]
