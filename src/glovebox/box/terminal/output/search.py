"""Searching a command's raw output line by line; and lines of raw output as plain text.

A regular expression can take for ever (`(a+)+$` on a few dozen letters), and Python's own cannot be stopped:
it holds the interpreter's lock, so that a thread which tried would stop the whole server. To refuse nested
repeats is not enough, as `.*a.*b.*c` on one long line is as bad, and would refuse much that is harmless. So
regular expressions are matched in a process of their own that the kernel ends when its time is over, whether
or not the server is still there. The answer is what was found before the block (64 kB) it was busy with. What
remains: until the deadline, such an expression keeps one core busy. Plain text needs no process, and time in
proportion to the output.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from glovebox.box.terminal.output.buffer import COLUMNS
from glovebox.box.terminal.output.rendering import render

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

#: Reads the expression, then lines in batches; answers with the index, start and end of each match.
_MATCHER = """
import re, signal, sys
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
def batches():
    while size := sys.stdin.buffer.readline():
        yield sys.stdin.buffer.read(int(size)).decode("utf-8", "surrogatepass")
def answer(text):
    sys.stdout.buffer.write(text.encode("utf-8", "replace").replace(b"\\n", b" ") + b"\\n")
    sys.stdout.buffer.flush()
texts = batches()
try:
    search = re.compile(next(texts), int(sys.argv[2])).search
except re.error as error:
    sys.exit(answer(f"{error.msg} at position {error.pos}" if error.pos is not None else error.msg))
except (OverflowError, RecursionError) as error:
    sys.exit(answer(f"too large: {error}"))
answer("")
for text in texts:
    found = ((index, search(line)) for index, line in enumerate(text.split("\\n")))
    answer(" ".join(f"{index},{match.start()},{match.end()}" for index, match in found if match))
"""

#: Which of some lines match, and where: index, start, end.
_Hits = list[tuple[int, int, int]]


class SearchError(ValueError):
    """What was to be searched for makes no sense; says why, and at which position if there is one."""


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
    """The matches that were asked for."""

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
    and with what remains of a progress bar.

    Raises:
        SearchError: the query is empty, too long, or not a regular expression.
    """
    if not query or len(query) > _LONGEST_QUERY:
        raise SearchError(f"a query has 1 to {_LONGEST_QUERY} characters, not {len(query)}")
    end = time.monotonic() + deadline
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    found = _Finder(context, limit, start)
    with contextlib.ExitStack() as stack:
        find: Callable[[list[str]], _Hits]
        if regex:
            find = stack.enter_context(_Expression(query, flags, deadline)).find
        else:
            find = _Text(query, flags).find
        try:
            for batch in _batches(pieces):
                texts = visible(batch.data)
                found.add(batch, texts, find(texts))
                if time.monotonic() > end:
                    raise TimeoutError
        except TimeoutError:
            return found.found(complete=False)
    return found.found(complete=True)


class _Text:
    """Plain text."""

    def __init__(self, query: str, flags: re.RegexFlag) -> None:
        self._search = re.compile(re.escape(query), flags).search

    def find(self, lines: list[str]) -> _Hits:
        found = ((index, self._search(line)) for index, line in enumerate(lines))
        return [(index, *match.span()) for index, match in found if match]


class _Expression:
    """A regular expression, matched by a process that ends with its time."""

    def __init__(self, query: str, flags: re.RegexFlag, seconds: float) -> None:
        self._query = query
        # A timer that is set to nothing would never go off.
        self._arguments = [str(max(seconds, 0.001)), str(flags.value)]

    def __enter__(self) -> _Expression:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _MATCHER, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            reason = self._ask(self._query)
        except TimeoutError:
            reason = ""  # which the first lines will find out again
        if reason:
            self.__exit__()
            raise SearchError(f"not a regular expression: {reason}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        # Closing writes what a process that is gone did not take.
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def find(self, lines: list[str]) -> _Hits:
        reply = self._ask("\n".join(line[:_REGEX_WITHIN] for line in lines))
        hits = (hit.split(",") for hit in reply.split())
        return [(int(index), int(start), int(end)) for index, start, end in hits]

    def _ask(self, text: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        data = text.encode("utf-8", "surrogatepass")
        try:
            self._process.stdin.write(b"%d\n" % len(data) + data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise TimeoutError from None
        reply = self._process.stdout.readline()
        if not reply.endswith(b"\n"):
            raise TimeoutError
        return reply.decode().rstrip("\n")


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
        """Take note of some lines and of those that match."""
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


def _batches(pieces: Iterable[bytes]) -> Iterator[_Batch]:
    held = bytearray()
    number, offset = 1, 0
    dropped = 0  # how much of a line that is searched in parts is not held any more
    for block in blocks(pieces):
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


def blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of one size, but for the last."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= BLOCK:
            yield bytes(held[:BLOCK])
            del held[:BLOCK]
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
    """What is to be seen of one line; a screen of one row leaves no other to move to."""
    return " ".join(render(line.rstrip(b"\r"), rows=1, columns=COLUMNS)).encode()
