"""Searches a command's raw output line by line, and turns lines of raw output into plain text.

Regular expressions are matched by ripgrep, whose time grows with the output only.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from glovebox.box.ripgrep import Expression, InvalidPattern, RipgrepFailed, ripgrep
from glovebox.box.terminal.output.buffer import COLUMNS
from glovebox.box.terminal.output.rendering import render
from glovebox.json_codec import json_decoder

#: Output is looked at in blocks of this size, in whatever pieces it comes: the answer depends on bytes only.
BLOCK = 65_536
#: A match is shown in so many characters.
SHOWN = 500
#: A line that is longer is searched in parts, which overlap by more than any text that is searched for.
_LONGEST, _OVERLAP = 1_000_000, 8_000
_LONGEST_QUERY = 1_000
#: No more of a line than this is matched with a regular expression.
_REGEX_WITHIN = 65_536

_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\r\n")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\r*\Z)")

#: How many blocks ripgrep gets at once.
_REGEX_BLOCKS = 4
_SECONDS_TO_COMPILE = 5.0
_REGEX_OPTIONS = ("--no-config", "--json", "--text", "--encoding=none")
_ERROR_STATUS = 2

#: Which of some lines match, and where: index, start, end.
_Hits = list[tuple[int, int, int]]


class SearchError(ValueError):
    """The query cannot be searched for; the text says why, and at which position if there is one."""


@dataclass(frozen=True)
class Match:
    """A line that matches, shortened around the match if it is long, and its neighbours."""

    line: int
    #: Where the line begins in the raw output.
    offset: int
    text: str
    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class SearchMatches:
    """The first matches, and how many there are."""

    matches: list[Match]
    #: How many lines match, shown or not.
    total: int
    #: How many lines were searched.
    lines: int
    #: Whether that is all of them: the time may have been over before.
    complete: bool


def search(
    pieces: Iterable[bytes],
    query: str,
    *,
    regex: bool = False,
    ignore_case: bool = True,
    context: int = 2,
    limit: int = 50,
    start: int = 0,
    deadline: float = 20.0,
) -> SearchMatches:
    """The first `limit` matching lines of those that begin at byte `start` or later.

    It takes no longer than about `deadline` seconds. Lines are searched as they are shown: without colours,
    and with the last state of a progress bar.

    Raises:
        SearchError: the query is empty, too long, or not a regular expression.
    """
    if not query or len(query) > _LONGEST_QUERY:
        raise SearchError(f"a query has 1 to {_LONGEST_QUERY} characters, not {len(query)}")
    end = time.monotonic() + deadline
    found = _Finder(context, limit, start)
    matcher: _Text | _Regex = _Regex(query, ignore_case, end) if regex else _Text(query, ignore_case)
    try:
        for batch in _batches(pieces, BLOCK * (_REGEX_BLOCKS if regex else 1)):
            texts = visible(batch.data)
            found.add(batch, texts, matcher.find(texts))
            if time.monotonic() > end:
                raise TimeoutError
    except TimeoutError:
        return found.found(complete=False)
    return found.found(complete=True)


class _Text:
    """Finds plain text."""

    def __init__(self, query: str, ignore_case: bool) -> None:
        self._search = re.compile(re.escape(query), re.IGNORECASE if ignore_case else re.NOFLAG).search

    def find(self, lines: list[str]) -> _Hits:
        found = ((index, self._search(line)) for index, line in enumerate(lines))
        return [(index, *match.span()) for index, match in found if match]


class _Span(msgspec.Struct):
    start: int
    end: int


class _Line(msgspec.Struct):
    line_number: int | None = None
    submatches: list[_Span] = []


class _Message(msgspec.Struct):
    """A message of ripgrep; those that are not about a match have no line number."""

    type: str
    data: _Line


class _Regex:
    """Finds what a regular expression matches, until its time is over."""

    def __init__(self, query: str, ignore_case: bool, end: float) -> None:
        self._end = end
        self._decoder = json_decoder(_Message)
        try:
            pattern = Expression(query)
            case = "--ignore-case" if ignore_case else "--case-sensitive"
            self._command = [ripgrep(), *_REGEX_OPTIONS, case, "-e", pattern.text, "--", "-"]
            checked = self._run(b"", _SECONDS_TO_COMPILE)
            if checked.returncode == _ERROR_STATUS:
                raise pattern.error(checked.stderr.decode("utf-8", "replace"))
        except InvalidPattern as error:
            place = "" if error.position is None else f" at position {error.position}"
            raise SearchError(f"not a regular expression: {error.reason}{place}") from error
        except RipgrepFailed as error:
            raise SearchError(str(error)) from error
        except TimeoutError as error:
            raise SearchError("the regular expression is too large") from error

    def find(self, lines: list[str]) -> _Hits:
        data = [line[:_REGEX_WITHIN].encode("utf-8", "replace") for line in lines]
        printed = self._run(b"\n".join(data), self._end - time.monotonic()).stdout
        hits: _Hits = []
        for message in map(self._decoder.decode, printed.splitlines()):
            if message.type == "match" and message.data.line_number is not None:
                index = message.data.line_number - 1
                start, end = _span(message.data.submatches)
                hits.append((index, _characters(data[index][:start]), _characters(data[index][:end])))
        return hits

    def _run(self, data: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
        if seconds <= 0:
            raise TimeoutError
        try:
            return subprocess.run(
                self._command, input=data, capture_output=True, timeout=seconds, check=False, cwd="/", env={}
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError from None


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "ignore"))


def _span(matches: list[_Span]) -> tuple[int, int]:
    return (matches[0].start, matches[0].end) if matches else (0, 0)


class _Finder:
    """Makes matches of hits: with numbers, offsets, and the lines around them."""

    def __init__(self, context: int, limit: int, start: int) -> None:
        self._context = context
        self._limit = limit
        self._start = start
        self._matches: list[Match] = []
        self._total = 0
        self._lines = 0
        self._recent: list[str] = []
        self._waiting: list[Match] = []
        #: Whether the long line whose parts are being searched has matched already.
        self._matched = False

    def add(self, batch: _Batch, texts: list[str], hits: _Hits) -> None:
        shown = [shorten(text, SHOWN) for text in texts]
        if batch.continued:
            near = self._recent[:-1]  # the last is the line itself
            hits = [] if self._matched else hits
        else:
            near = self._recent
            self._recent = [*near, *shown][-self._context - 1 :]
            self._matched = False
            for match in self._waiting:
                match.after.extend(shown[: self._context - len(match.after)])
            self._waiting = [match for match in self._waiting if len(match.after) < self._context]
        at = position = 0
        for index, start, end in hits:
            while position < index:
                at = batch.data.index(b"\n", at) + 1
                position += 1
            if batch.offset + at >= self._start and len(self._matches) < self._limit:
                before = [*near, *shown[max(0, index - self._context) : index]]
                match = Match(
                    line=batch.number + index,
                    offset=batch.offset + at,
                    text=shorten(texts[index], SHOWN, start, end),
                    before=before[max(0, len(before) - self._context) :],
                    after=shown[index + 1 : index + 1 + self._context],
                )
                self._matches.append(match)
                if len(match.after) < self._context:
                    self._waiting.append(match)
        self._total += len(hits)
        self._matched = self._matched or bool(hits)
        self._lines = batch.number + len(texts) - 1

    def found(self, *, complete: bool) -> SearchMatches:
        return SearchMatches(self._matches, self._total, self._lines, complete)


@dataclass(frozen=True)
class _Batch:
    """Lines that are searched together, each with its end; or a part of one that is very long."""

    data: bytes
    #: Of the first line: its number, and where it begins.
    number: int
    offset: int
    #: Whether it is a further part of the line that came before.
    continued: bool


def _batches(pieces: Iterable[bytes], size: int) -> Iterator[_Batch]:
    held = bytearray()
    number, offset = 1, 0
    dropped = 0  # how much of a line that is searched in parts is not held any more
    for block in blocks(pieces, size):
        held += block
        if dropped and (end := held.find(b"\n") + 1):
            yield _Batch(bytes(held[:end]), number, offset, continued=True)
            del held[:end]
            number, offset, dropped = number + 1, offset + dropped + end, 0
        if end := held.rfind(b"\n") + 1:
            batch = _Batch(bytes(held[:end]), number, offset, continued=False)
            yield batch
            del held[:end]
            number, offset = number + batch.data.count(b"\n"), offset + end
        if len(held) > _LONGEST:
            yield _Batch(bytes(held + b"\n"), number, offset, continued=dropped > 0)
            dropped += len(held) - _OVERLAP
            del held[:-_OVERLAP]
    if held:
        yield _Batch(bytes(held + b"\n"), number, offset, continued=dropped > 0)


def visible(block: bytes) -> list[str]:
    """The text of lines, each of which ends with a line end, one for one: none moves the others."""
    return render(plain(block), rows=1, columns=COLUMNS)[:-1]


def shorten(text: str, limit: int, start: int = 0, end: int = 0) -> str:
    """At most `limit` characters of a text, among them what is between `start` and `end`."""
    if len(text) <= limit:
        return text
    left = max(0, min(start - max(0, limit - (end - start)) // 2, len(text) - limit))
    right = left + limit
    before, after = ("…" if left else ""), ("…" if right < len(text) else "")
    return before + text[left + len(before) : right - len(after)] + after


def blocks(pieces: Iterable[bytes], size: int = BLOCK) -> Iterator[bytes]:
    """The same bytes in blocks of one size, but for the last."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


def plain(block: bytes) -> bytes:
    """Lines without colours, and with what remains of those that were written over."""
    if b"\x1b" in block:
        block = without_colours(block)
    if block.count(b"\r") == block.count(b"\r\n") and len(block.translate(None, _CONTROLS)) == len(block):
        return block
    return b"\n".join(still(line) if _CONTROL.search(line) else line for line in block.split(b"\n"))


def without_colours(data: bytes) -> bytes:
    """The same without what only changes how text looks."""
    return _COLOUR.sub(b"", data)


def still(line: bytes) -> bytes:
    """The visible text of one line, drawn on a screen of one row."""
    return " ".join(render(line.rstrip(b"\r"), rows=1, columns=COLUMNS)).encode()
