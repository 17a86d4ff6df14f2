"""Walks a directory tree with a pattern in hand: no link is followed, nothing that cannot match is opened."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import time
from collections.abc import Iterator

from glovebox.box.files.search.glob_pattern import GlobMatcher, State, component_regex

_MAX_IGNORE_FILE = 1_000_000
#: Not files but views of the running system, some of which never end. They are entered only by name.
_NOT_ON_DISK = frozenset({"proc", "sys", "dev"})


class Budget:
    """How long a search may take, unless it is cancelled."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    @property
    def left(self) -> float:
        """Seconds left, 0 when spent."""
        return 0.0 if self._cancelled else max(0.0, self._end - time.monotonic())


@dataclasses.dataclass(frozen=True, slots=True)
class _Ignore:
    """A `.gitignore` that applies here, and the part of a walked path that leads to its directory."""

    rules: IgnoreFile
    #: How many characters of a path below the root come before what the rules are about.
    skip: int
    #: What comes before a path below the root, for a file above the root.
    above: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Directory:
    path: str
    #: From the root, with a slash at the end unless empty.
    prefix: str
    state: State
    ignores: tuple[_Ignore, ...]
    #: Whether it is part of a git repository, whose `.gitignore` files count.
    in_repository: bool


class Walk:
    """One walk; iterate it once, then ask how it went."""

    def __init__(self, root: str, matcher: GlobMatcher, *, gitignore: bool, budget: Budget) -> None:
        self._root = root
        self._matcher = matcher
        self._gitignore = gitignore
        self._budget = budget
        #: Directories that could not be read.
        self.skipped = 0
        #: Paths that `.gitignore` left out (directories count as one).
        self.ignored = 0
        #: Whether the budget ran out.
        self.incomplete = False

    def __iter__(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Every entry that matches, with its path from the root, in no particular order.

        Raises:
            OSError: the root itself cannot be read.
        """
        ignores, in_repository = _above(os.path.realpath(self._root)) if self._gitignore else ((), False)
        stack = [_Directory(self._root, "", self._matcher.start, ignores, in_repository)]
        while stack:
            if not self._budget.left:
                self.incomplete = True
                return
            here = stack.pop()
            try:
                with os.scandir(here.path) as scan:
                    entries = list(scan)
            except OSError:
                if not here.prefix:
                    raise
                # Unreadable, or gone since its parent was read.
                self.skipped += os.path.lexists(here.path)
                continue
            if self._gitignore:
                here = _with_own_ignores(here, entries)
            yield from self._matches(here, entries, stack)

    def _matches(
        self, here: _Directory, entries: list[os.DirEntry[str]], stack: list[_Directory]
    ) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield the matches in one directory, and put directories to enter on the stack."""
        files = self._matcher.leaf(here.state, directories=False)
        directories = self._matcher.leaf(here.state, directories=True)
        for entry in entries:
            name = entry.name
            if _is_directory(entry, follow=False):
                inside = self._matcher.enter(here.state, name)
                wanted = directories is not None and directories(name)
                if not (inside or wanted) or self._ignores(here, name, directory=True):
                    continue
                if wanted:
                    yield here.prefix + name, entry
                if inside and not (here.path == "/" and name in _NOT_ON_DISK):
                    path = here.path + name if here.path == "/" else f"{here.path}/{name}"
                    stack.append(
                        _Directory(path, f"{here.prefix}{name}/", inside, here.ignores, here.in_repository)
                    )
            elif (files is not None and files(name)) or (directories is not None and directories(name)):
                # A link to a directory is a directory to look at and none to enter.
                leads_to_directory = entry.is_symlink() and _is_directory(entry, follow=True)
                matches = directories if leads_to_directory else files
                if matches and matches(name) and not self._ignores(here, name, directory=False):
                    yield here.prefix + name, entry

    def _ignores(self, here: _Directory, name: str, *, directory: bool) -> bool:
        if not here.ignores:
            return False
        path = here.prefix + name
        for ignore in reversed(here.ignores):
            decision = ignore.rules.decides(name, ignore.above + path[ignore.skip :], directory=directory)
            if decision is not None:
                self.ignored += decision
                return decision
        return False


def _above(root: str) -> tuple[tuple[_Ignore, ...], bool]:
    """The ignore files between a directory and the top of its repository, and whether it is in one.

    A root that is ignored itself was named on purpose, so the rules that say so do not count below it.
    """
    way = [root]
    while not os.path.lexists(os.path.join(way[-1], ".git")):
        parent = os.path.dirname(way[-1])
        if parent == way[-1]:
            return (), False
        way.append(parent)
    top = way[-1]
    ignores: list[_Ignore] = []
    # From the top down: each directory's rules, and those before, are asked about the next one.
    for parent, child in itertools.pairwise(reversed(way)):
        found = [_read(os.path.join(parent, ".gitignore"))]
        if parent == top:
            found.insert(0, _read(os.path.join(parent, ".git/info/exclude")))
        below = os.path.relpath(root, parent) + "/"
        ignores += [_Ignore(rules, 0, below) for rules in found if rules is not None]
        if _decision(ignores, root, child):
            return (), True
    return tuple(ignores), True


def _decision(ignores: list[_Ignore], root: str, directory: str) -> bool:
    """Whether a directory on the way to the root is ignored."""
    below = len(root) - len(directory)
    for ignore in reversed(ignores):
        path = ignore.above[: len(ignore.above) - 1 - below]
        decision = ignore.rules.decides(os.path.basename(directory), path, directory=True)
        if decision is not None:
            return decision
    return False


def _with_own_ignores(here: _Directory, entries: list[os.DirEntry[str]]) -> _Directory:
    """Add the rules a directory brings along; a repository inside another starts anew."""
    dotted = {entry.name for entry in entries if entry.name.startswith(".git")}
    ignores, in_repository = here.ignores, here.in_repository
    found: list[IgnoreFile | None] = []
    if ".git" in dotted:
        # At the root nothing is above; elsewhere what is above belongs to another repository.
        ignores, in_repository = (), True
        found.append(_read(os.path.join(here.path, ".git/info/exclude")))
    if in_repository and ".gitignore" in dotted:
        found.append(_read(os.path.join(here.path, ".gitignore")))
    own = tuple(_Ignore(rules, len(here.prefix)) for rules in found if rules is not None)
    if not own and ignores is here.ignores and in_repository == here.in_repository:
        return here
    return dataclasses.replace(here, ignores=ignores + own, in_repository=in_repository)


def _read(path: str) -> IgnoreFile | None:
    """The rules of an ignore file; one that cannot be read has none, nor has a link, as with git."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(descriptor, _MAX_IGNORE_FILE)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    rules = parse_rules(data.decode("utf-8", "surrogateescape"))
    return IgnoreFile(rules) if rules else None


def is_regular(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a file itself, and no link, pipe or device."""
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _is_directory(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:  # a loop of links, or a parent that lets us read names and nothing else
        return False


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One line of a `.gitignore`."""

    regex: str
    #: Whether it is about the path from the file's directory rather than a name at any depth.
    anchored: bool
    negated: bool
    directories_only: bool


def parse_rules(text: str) -> list[Rule]:
    """Read the lines of a `.gitignore`; a line that is no pattern says nothing."""
    lines = text.removeprefix("\ufeff").split("\n")
    rules = (_rule(line.removesuffix("\r")) for line in lines)
    return [rule for rule in rules if rule is not None]


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    line = _without_trailing_spaces(line)
    negated = line.startswith("!")
    pattern = line[negated:]
    directories_only = pattern.endswith("/")
    pattern = pattern[:-1] if directories_only else pattern
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/") if anchored else pattern
    if not pattern:
        return None
    regex = _path_regex(pattern) if anchored else component_regex(pattern)
    return None if regex is None else Rule(regex, anchored, negated, directories_only)


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    # A space behind a backslash is meant.
    return stripped + " " if backslashes % 2 and stripped != line else stripped


def _path_regex(pattern: str) -> str | None:
    """The regular expression for a path; `**` stands for any number of directories."""
    runs: list[list[str]] = [[]]  # the components between the `**`
    for component in pattern.split("/"):
        regex = component_regex(component)
        if regex is None:
            return None
        if component == "**":
            runs.append([])
        else:
            runs[-1].append(regex)
    *inner, last = ["/".join(run) for run in runs]
    # As within a component, the first place a run fits is as good as any later one.
    written = "".join(
        f"(?>(?:[^/]+/)*?{run}/)" if index else f"{run}/" for index, run in enumerate(inner) if run
    )
    if not inner:
        return last
    return written + (f"(?:[^/]+/)*{last}" if last else ".+")


class IgnoreFile:
    """The rules of one `.gitignore`; of those that match a path the last one counts."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = [(rule, re.compile(rule.regex, re.DOTALL).fullmatch) for rule in reversed(rules)]
        # Nearly every path is matched by no rule: one expression each for names and paths finds that out.
        self._any_name = _any([rule.regex for rule in rules if not rule.anchored])
        self._any_path = _any([rule.regex for rule in rules if rule.anchored])

    def decides(self, name: str, path: str, *, directory: bool) -> bool | None:
        """Whether the path (from this file's directory) is ignored; `None` when no rule says."""
        by_name = self._any_name is not None and self._any_name.fullmatch(name)
        by_path = self._any_path is not None and self._any_path.fullmatch(path)
        if not by_name and not by_path:
            return None
        for rule, matches in self._rules:
            if (directory or not rule.directories_only) and matches(path if rule.anchored else name):
                return not rule.negated
        return None


def _any(regexes: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(regexes), re.DOTALL) if regexes else None
