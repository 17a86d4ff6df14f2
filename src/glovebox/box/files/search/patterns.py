"""Search patterns: one regular expression language, written out for each engine. No I/O.

The language is what ripgrep and Python agree on, read by our own parser and written for either of them in
terms they cannot understand differently. A match lies within one line; `.` matches neither half of a line
ending, `$` matches before either kind of it, and `^` matches behind a byte order mark.

Not in it, because ripgrep's engine does not have it: lookaround, backreferences, possessive and atomic
groups. A `{` that starts no repetition and a lone `}` or `]` mean themselves.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

from glovebox.box.files.search import charsets
from glovebox.box.files.search.charsets import Ranges


class InvalidPattern(Exception):
    """A pattern that cannot be used: why, and at which character (counted from 0)."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclasses.dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclasses.dataclass(frozen=True, slots=True)
class Anchor:
    """A place between characters."""

    place: Literal["line_start", "line_end", "boundary", "no_boundary"]


@dataclasses.dataclass(frozen=True, slots=True)
class Sequence:
    """One node after the other."""

    items: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The first of the nodes that leads to a match."""

    options: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Repeat:
    """A node several times; `most` is `None` for any number."""

    item: Node
    least: int
    most: int | None
    lazy: bool


Node = Chars | Anchor | Sequence | Choice | Repeat


@dataclasses.dataclass(frozen=True, slots=True)
class SearchPattern:
    """A pattern in the words of each engine."""

    #: For ripgrep's default engine; `None` when only Python's engine gets it right.
    ripgrep: str | None
    #: For Python's `re` on text that is all ASCII, where small sets make it fast.
    ascii: str
    #: For Python's `re` on any text, undecodable bytes being surrogates.
    unicode: str
    #: Text that every match contains, perhaps empty.
    needle: str


def written_out(node: Node) -> SearchPattern:
    """Write a parsed pattern for both engines."""
    return SearchPattern(
        ripgrep=None if _needs_python(node) else _ripgrep(node),
        ascii=_python(node, only_ascii=True),
        unicode=_python(node, only_ascii=False),
        needle=_needle(node),
    )


def literal(text: str, *, ignore_case: bool) -> Node:
    """The pattern that matches `text` itself.

    Raises:
        InvalidPattern: it is empty or longer than a line.
    """
    if not text:
        raise InvalidPattern("the pattern is empty", 0)
    for end in "\r\n":
        if end in text:
            raise InvalidPattern(
                "a match lies within one line, so a line ending cannot be searched for", text.index(end)
            )
    return Sequence(tuple(character(ord(item), ignore_case) for item in text))


def character(code: int, ignore_case: bool) -> Chars:
    """The node for one character."""
    ranges = ((code, code),)
    return Chars(charsets.either_case(ranges) if ignore_case else ranges)


def _needs_python(node: Node, *, first: bool = True, last: bool = True) -> bool:
    """Whether ripgrep cannot be trusted with a node; `first` and `last` tell its place in the pattern."""
    match node:
        case Chars(ranges):
            return not ranges  # some versions take an empty set for a mistake
        case Anchor(place):
            # Some versions find \B between the bytes of one character, and no line for `$^` or the like.
            return (
                place == "no_boundary"
                or (not first and place == "line_start")
                or (not last and place == "line_end")
            )
        case Sequence(items):
            end = len(items) - 1
            return any(
                _needs_python(item, first=first and index == 0, last=last and index == end)
                for index, item in enumerate(items)
            )
        case Choice(options):
            return any(_needs_python(option, first=first, last=last) for option in options)
        case Repeat(item):
            return _needs_python(item, first=False, last=False)


def _needle(node: Node) -> str:
    """The longest run of fixed characters at the top of the pattern."""
    items = node.items if isinstance(node, Sequence) else (node,)
    best = run = ""
    for item in items:
        fixed = isinstance(item, Chars) and len(item.ranges) == 1 and item.ranges[0][0] == item.ranges[0][1]
        run = run + chr(item.ranges[0][0]) if isinstance(item, Chars) and fixed else ""
        best = max(best, run, key=len)
    return best


_RIPGREP_ANCHORS = {
    "line_start": r"(?:(?m:^)\x{FEFF}?)",
    "line_end": r"(?:\x{0D}?(?m:$))",
    "boundary": r"\b",
}


def _ripgrep(node: Node) -> str:
    match node:
        case Chars(ranges):
            return _set(ranges, "\\x{{{:X}}}")
        case Anchor(place):
            return _RIPGREP_ANCHORS[place]
        case Sequence(items):
            return "".join(map(_ripgrep, items))
        case Choice(options):
            return "(?:" + "|".join(map(_ripgrep, options)) + ")"
        case Repeat(item):
            return _repeated(_ripgrep(item), node)


def _python(node: Node, *, only_ascii: bool) -> str:
    write = functools.partial(_python, only_ascii=only_ascii)
    match node:
        case Chars(ranges):
            return _python_set(ranges, only_ascii)
        case Anchor(place):
            return _python_anchor(place, only_ascii)
        case Sequence(items):
            return "".join(map(write, items))
        case Choice(options):
            return "(?:" + "|".join(map(write, options)) + ")"
        case Repeat(item):
            return _repeated(write(item), node)


def _repeated(item: str, repeat: Repeat) -> str:
    if not isinstance(repeat.item, Chars):
        item = f"(?:{item})"
    most = "" if repeat.most is None else repeat.most
    return f"{item}{{{repeat.least},{most}}}" + ("?" if repeat.lazy else "")


def _python_set(ranges: Ranges, only_ascii: bool) -> str:
    if only_ascii:
        ranges = tuple((low, min(high, 0x7F)) for low, high in ranges if low <= 0x7F)
    return _set(ranges, "\\U{:08x}") if ranges else "(?:(?!))"


def _set(ranges: Ranges, form: str) -> str:
    """A set in brackets, or the one character it has, with every character in the given form."""
    ends = [
        form.format(low) if low == high else f"{form.format(low)}-{form.format(high)}" for low, high in ranges
    ]
    alone = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return ends[0] if alone else f"[{''.join(ends)}]"


def _python_anchor(place: str, only_ascii: bool) -> str:
    if place == "line_start":
        return "(?:^\ufeff?)"
    if place == "line_end":
        return r"(?:\r?$)"
    if only_ascii and place == "boundary":
        return r"\b"
    word = _python_set(charsets.word(), only_ascii)
    if place == "boundary":
        return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
    return f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))"
