"""Long output for a model: its beginning, its end, and the lines around errors between them. Pure.

Lines are those that line ends make in the raw bytes, so that their numbers mean the same everywhere. In
between, lines are shown as `grep -n` shows them: `120:` before one that looks like an error, `121-` before
one that stands near it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from glovebox.box.terminal.output.buffer import COLUMNS, ROWS
from glovebox.box.terminal.output.rendering import render
from glovebox.box.terminal.output.search import BLOCK, blocks, plain, shorten, still, visible, without_colours

#: Nothing sensible can be said in fewer characters.
MINIMUM = 200
#: Below this, the notes would take all the space.
_SMALL = 600
#: Space for notes on left-out lines, of which one mentions errors, apart from the space of excerpts.
_RESERVE, _RESERVE_SMALL = 125, 12
_BEFORE, _AFTER = 2, 3
#: An excerpt's line is not shown longer, nor an error line looked at further than this.
_WIDEST = 300
_ERROR_WITHIN = 1_000

#: Error lines: a text to be found in the line in lower case, which is fast, and a pattern that the line must
#: match. In doubt a line does not count: not `0 errors`, `no error`, `error_handler.py` or other names,
#: and nothing that follows the word "warning".
_SIGNS = {
    b"error": rb"""
        (?<![\w.-])(?i:(?<!no\ )(?<!\b0\ )error)(?:\[\w+\]|\ [A-Z]+\d+)?:(?!\s*(?:0|[Nn]one|null)\b)
        | Error:\  | (?:^|:\ )[\w.]*Error\s*$ | ^Error\  | ^npm\ error\b
        | (?<![\w.-])ERROR(?![\w-]|\.\w)(?<!\b0\ ERROR)(?<!\bNO\ ERROR)(?!\s*[:=]\s*0\b)
        | (?<![\d.,])[1-9][\d,]*\ (?i:errors?)\b
        | (?i:\b(?:syntax|fatal)\ error\b) | \blevel=error\b | \b(?:Unhandled|Uncaught)\b.{0,40}\berror\b""",
    b"exception": rb"""
        Exception:\  | (?:^|:\ )[\w.]*Exception\s*$ | \bException\ in\ thread\b
        | (?i:\b(?:unhandled|uncaught)\b.{0,40}\bexception\b)""",
    b"fail": rb"""
        (?<![\w-])(?:FAILED|FAILURES?|FAIL)\b(?<!\b0\ FAILED)(?!\s*[:=]\s*0\b)
        | (?<![\d.,])[1-9][\d,]*\ (?i:failed|failures?)\b
        | \b[Ff]ailed\ (?:to|with)\b | \b(?i:build|command|compilation|tests?)\ failed\b
        | \b[Aa]ssertion\b.{0,300}?\bfailed\b""",
    b"\ne   ": rb"^E\ {3,}\S",  # pytest
    b"traceback": rb"^Traceback\ \(most\ recent\ call\ last\)",
    b"fatal": rb"\b[Ff]atal: | \bFATAL\b | \blevel=fatal\b",
    b"critical": rb"\bCRITICAL\b",
    b"err!": rb"\bERR!",  # npm
    b": *** ": rb"^\S+:\ \*\*\*\ ",  # make
    b"panic": rb"\bpanic: | \bpanicked\ at\b",  # Go, Rust
    b"not ok": rb"^\s*not\ ok\ \d",  # TAP
    b"undefined reference": rb"\bundefined\ reference\ to\b",
    b"not found": rb"\bcommand\ not\ found\b | :\ not\ found\s*$",
    b"no such file": rb"(?i:\bno\ such\ file\ or\ directory\b)",
    b"denied": rb"(?i:\bpermission\ denied\b)",
    b"segmentation": rb"(?i:\bsegmentation\ fault\b)",
    b"core dumped": rb"\bcore\ dumped\b",
    b"killed": rb"(?:^|\d\ +)Killed\b",
}
_ERRORS = {hint: re.compile(b"(?x)" + sign) for hint, sign in _SIGNS.items()}
#: All patterns in one.
ERROR_LINE = re.compile(b"(?x)" + b"|".join(_SIGNS.values()))
_WARNING = re.compile(rb"(?i)(?<!\d )\bwarn(?:ing)?\b")
_TRACEBACK = b"Traceback (most recent call last)"
#: A traceback is indented; the line that ends it names the error.
_NOT_INDENTED = re.compile(rb"\n(?=[^\s])")


@dataclass(frozen=True)
class Digest:
    """An output, shortened to a budget."""

    text: str
    lines: int
    size: int
    #: Whether something was left out.
    shortened: bool
    #: How many lines look like errors, shown or not.
    errors: int


def digest(pieces: Iterable[bytes], *, budget: int, command_id: str) -> Digest:
    """An output in at most `budget` characters, read once and never held as a whole.

    Output that moves between lines is rendered exactly only if it is not much longer than the budget;
    otherwise each line is rendered by itself.
    """
    budget = max(budget, MINIMUM)
    room = 4 * budget + BLOCK
    source = _Source(pieces, room)
    spare = max(80, budget - 150 - _RESERVE)
    head, scan = _Head(), None
    queue: deque[bytes] = deque()
    queued = 0
    # The queue has what may become the end. Blocks that leave it are only searched for errors.
    for block in source:
        queue.append(block)
        queued += len(block)
        while queued - len(queue[0]) > room:
            if scan is None:
                head = _take_head(visible(b"".join(queue)), spare // 4)
                scan = _Scan(spare * 3 // 10, head.last)
            queued -= len(queue[0])
            scan.feed(queue.popleft())
    rest = b"".join(queue)
    lines = visible(rest)
    if scan is None:
        for whole in (source.whole(), "\n".join(lines).strip()):
            if whole is not None and len(whole) <= budget:
                return Digest(whole, source.lines, source.size, False, _count_errors(rest))
        head = _take_head(lines, spare // 4)
        scan = _Scan(spare * 3 // 10, head.last)

    note = _note(source, command_id, budget)
    small = budget < _SMALL
    space = budget - len(note) - 1 - (_RESERVE_SMALL if small else _RESERVE) - head.length
    tail = _take_tail(lines, scan.number, head, space - (0 if small else scan.space))
    scan.feed(rest, before=tail.first)
    scan.close()
    excerpts = [] if small else [*scan.earliest, *scan.latest]
    if not excerpts:
        tail = _take_tail(lines, scan.number - len(lines), head, space)
    text = _compose(head, excerpts, tail, scan, small=small)
    return Digest(f"{text}\n{note}", source.lines, source.size, True, scan.errors)


def is_error(line: bytes, sign: re.Pattern[bytes] = ERROR_LINE) -> bool:
    """Whether a line of plain text looks like an error."""
    found = sign.search(line)
    return found is not None and _WARNING.search(line, 0, found.start()) is None


class _Source:
    """Raw output as blocks of whole lines of plain text, and its measures."""

    def __init__(self, pieces: Iterable[bytes], room: int) -> None:
        self.size = 0
        self.lines = 0
        self._pieces = pieces
        self._room = room
        self._raw = bytearray()

    def __iter__(self) -> Iterator[bytes]:
        held = bytearray()
        for block in blocks(self._pieces):
            if self.size <= self._room:
                self._raw += block
            self.size += len(block)
            self.lines += block.count(b"\n")
            cut = block.rfind(b"\n") + 1
            if cut:
                yield plain(bytes(held + block[:cut]))
                held.clear()
            held += block[cut:]
            if len(held) > 2 * self._room:
                held = bytearray(_shrink(bytes(held), self._room))
        if held:
            self.lines += 1
            yield plain(bytes(held + b"\n"))

    def whole(self) -> str | None:
        """All of it as a terminal would show it, if it is not too much."""
        if self.size > self._room:
            return None
        return "\n".join(render(bytes(self._raw), rows=ROWS, columns=COLUMNS)).strip()


def _shrink(line: bytes, room: int) -> bytes:
    """A shorter form of an unfinished line: its visible part, or its beginning and end."""
    line = without_colours(line)
    written, _, over_it = line.rpartition(b"\r")
    if written:
        line = still(line) + b"\r" + over_it
    if len(line) > room:
        parts = (line[: room // 2], line[-room // 2 :])
        line = "…".join(part.decode("utf-8", "ignore") for part in parts).encode()
    return line


@dataclass
class _Head:
    shown: list[str] = field(default_factory=list)
    #: The number of its last line, and how much is shown of that one if not all.
    last: int = 0
    cut: int | None = None

    @property
    def length(self) -> int:
        return sum(map(len, self.shown)) + len(self.shown)


def _take_head(lines: list[str], space: int) -> _Head:
    head = _Head()
    left = space
    for line in lines:
        if len(line) >= left:
            # End with a whole line, unless that leaves much of the space empty.
            if left * 4 >= space:
                head.last += 1
                head.cut = left - 2
                head.shown.append(line[: head.cut] + "…")
            break
        head.last += 1
        if line or head.shown:
            head.shown.append(line)
            left -= len(line) + 1
    return head


@dataclass
class _Tail:
    shown: list[str]
    #: The number of its first line.
    first: int


def _take_tail(lines: list[str], done: int, head: _Head, space: int) -> _Tail:
    """The end of `lines`, which follow `done` others, as far as it is not part of the head."""
    index = max(0, head.last - done)
    lines = lines[index:] if head.cut is None or not index else [lines[index - 1][head.cut :], *lines[index:]]
    shown: list[str] = []
    first = done + index + len(lines) + 1 - (head.cut is not None and index > 0)
    left = space
    for line in reversed(lines):
        if len(line) >= left:
            if left * 4 >= space and left > 2:
                first -= 1
                shown.append("…" + line[2 - left :])
            break
        first -= 1
        if line or shown:
            shown.append(line)
            left -= len(line) + 1
    return _Tail(shown[::-1], first)


@dataclass
class _Excerpt:
    """An error and the lines around it that are not part of another excerpt."""

    first: int = 0
    shown: list[str] = field(default_factory=list)
    #: Which of them is the error, if any.
    error: int | None = None
    cost: int = 0

    @property
    def last(self) -> int:
        return self.first + len(self.shown) - 1

    def add(self, number: int, line: bytes, *, error: bool) -> None:
        if error:
            self.error = len(self.shown)
        if not self.shown:
            self.first = number
        text = visible(line + b"\n")[0]
        found = ERROR_LINE.search(text.encode()) if error and len(text) > _WIDEST else None
        at = len(text.encode()[: found.start()].decode("utf-8", "ignore")) if found else 0
        self.shown.append(f"{number}{':' if error else '-'}{shorten(text, _WIDEST, at, at)}")

    def fit(self, space: int, previous: int) -> bool:
        """Make it fit: remove lines around the error, then shorten the error line."""
        while True:
            gap = len(_left_out(previous + 1, self.first - 1)) + 1 if self.first > previous + 1 else 0
            self.cost = sum(map(len, self.shown)) + len(self.shown) + gap
            if self.cost <= space:
                return True
            if len(self.shown) == 1:
                break
            if self.error == len(self.shown) - 1:
                del self.shown[0]
                self.first += 1
                self.error -= 1
            else:
                del self.shown[-1]
        left = space - gap - 1
        if left < 40:
            return False
        self.shown = [shorten(self.shown[0], left)]
        self.cost = space
        return True


class _Scan:
    """Finds errors between head and tail, and keeps the earliest and the latest of them.

    The first error is usually the cause, and the last ones are summaries.
    """

    def __init__(self, space: int, after: int) -> None:
        self.space = space
        self.errors = 0
        #: How many lines have been seen.
        self.number = 0
        self.earliest: list[_Excerpt] = []
        self.latest: deque[_Excerpt] = deque()
        #: How many errors are not among them.
        self.dropped = 0
        self._used = 0
        self._placed = after
        self._recent: list[bytes] = []
        self._open: _Excerpt | None = None
        self._taken = after
        self._wanted = 0
        self._in_traceback = False

    def feed(self, block: bytes, *, before: int | None = None) -> None:
        """Search the next lines, and show none from number `before` on."""
        lines = [*self._recent, *block.split(b"\n")]
        lines.pop()
        base = self.number - len(self._recent) + 1
        end = base + len(lines)
        found, self._in_traceback = _find_errors(block, inside=self._in_traceback)
        self.errors += len(found)
        limit = end if before is None else before
        for index in found:
            number = self.number + index + 1
            self._follow(lines, base, min(number, limit))
            self.close()
            self._open = _Excerpt()
            self._wanted = number + _AFTER
            self._taken = max(self._taken, number - _BEFORE - 1)
            self._follow(lines, base, min(number + 1, limit), error=number)
        self._follow(lines, base, min(end, limit))
        self._recent = lines[-_BEFORE:]
        self.number = end - 1

    def close(self) -> None:
        """Keep the excerpt found last, if there is space or some can be made."""
        excerpt, self._open = self._open, None
        if excerpt is None or not excerpt.shown:
            return
        half = self.space // 2
        if not excerpt.fit(half, self._placed):
            self.dropped += excerpt.error is not None
            return
        self._placed = excerpt.last
        if not self.latest and self._used + excerpt.cost <= half:
            self.earliest.append(excerpt)
            self._used += excerpt.cost
            return
        if not self.latest:
            self._used = 0
        self.latest.append(excerpt)
        self._used += excerpt.cost
        while self._used > half:
            oldest = self.latest.popleft()
            self._used -= oldest.cost
            self.dropped += oldest.error is not None

    def _follow(self, lines: list[bytes], base: int, end: int, error: int = 0) -> None:
        if self._open is None:
            return
        for number in range(self._taken + 1, min(end, self._wanted + 1)):
            self._open.add(number, lines[number - base], error=number == error)
            self._taken = number


def _find_errors(block: bytes, *, inside: bool) -> tuple[list[int], bool]:
    """Which lines look like errors or end a traceback; and whether the block ends inside one."""
    text = b"\n" + block
    lowered = text.lower()
    starts: set[int] = set()
    for hint, sign in _ERRORS.items():
        at = lowered.find(hint)
        while at >= 0:
            start = text.rfind(b"\n", 0, at + 1) + 1
            end = text.find(b"\n", start)
            line = text[start : min(end, start + _ERROR_WITHIN)]
            if start not in starts and is_error(line, sign):
                starts.add(start)
            at = lowered.find(hint, end)
    heads = [start for start in starts if text.startswith(_TRACEBACK, start)]
    ends = [_NOT_INDENTED.search(text, start) for start in ([0] if inside else []) + sorted(heads)]
    starts.update(end.end() for end in ends if end)
    indices = []
    index = last = 0
    for start in sorted(starts):
        index += text.count(b"\n", last, start)
        last = start
        indices.append(index - 1)
    return indices, bool(ends) and ends[-1] is None


def _count_errors(block: bytes) -> int:
    return len(_find_errors(block, inside=False)[0])


def _compose(head: _Head, excerpts: list[_Excerpt], tail: _Tail, scan: _Scan, *, small: bool) -> str:
    shown = list(head.shown)
    last = head.last
    for excerpt in excerpts:
        dropped = scan.dropped if scan.latest and excerpt is scan.latest[0] else 0
        if excerpt.first > last + 1:
            shown.append(_left_out(last + 1, excerpt.first - 1, dropped))
        shown += excerpt.shown
        last = excerpt.last
    if tail.first > last + 1:
        dropped = 0 if scan.latest else scan.dropped
        shown.append("[...]" if small else _left_out(last + 1, tail.first - 1, dropped))
    ending = list(tail.shown)
    if tail.first == head.last and ending:  # one line is both
        shown[-1] = shown[-1].removesuffix("…") + ending.pop(0)
    return "\n".join([*shown, *ending]).strip()


def _left_out(first: int, last: int, errors: int = 0) -> str:
    which = f"line {first}" if first == last else f"lines {first}-{last}"
    found = f", with {errors} more error line{'s' if errors > 1 else ''}" if errors else ""
    return f"[... {which} left out{found} ...]"


def _note(source: _Source, command_id: str, budget: int) -> str:
    measures = f"{source.lines:,} line{'s' if source.lines > 1 else ''}, {source.size:,} bytes in all"
    how = f"Read or search the rest: GET /commands/{command_id}/output?offset=N or ?search=TEXT"
    note = f"[{measures}. {how}]"
    return note if len(note) <= budget * 13 // 20 else f"[{measures}]"
