"""Lines of text: what `read` cuts out, what `write` puts in, and line ends that stay what they were.

A line ends with LF, CR LF or CR. What is shown has LF only ("shown" text); what is in a file keeps
its own ends ("raw" text).
"""

from __future__ import annotations

import io

#: How much is looked at in one go; other threads wait for as long.
_WINDOW = 1 << 16


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
