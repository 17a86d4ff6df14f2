"""The unified diff of an edit, without context lines."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

#: From here on, lines that both texts begin and end with are set aside first. The contract's algorithm can
#: take minutes on long repetitive files; without those lines it has only the change itself to look at.
#: Shorter files get exactly its choice of hunks.
LONG = 10_000

#: How much of two texts is compared in one go; other threads wait for as long.
_WINDOW = 1 << 16


def unified(old: str, new: str, path: str) -> str:
    """As `difflib.unified_diff` without context, every line trimmed at the right; empty if equal."""
    if old == new:
        return ""
    head = tail = 0
    if max(old.count("\n"), new.count("\n")) >= LONG:
        head = _common_start(old, new)
        tail = _common_end(old, new, head)
    before, after = _Part(old, head, tail), _Part(new, head, tail)
    skipped = max(old.count("\n", 0, head), new.count("\n", 0, head))
    diff = io.StringIO()  # one text that grows: lists of short lines take many times the memory of a text
    diff.write(f"--- {path}".rstrip() + "\n" + f"+++ {path}".rstrip())
    for i1, i2, j1, j2, removed, added in _hunks(before, after):
        diff.write(f"\n@@ -{_range(skipped + i1, i2 - i1)} +{_range(skipped + j1, j2 - j1)} @@")
        for sign, lines in (("\n-", removed), ("\n+", added)):
            for line in lines:
                diff.write(sign + line.rstrip())
    return diff.getvalue()


class _Part(NamedTuple):
    """The lines of a text without those at its start and its end that are set aside.

    `head` and `tail` count characters, with a line end after the last line too.
    """

    text: str
    head: int
    tail: int

    @property
    def end(self) -> int:
        return len(self.text) + 1 - self.tail

    def lines(self) -> Iterator[str]:
        at = self.head
        while at < self.end:
            stop = self.text.find("\n", at)
            stop = len(self.text) if stop == -1 else stop
            yield self.text[at:stop]
            at = stop + 1

    def total(self) -> int:
        if self.head >= self.end:
            return 0
        return self.text.count("\n", self.head, self.end) + (self.end > len(self.text))


_Hunk = tuple[int, int, int, int, Iterator[str], Iterator[str]]


def _hunks(before: _Part, after: _Part) -> Iterator[_Hunk]:
    removed, added = before.total(), after.total()
    if not removed or not added:
        yield 0, removed, 0, added, before.lines(), after.lines()
        return
    old, new = list(before.lines()), list(after.lines())
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            yield i1, i2, j1, j2, iter(old[i1:i2]), iter(new[j1:j2])


def _range(start: int, length: int) -> str:
    """Lines as a hunk's header names them; no lines have the number of the line before them."""
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _common_start(old: str, new: str) -> int:
    """How many characters the lines have that both texts begin with."""
    same = _agreement(min(len(old), len(new)), lambda start, end: old[start:end] == new[start:end])
    if old[same : same + 1] in ("", "\n") and new[same : same + 1] in ("", "\n"):
        return same + 1  # one of them ends here, and so does the line of the other
    return old.rfind("\n", 0, same) + 1


def _common_end(old: str, new: str, head: int) -> int:
    """How many characters the lines have that both texts end with, of those after `head`."""
    most = min(len(old), len(new)) - head
    if most < 0:
        return 0

    def ends_alike(start: int, end: int) -> bool:
        return old[len(old) - end : len(old) - start] == new[len(new) - end : len(new) - start]

    same = _agreement(most, ends_alike)
    starts = len(old) - same, len(new) - same
    if all(start == head or text[start - 1] == "\n" for text, start in zip((old, new), starts, strict=True)):
        return same + 1
    line_end = old.find("\n", starts[0])
    return 0 if line_end == -1 else len(old) - line_end


def _agreement(most: int, alike: Callable[[int, int], bool]) -> int:
    """The largest number of characters, up to `most`, in which two texts are alike."""
    same = 0
    while same < most and alike(same, min(same + _WINDOW, most)):
        same = min(same + _WINDOW, most)
    low, high = same, min(same + _WINDOW, most)
    while low < high:
        middle = (low + high + 1) // 2
        if alike(same, middle):
            low = middle
        else:
            high = middle - 1
    return low
