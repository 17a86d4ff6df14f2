"""Path patterns: `*`, `?`, `[...]`, `**` and `{a,b}`, compiled into a matcher that walks along. No I/O.

A pattern without a slash is meant for names at any depth; with one it starts at the directory searched.
A trailing slash asks for directories. Wildcards leave hidden names out unless `hidden` is set, and `.git` in
any case: only its name matches it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterator

from glovebox.box.ripgrep import InvalidPattern

_MAX_ALTERNATIVES = 1000
_MAX_LENGTH = 4096
_MAX_DEPTH = 20
_ANY_DEPTH = "**"
_POSIX_NAME = re.compile(r"\[:([a-z]+):\]")

#: The names of `[[:name:]]`, which are ASCII everywhere.
_POSIX: dict[str, tuple[tuple[int, int], ...]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x09), (0x0B, 0x7F)),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x09), (0x0B, 0x1F), (0x7F, 0x7F)),
    "digit": ((0x30, 0x39),),
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x09), (0x0B, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}

#: Where a walk stands in a pattern: pairs of alternative and component.
State = frozenset[tuple[int, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Alternative:
    """One path pattern without braces, as components; `**` is a component of its own."""

    components: tuple[str, ...]
    directories: bool


@dataclasses.dataclass(frozen=True, slots=True)
class GlobPattern:
    """A parsed pattern: the directory it names plainly, and what is wanted below that."""

    base: str
    alternatives: tuple[Alternative, ...]


def parse_glob(pattern: str) -> GlobPattern:
    """Read a path pattern.

    Raises:
        InvalidPattern: it is empty, a bracket or brace is not closed, or `..` follows a wildcard.
    """
    if not pattern:
        raise InvalidPattern("the pattern is empty", 0)
    if len(pattern) > _MAX_LENGTH or "\0" in pattern:
        raise InvalidPattern(f"a pattern has at most {_MAX_LENGTH} characters and none of them is NUL", 0)
    _check_brackets(pattern)
    spellings = list(itertools.islice(_expanded(pattern), _MAX_ALTERNATIVES + 1))
    if len(spellings) > _MAX_ALTERNATIVES:
        raise InvalidPattern(
            f"the braces stand for more than {_MAX_ALTERNATIVES} patterns", pattern.index("{")
        )
    absolute = pattern.startswith("/")
    if any(spelling.startswith("/") != absolute for spelling in spellings):
        raise InvalidPattern("a slash at the start must stand before the braces", pattern.index("{"))
    alternatives = [item for item in map(_alternative, dict.fromkeys(spellings)) if item.components]
    if not alternatives:
        raise InvalidPattern("the pattern names no file", 0)
    return _based(absolute, alternatives)


def _check_brackets(pattern: str) -> None:
    """Find what is not closed while its place in the pattern is still known."""
    braces: list[int] = []
    at = 0
    while at < len(pattern):
        end = _unit(pattern, at)
        sign = pattern[at]
        if sign == "\\" and end == at + 1:
            raise InvalidPattern("a backslash at the end; write \\\\ for the character itself", at)
        if sign == "[" and end == at + 1:
            raise InvalidPattern("this [ is not closed; write \\[ for the character itself", at)
        if sign == "{":
            braces.append(at)
            if len(braces) > _MAX_DEPTH:
                raise InvalidPattern(f"braces are nested more than {_MAX_DEPTH} deep", at)
        elif sign == "}":
            if not braces:
                raise InvalidPattern("this } was not opened; write \\} for the character itself", at)
            braces.pop()
        at = end
    if braces:
        raise InvalidPattern("this { is not closed; write \\{ for the character itself", braces[-1])


def _unit(pattern: str, at: int) -> int:
    """Where the character, escape or set at `at` ends; an unfinished one is a character."""
    if pattern[at] == "\\":
        return min(at + 2, len(pattern))
    if pattern[at] == "[":
        return _set_end(pattern, at) or at + 1
    return at + 1


def _set_end(pattern: str, at: int) -> int | None:
    """Where the set that opens at `at` ends; a set does not reach over a slash."""
    end = at + 1
    if pattern[end : end + 1] in ("!", "^"):
        end += 1
    first = end
    while end < len(pattern) and pattern[end] != "/":
        posix = _POSIX_NAME.match(pattern, end)
        if posix is not None:
            end = posix.end()
        elif pattern[end] == "]" and end > first:
            return end + 1
        else:
            end += 2 if pattern[end] == "\\" else 1
    return None


def _expanded(pattern: str) -> Iterator[str]:
    """The patterns that braces stand for, in order."""
    at = 0
    while at < len(pattern) and pattern[at] != "{":
        at = _unit(pattern, at)
    if at >= len(pattern):
        yield pattern
        return
    parts, end = _brace_parts(pattern, at)
    for part in parts:
        for middle in _expanded(part):
            for rest in _expanded(pattern[end:]):
                yield pattern[:at] + middle + rest


def _brace_parts(pattern: str, at: int) -> tuple[list[str], int]:
    """The alternatives of the brace at `at`, and where it ends."""
    parts: list[str] = []
    depth = 1
    at = start = at + 1
    while True:
        sign = pattern[at]
        if depth == 1 and sign in ",}":
            parts.append(pattern[start:at])
            start = at + 1
            if sign == "}":
                return parts, start
        depth += {"{": 1, "}": -1}.get(sign, 0)
        at = _unit(pattern, at)


def _alternative(spelling: str) -> Alternative:
    directories = spelling.endswith("/") and spelling != "/"
    components: list[str] = []
    for component in spelling.split("/"):
        if component in ("", ".") or (component == _ANY_DEPTH and components[-1:] == [_ANY_DEPTH]):
            continue
        components.append(component)
    if "/" not in spelling.rstrip("/"):
        components = components if components[:1] in ([_ANY_DEPTH], [".."], []) else [_ANY_DEPTH, *components]
    if components[-1:] == [_ANY_DEPTH]:
        components.append("*")
    return Alternative(tuple(components), directories)


def _based(absolute: bool, alternatives: list[Alternative]) -> GlobPattern:
    """Take off the plain directories all alternatives start with, so that a walk starts below them."""
    base: list[str] = []
    while all(len(item.components) > 1 for item in alternatives):
        first = alternatives[0].components[0]
        if not _is_plain(first) or any(item.components[0] != first for item in alternatives):
            break
        base.append(_unescaped(first))
        alternatives = [dataclasses.replace(item, components=item.components[1:]) for item in alternatives]
    if any(".." in item.components for item in alternatives):
        raise InvalidPattern("'..' may only be followed by names, and stand before any wildcard or brace", 0)
    return GlobPattern(("/" if absolute else "") + "/".join(base), tuple(alternatives))


def _is_plain(component: str) -> bool:
    return component != _ANY_DEPTH and not re.search(r"(?<!\\)(?:\\\\)*[*?\[]", component)


def _unescaped(component: str) -> str:
    return re.sub(r"\\(.)", r"\1", component, flags=re.DOTALL)


class GlobMatcher:
    """Decides which entries of a directory match and which directories may hold more."""

    def __init__(self, glob: GlobPattern, *, hidden: bool) -> None:
        self._alternatives = glob.alternatives
        self._hidden = hidden
        self._leaves: dict[tuple[State, bool], Callable[[str], object] | None] = {}
        #: The state at the directory the pattern is relative to.
        self.start: State = self._closed({(index, 0) for index in range(len(glob.alternatives))})

    def matches(self, path: str, *, directory: bool = False) -> bool:
        """Whether the path, relative to the pattern's base, matches."""
        *parents, name = path.split("/")
        state = self.start
        for parent in parents:
            state = self.enter(state, parent)
        leaf = self.leaf(state, directories=directory)
        return leaf is not None and bool(leaf(name))

    def enter(self, state: State, name: str) -> State:
        """The state inside the directory `name`; empty when nothing below can match."""
        reached: set[tuple[int, int]] = set()
        for alternative, at in state:
            components = self._alternatives[alternative].components
            if components[at] == _ANY_DEPTH:
                if self._visible(name):
                    reached.add((alternative, at))
            elif at + 1 < len(components) and self._component(components[at]).fullmatch(name):
                reached.add((alternative, at + 1))
        return state if reached == state else self._closed(reached)

    def leaf(self, state: State, *, directories: bool) -> Callable[[str], object] | None:
        """A function that returns whether a name matches in this state; `None` when none does."""
        key = (state, directories)
        if key not in self._leaves:
            self._leaves[key] = self._leaf(state, directories)
        return self._leaves[key]

    def _leaf(self, state: State, directories: bool) -> Callable[[str], object] | None:
        last = [
            self._component(item.components[at]).pattern
            for item, at in ((self._alternatives[index], at) for index, at in sorted(state))
            if at == len(item.components) - 1 and item.directories == directories
        ]
        return re.compile("|".join(last), re.DOTALL).fullmatch if last else None

    def _closed(self, state: set[tuple[int, int]]) -> State:
        """Add what follows a `**`, which may stand for nothing."""
        after = {
            (index, at + 1)
            for index, at in state
            if self._alternatives[index].components[at : at + 1] == (_ANY_DEPTH,)
        }
        known = {(index, at) for index, at in state | after if at < len(self._alternatives[index].components)}
        return frozenset(known)

    def _visible(self, name: str) -> bool:
        return not name.startswith(".") or (self._hidden and name != ".git")

    def _component(self, component: str) -> re.Pattern[str]:
        return _compiled(component, self._hidden)


@functools.lru_cache(maxsize=1000)
def _compiled(component: str, hidden: bool) -> re.Pattern[str]:
    if _is_plain(component):
        return re.compile(re.escape(_unescaped(component)))
    guard = r"(?!\.git\Z)" if hidden or component.startswith(".") else r"(?!\.)"
    return re.compile(guard + (component_regex(component) or ""), re.DOTALL)


def component_regex(component: str) -> str | None:
    """The regular expression for one component with wildcards, `None` for one that is malformed."""
    runs = [""]  # the text between the stars
    at = 0
    while at < len(component):
        sign, end = component[at], _unit(component, at)
        if sign in "\\[" and end == at + 1:
            return None
        if sign == "*":
            runs.append("")
        elif sign == "?":
            runs[-1] += "[^/]"
        elif sign == "[":
            runs[-1] += _set_regex(component[at + 1 : end - 1])
        else:
            runs[-1] += re.escape(component[end - 1])
        at = end
    if len(runs) == 1:
        return runs[0]
    # The first place a run fits is as good as any later one, so there is no need to ever come back for
    # another: that keeps a pattern of many stars from taking forever.
    inner = "".join(f"(?>[^/]*?{run})" for run in runs[1:-1] if run)
    return f"{runs[0]}{inner}[^/]*{runs[-1]}"


def _set_regex(body: str) -> str:
    """The regular expression for the inside of a set."""
    negated = body[:1] in ("!", "^")
    body = body[negated:]
    members: list[tuple[int, int]] = []
    at = 0
    while at < len(body):
        posix = _POSIX_NAME.match(body, at)
        if posix is not None:
            members.extend(_POSIX.get(posix[1], ()))
            at = posix.end()
            continue
        low, at = _member(body, at)
        high = low
        if body[at : at + 1] == "-" and at + 1 < len(body):
            high, at = _member(body, at + 1)
        if low <= high:
            members.append((low, high))
    written = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in members)
    if negated:
        return f"[^/{written}]"
    return f"(?!/)[{written}]" if members else "(?!)"


def _member(body: str, at: int) -> tuple[int, int]:
    at += body[at] == "\\" and at + 1 < len(body)
    return ord(body[at]), at + 1
