"""How far words, quotations, substitutions and here-documents reach in a text for bash."""

from __future__ import annotations

import re
from typing import NamedTuple

_PLAIN = re.compile(r"[^ \t\n|&;()<>$`'\"\\]+")
_SINGLE = re.compile(r"'[^']*'")
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_IN_BRACES = re.compile(r"[^}\"'\\$`]+")
_IN_PARENTHESES = re.compile(r"[^()\"'\\$`#<\n]+")
_BODY = re.compile(r"<<(-?)[ \t]*([^ \t\n|&;()<>]+)")


class Unread(Exception):
    """The text is not understood."""


class Body(NamedTuple):
    """What ends the body of a here-document."""

    delimiter: str
    #: Tabs may precede it.
    tabs: bool


def end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The end of what matches at a place; the place if nothing does."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise Unread
    return found.end()


def after_backticks(text: str, at: int) -> int:
    """The place after the backticks that begin at a place."""
    return _after(_BACKTICKS, text, at)


def after_word(text: str, at: int) -> int:
    """The place after the word at a place."""
    while at < len(text):
        if found := _PLAIN.match(text, at):
            at = found.end()
        elif text.startswith(("<(", ">("), at):
            at = after_parentheses(text, at + 2)
        elif text[at] in " \t\n|&;()<>":
            break
        else:
            at = after_special(text, at)
    return at


def after_special(text: str, at: int, *, quoted: bool = False) -> int:
    """The place after the quotation, the escaped character or the substitution at a place."""
    match text[at]:
        case "\\" if at + 1 == len(text):
            raise Unread
        case "\\":
            return at + 2
        case "'" if not quoted:
            return _after(_SINGLE, text, at)
        case '"':
            return _after_double(text, at + 1)
        case "`":
            return after_backticks(text, at)
        case "$":
            if text.startswith("$(", at):
                return after_parentheses(text, at + 2)
            if text.startswith("${", at):
                return _after_braces(text, at + 2, quoted=quoted)
            if text.startswith("$'", at) and not quoted:
                return _after(_ANSI, text, at)
    return at + 1


def _after_double(text: str, at: int) -> int:
    while (at := end_of(_IN_DOUBLE, text, at)) < len(text):
        if text[at] == '"':
            return at + 1
        at = after_special(text, at, quoted=True)
    raise Unread


def _after_braces(text: str, at: int, *, quoted: bool) -> int:
    while (at := end_of(_IN_BRACES, text, at)) < len(text):
        if text[at] == "}":
            return at + 1
        if text.startswith("$(", at):
            at += 2
        else:
            at = after_special(text, at, quoted=quoted)
    raise Unread


def after_parentheses(text: str, at: int) -> int:
    """The place after the parenthesis that closes a substitution whose commands begin at a place."""
    depth = 1
    bodies: list[Body] = []
    while (at := end_of(_IN_PARENTHESES, text, at)) < len(text):
        if text[at] == "#":
            at = text.find("\n", at) % (len(text) + 1)
        elif text[at] == "\n":
            at = after_bodies(text, at + 1, bodies)
            bodies = []
        elif text[at] in "()":
            depth += 1 if text[at] == "(" else -1
            at += 1
            if not depth:
                return at
        elif text.startswith("<<<", at):
            at += 3
        elif found := _BODY.match(text, at):
            if re.search(r"['\"\\]", found[2]):
                raise Unread
            bodies.append(Body(found[2], bool(found[1])))
            at = found.end()
        else:
            at = after_special(text, at)
    raise Unread


def after_bodies(text: str, at: int, bodies: list[Body]) -> int:
    """The place after the bodies of here-documents, which begin at a place."""
    for delimiter, tabs in bodies:
        line = None
        while line != delimiter:
            if at >= len(text):
                raise Unread
            end = text.find("\n", at) % (len(text) + 1)
            while text[end - 1] == "\\" and end > at and end < len(text):
                end = text.find("\n", end + 1) % (len(text) + 1)
            line = text[at:end].replace("\\\n", "")
            line = line.lstrip("\t") if tabs else line
            at = end + 1
    return min(at, len(text))
