"""Which commands a text consists of: the contract runs one at a time.

What the contract's parser cannot read is one command to it: `case`, `[[`, `time`, `select`, `coproc`,
arithmetic, arrays, and more by its defects. This one reads no more: a text in doubt is one command.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from glovebox.box.terminal.shell.syntax import (
    Body,
    Unread,
    after_backticks,
    after_bodies,
    after_parentheses,
    after_special,
    after_word,
    end_of,
)

#: A longer text counts as one command. Substitutions in substitutions take the square of their length.
LONGEST = 10_000


def needs_parsing(text: str) -> bool:
    """Whether the text could be several commands: these are on lines of their own."""
    return "\n" in text and len(text) <= LONGEST


def split_commands(text: str) -> list[str]:
    """The commands at top level that are separated by line ends.

    Comments, and the bodies of here-documents, belong to the command before them; comments at the very
    beginning to the first. What cannot be parsed is one command: bash will say what is wrong with it.
    """
    if not needs_parsing(text):
        return [text]
    try:
        starts = _Parser(text).starts()
    except (Unread, RecursionError):
        return [text]
    if len(starts) < 2:
        return [text]
    bounds = [0, *starts[1:], len(text)]
    return [text[begin:end].rstrip() for begin, end in itertools.pairwise(bounds)]


class _Token(NamedTuple):
    #: An operator, "redirect", "word", "\n", or "" at the end.
    kind: str
    start: int
    #: Of a word, without line continuations.
    word: str = ""


_BLANK = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
_REDIRECT = re.compile(r"\d*(?:<<<|<<-?|<>|<&|>>|>&|>\||<(?!\()|>(?!\())|&>>?")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&?|;&|[|&;()\n]")
#: A word with these may have commands in it.
_SUBSTITUTION = re.compile(r"[$`]|[<>]\(")
_INTERESTING = re.compile(r"[\\`$]|[<>]\(")
_COMPOUND = ("{", "if", "for", "while", "until")
# fmt: off
_RESERVED = frozenset({
    "then", "else", "elif", "fi", "in", "do", "done", "}", "!", "function",
    "case", "esac", "[[", "]]", "time", "select", "coproc",
})
# fmt: on
_ASSIGNMENT = re.compile(r"\w+(?:\[[^]]*\])?\+?=")


class _Parser:
    """Reads commands, and remembers nothing of them but where they start."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        #: Of here-documents whose bodies come after the line.
        self._bodies: list[Body] = []
        self._token = self._read()

    def starts(self) -> list[int]:
        """Where the commands at top level start."""
        starts: list[int] = []
        self._skip_lines()
        while self._token.kind:
            starts.append(self._token.start)
            self._line()
            self._skip_lines()
        return starts

    def check_first_line(self, *, enclosed: bool) -> str:
        """Read one line of a substitution, enclosed in parentheses or not; the text after it."""
        self._skip_lines()
        closable = self._line()
        if enclosed and not closable and not self._token.kind:
            raise Unread
        return self._text[self._token.start :]

    # Tokens.

    def _read(self) -> _Token:
        text = self._text
        start = self._at = end_of(_BLANK, text, self._at)
        if start == len(text):
            if self._bodies:
                raise Unread
            return _Token("", start)
        if found := _REDIRECT.match(text, start):
            self._at = found.end()
            if found[0].lstrip("0123456789") in ("<<", "<<-"):
                self._bodies.append(Body(self._delimiter(), found[0].endswith("-")))
            return _Token("redirect", start)
        if found := _OPERATOR.match(text, start):
            self._at = found.end()
            if found[0] == "\n":
                self._at = after_bodies(text, self._at, self._bodies)
                self._bodies = []
            return _Token(found[0], start)
        return self._read_word(start)

    def _delimiter(self) -> str:
        begin = end_of(_BLANK, self._text, self._at)
        return self._text[begin : after_word(self._text, begin)].replace("\\\n", "")

    def _read_word(self, start: int) -> _Token:
        self._at = after_word(self._text, start)
        word = self._text[start : self._at]
        if _SUBSTITUTION.search(word) and not (word[0] == word[-1] == "'"):
            _check_substitutions(word)
        return _Token("word", start, word.replace("\\\n", ""))

    def _next(self) -> None:
        self._token = self._read()

    def _skip_lines(self) -> None:
        while self._token.kind == "\n":
            self._next()

    def _is(self, *words: str) -> bool:
        """Whether the token is one of these reserved words or operators."""
        return (self._token.word or self._token.kind) in words

    def _expect(self, word: str) -> None:
        if not self._is(word):
            raise Unread
        self._next()

    # Grammar.

    def _line(self) -> bool:
        """Commands up to the end of the line; whether the contract's parser takes a `)` after the last."""
        closable = True
        while True:
            self._pipeline()
            if self._is("\n", ""):
                return closable
            if not self._is("&&", "||", ";", "&"):
                raise Unread
            closable = self._is(";")
            may_break = self._is("&&", "||")
            self._next()
            if may_break:
                self._skip_lines()
            elif self._is("\n", ""):
                return False

    def _list(self, *ends: str) -> bool:
        """Commands on any number of lines up to one of these words; whether they are more than a pipeline."""
        several = False
        self._skip_lines()
        while True:
            self._pipeline()
            if self._is("&&", "||"):
                several = True
                self._next()
                self._skip_lines()
                continue
            separated = self._is(";", "&", "\n")
            if separated:
                several = several or not self._is("\n")
                self._next()
                self._skip_lines()
            if self._is(*ends):
                return several
            if not separated:
                raise Unread
            several = True

    def _pipeline(self) -> None:
        while self._is("!"):
            self._next()
        self._command()
        while self._is("|", "|&"):
            self._next()
            self._skip_lines()
            self._command()

    def _command(self) -> None:
        if self._is("function"):
            self._next()
            self._word()
            if self._is("("):
                self._next()
                self._expect(")")
            self._skip_lines()
            self._compound()
        elif self._is("(", *_COMPOUND):
            self._compound()
        elif self._is(*_RESERVED):
            raise Unread
        else:
            self._simple()

    def _simple(self) -> None:
        if (first := self._token).kind not in ("word", "redirect"):
            raise Unread
        self._redirects()
        if first.kind == "word":
            self._next()
            if self._is("(") and not _ASSIGNMENT.match(first.word):
                self._next()
                self._expect(")")
                self._skip_lines()
                self._compound()
                return
        while self._token.kind in ("word", "redirect"):
            self._redirects()
            braces = self._is("{", "}")
            if self._token.kind == "word":
                self._next()
            if braces and self._is(*_COMPOUND, *_RESERVED):
                raise Unread  # after a brace, the contract's parser takes no such word for an argument

    def _redirects(self) -> None:
        while self._token.kind == "redirect":
            self._next()
            self._word()

    def _word(self) -> None:
        if self._token.kind != "word":
            raise Unread
        self._next()

    def _compound(self) -> None:
        if self._is("("):
            self._block(")")
        elif self._is("{"):
            self._block("}")
        elif self._is("if"):
            self._if()
        elif self._is("for"):
            self._for()
        elif self._is("while", "until"):
            self._next()
            if not self._list("do"):
                raise Unread  # which the contract's parser cannot read
            self._block("done")
        else:
            raise Unread
        self._redirects()

    def _block(self, end: str) -> None:
        self._next()
        self._list(end)
        self._next()

    def _if(self) -> None:
        while not self._is("fi", "else"):
            self._next()
            self._list("then")
            self._next()
            self._list("elif", "else", "fi")
        if self._is("else"):
            self._next()
            self._list("fi")
        self._next()

    def _for(self) -> None:
        self._next()
        self._word()
        may_be_braces = self._is(";")
        if may_be_braces:
            self._next()
        self._skip_lines()
        if not may_be_braces and self._is("in"):
            may_be_braces = True
            self._next()
            while self._token.kind == "word":
                self._next()
            if not self._is(";", "\n"):
                raise Unread
            self._next()
            self._skip_lines()
        if self._is("do"):
            self._block("done")
        elif may_be_braces and self._is("{"):
            self._block("}")
        else:
            raise Unread


def _check_substitutions(word: str) -> None:
    """See whether the commands in a word can be read, as far as the contract's parser looks at them.

    It looks at those in quotes, too, unless the whole word is in single ones.
    """
    at = 0
    quoted = word.startswith('"')
    while found := _INTERESTING.search(word, at):
        at = found.start()
        if found[0] == "`":
            at = after_backticks(word, at)
            _check_backticks(word[found.start() + 1 : at - 1])
        elif word.startswith(("$((", "$["), at):
            raise Unread
        elif word.startswith("$(", at) or (found[0].endswith("(") and not quoted):
            at = after_parentheses(word, at + 2)
            _check_commands(word[found.start() + 2 : at - 1], enclosed=True)
        else:
            at = max(found.end(), after_special(word, at, quoted=True))


def _check_backticks(commands: str) -> None:
    if "\\`" in commands:
        raise Unread
    if commands:
        _check_commands(commands, enclosed=False)


def _check_commands(commands: str, *, enclosed: bool) -> None:
    _check_substitutions(_Parser(commands).check_first_line(enclosed=enclosed))
