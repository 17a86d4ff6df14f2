"""What `.gitignore` files leave out, by git's own rules. No I/O."""

from __future__ import annotations

import dataclasses
import re

from glovebox.box.files.search.globbing import component_regex


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
        # Nearly every path is matched by no rule: one question each for its name and its path tells.
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
