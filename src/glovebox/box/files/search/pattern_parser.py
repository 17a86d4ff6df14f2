"""Reads a regular expression into nodes, saying where it is wrong. No I/O."""

from __future__ import annotations

import re

from glovebox.box.files.search import charsets
from glovebox.box.files.search.charsets import Ranges
from glovebox.box.files.search.patterns import (
    Anchor,
    Chars,
    Choice,
    InvalidPattern,
    Node,
    Repeat,
    Sequence,
    character,
)

_MAX_DEPTH = 50
_MAX_REPEAT = 1000
_MAX_LENGTH = 10_000

_DOT = charsets.complement(((0x0D, 0x0D),))
_CONTROL = {"a": 0x07, "t": 0x09, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_COUNTS = re.compile(r"\{(\d*)(,?)(\d*)\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_NAMED = re.compile(r"\(\?P?<[A-Za-z_][A-Za-z0-9_]*>")
_POSIX_NAME = re.compile(r"\[:(\^?)([a-z]+):\]")
_HEX = re.compile(
    r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})"
)
_NO_NEWLINE = "a match lies within one line, so \\n cannot be part of the pattern"
_LOOKAROUND = "lookaround is not supported; search for the rest and look at the lines found"
_REFUSED_ESCAPES = {
    "A": "use ^ for the start of a line",
    "Z": "use $ for the end of a line",
    "z": "use $ for the end of a line",
    "<": "use \\b for the edge of a word, or < alone for the character",
    ">": "use \\b for the edge of a word, or > alone for the character",
    "p": "list the characters or ranges instead, as in [a-zà-ÿ]",
    "P": "list the characters or ranges instead, as in [^a-zà-ÿ]",
}


def parse(pattern: str, *, ignore_case: bool) -> Node:
    """Read a regular expression.

    Raises:
        InvalidPattern: it is not one, or uses what the engines do not share.
    """
    if not pattern:
        raise InvalidPattern("the pattern is empty", 0)
    if len(pattern) > _MAX_LENGTH:
        raise InvalidPattern(f"the pattern is longer than {_MAX_LENGTH} characters", _MAX_LENGTH)
    parser = _Parser(pattern, ignore_case)
    node = parser.choice(0)
    if parser.at < len(pattern):
        raise InvalidPattern("a closing parenthesis without an opening one", parser.at)
    return node


class _Parser:
    def __init__(self, text: str, ignore_case: bool) -> None:
        self.text = text
        self.at = 0
        self.ignore_case = ignore_case

    def choice(self, depth: int) -> Node:
        """Alternatives up to a closing parenthesis or the end."""
        if depth > _MAX_DEPTH:
            raise InvalidPattern(f"groups are nested more than {_MAX_DEPTH} deep", self.at)
        options = [self._sequence(depth)]
        while self.text.startswith("|", self.at):
            self.at += 1
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, depth: int) -> Node:
        items: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            node = self._item(depth)
            if node is not None:
                items.append(self._repetition(node))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _item(self, depth: int) -> Node | None:
        sign = self.text[self.at]
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return self._set()
        if sign == "\\":
            return self._escape()
        if sign in "*+?" or (sign == "{" and self._counts() is not None):
            raise InvalidPattern(f"nothing to repeat before {sign}", self.at)
        if sign == "\n":
            raise InvalidPattern(_NO_NEWLINE, self.at)
        self.at += 1
        if sign == ".":
            return Chars(_DOT)
        if sign == "^":
            return Anchor("line_start")
        if sign == "$":
            return Anchor("line_end")
        return self._character(ord(sign))

    def _character(self, code: int) -> Chars:
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            raise InvalidPattern("not a Unicode character", self.at - 1)
        return character(code, self.ignore_case)

    def _repetition(self, item: Node) -> Node:
        start = self.at
        counts = self._counts()
        if counts is None:
            return item
        if isinstance(item, Anchor):
            raise InvalidPattern("an anchor cannot be repeated", start)
        least, most, self.at = counts
        if most is not None and least > most:
            raise InvalidPattern("the smaller number of a repetition comes first", start)
        if max(least, most or 0) > _MAX_REPEAT:
            raise InvalidPattern(f"a repetition may count to {_MAX_REPEAT} at most", start)
        lazy = self.text.startswith("?", self.at)
        self.at += lazy
        if self.text.startswith("+", self.at):
            raise InvalidPattern("possessive repetition is not supported", self.at)
        if self._counts() is not None:
            raise InvalidPattern("a repetition of a repetition needs a group around the first", self.at)
        return Repeat(item, least, most, lazy)

    def _counts(self) -> tuple[int, int | None, int] | None:
        """The repetition that starts here: least, most and where it ends."""
        sign = self.text[self.at : self.at + 1]
        if sign and sign in "*+?":
            return int(sign == "+"), 1 if sign == "?" else None, self.at + 1
        found = _COUNTS.match(self.text, self.at)
        if found is None or not (found[1] or found[3]):
            return None
        if len(found[1]) > 9 or len(found[3]) > 9:
            raise InvalidPattern(f"a repetition may count to {_MAX_REPEAT} at most", self.at)
        least = int(found[1] or 0)
        if not found[2]:
            return least, least, found.end()
        return least, int(found[3]) if found[3] else None, found.end()

    def _group(self, depth: int) -> Node | None:
        start = self.at
        outer = self.ignore_case
        if self.text.startswith("(?", start):
            named = _NAMED.match(self.text, start)
            if named is not None:
                self.at = named.end()
            elif self._flags():
                return None  # flags for the rest of the group around it
        else:
            self.at += 1
        inner = self.choice(depth + 1)
        if not self.text.startswith(")", self.at):
            raise InvalidPattern("this group is not closed", start)
        self.at += 1
        self.ignore_case = outer
        return inner if isinstance(inner, Choice | Sequence) else Sequence((inner,))

    def _flags(self) -> bool:
        """Read `(?i)` or the opening of `(?i:...)`; tell whether it was the former."""
        start = self.at
        found = _FLAGS.match(self.text, start)
        if self.text.startswith(("(?=", "(?!", "(?<=", "(?<!"), start):
            raise InvalidPattern(_LOOKAROUND, start)
        if found is None or not (found[1] or found[2] or found[3] == ":"):
            raise InvalidPattern("this kind of group is not supported", start)
        unknown = set(found[1] + (found[2] or "")) - set("ims")
        if unknown:
            raise InvalidPattern(f"the flag {min(unknown)} is not supported, only i is of use", start)
        # m and s change nothing: anchors always mean lines, and nothing matches a newline.
        self.at = found.end()
        self.ignore_case = ("i" in found[1] or self.ignore_case) and "i" not in (found[2] or "")
        return found[3] == ")"

    def _escape(self) -> Node:
        start = self.at
        sign = self.text[start + 1 : start + 2]
        if sign in ("b", "B"):
            self.at += 2
            return Anchor("boundary" if sign == "b" else "no_boundary")
        if sign == "n":
            raise InvalidPattern(_NO_NEWLINE, start)
        named = self._named_set(sign)
        if named is not None:
            return Chars(named)
        return self._character(self._escaped_code())

    def _named_set(self, sign: str) -> Ranges | None:
        if sign not in ("d", "D", "w", "W", "s", "S"):
            return None
        self.at += 2
        kind = sign.lower()
        ranges = charsets.SPACE if kind == "s" else charsets.digit() if kind == "d" else charsets.word()
        return charsets.complement(ranges) if sign.isupper() else ranges

    def _escaped_code(self) -> int:
        """The character behind a backslash."""
        start = self.at
        sign = self.text[start + 1 : start + 2]
        if not sign:
            raise InvalidPattern("a backslash at the end; write \\\\ for the character itself", start)
        digits = _HEX.match(self.text, start + 1)
        if digits is not None:
            self.at = digits.end()
            return int(next(group for group in digits.groups() if group), 16)
        self.at += 2
        if sign in _CONTROL:
            return _CONTROL[sign]
        if sign in _REFUSED_ESCAPES:
            raise InvalidPattern(f"\\{sign} is not supported; {_REFUSED_ESCAPES[sign]}", start)
        if sign.isdigit():
            raise InvalidPattern("backreferences are not supported", start)
        if sign.isascii() and sign.isalpha():
            raise InvalidPattern(f"\\{sign} means nothing here", start)
        if sign == "\n":
            raise InvalidPattern(_NO_NEWLINE, start)
        return ord(sign)

    def _set(self) -> Chars:
        """A set in brackets; `]` as its first character stands for itself."""
        start = self.at
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        ranges: list[charsets.Range] = []
        first = self.at
        while self.at == first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise InvalidPattern("this set is not closed; write \\[ for the character itself", start)
            if self.text.startswith(("&&", "--", "~~"), self.at):
                raise InvalidPattern("operations on sets are not supported; escape the signs", self.at)
            ranges.extend(self._set_item())
        self.at += 1
        members = charsets.normalised(ranges)
        if not members and not negated:
            raise InvalidPattern(_NO_NEWLINE, start)
        return Chars(charsets.complement(members) if negated else members)

    def _set_item(self) -> Ranges:
        posix = _POSIX_NAME.match(self.text, self.at)
        if posix is not None:
            if posix[2] not in charsets.POSIX:
                raise InvalidPattern(f"there is no set named {posix[2]}", self.at)
            self.at = posix.end()
            named = self._either_case(charsets.POSIX[posix[2]])
            return charsets.complement(named) if posix[1] else named
        if self.text.startswith("\\", self.at):
            shorthand = self._named_set(self.text[self.at + 1 : self.at + 2])
            if shorthand is not None:
                return shorthand
        start = self.at
        low = self._set_code()
        # A hyphen before the closing bracket stands for itself.
        if not self.text.startswith("-", self.at) or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return self._either_case(((low, low),))
        self.at += 1
        high = self._set_code()
        if high < low:
            raise InvalidPattern("the range is the wrong way round", start)
        return self._either_case(((low, high),))

    def _either_case(self, ranges: Ranges) -> Ranges:
        return charsets.either_case(ranges) if self.ignore_case else ranges

    def _set_code(self) -> int:
        if self.text.startswith("\\", self.at):
            sign = self.text[self.at + 1 : self.at + 2]
            if sign == "n":
                self.at += 2
                return 0x0A
            if sign and sign in "bBdDwWsS":
                raise InvalidPattern(f"\\{sign} cannot stand here", self.at)
            code = self._escaped_code()
        else:
            code = ord(self.text[self.at])
            self.at += 1
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            raise InvalidPattern("not a Unicode character", self.at - 1)
        return code
