"""Problems that a change brings into a Python file."""

from __future__ import annotations

import difflib
import importlib.util
import re
import subprocess
import sys
import warnings
from typing import NamedTuple

#: Mistakes that make a program fail; style is not looked at.
_CHECKS = "F821,F822,F831,E112,E113,E999,E902"
_FOUND = re.compile(r"^(\d+):(\d+):(.*)$", re.MULTILINE)
_SECONDS = 30


class Problem(NamedTuple):
    """What is wrong, and where."""

    line: int
    column: int
    message: str


class _NotChecked(Exception):
    """The full check cannot be made; the text says why."""


def lint(path: str, old: str, new: str) -> str:
    """What is wrong with the new text of a file that was not wrong with the old one, in a few lines."""
    if not path.endswith(".py"):
        return "Only Python files are checked for problems."
    note = ""
    try:
        before, after = _flake8(old), _flake8(new)
    except _NotChecked as reason:
        before, after = _syntax(old), _syntax(new)
        note = f"Only the syntax was checked: {reason}\n"
    known = _moved(before, old, new)
    found = [problem for problem in after if problem not in known]
    if not found:
        return f"No linting issues found in the changes.{' ' + note.strip() if note else ''}"
    lines = [f"- Line {line}, Column {column}: {message}\n" for line, column, message in found]
    return f"Linting issues found in the changes:\n{''.join(lines)}{note}"


def _moved(problems: list[Problem], old: str, new: str) -> set[Problem]:
    """The problems of lines that did not change, where those lines are now."""
    matcher = difflib.SequenceMatcher(None, old.split("\n"), new.split("\n"), autojunk=False)
    places = {
        block.a + offset + 1: block.b + offset + 1
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
    return {problem._replace(line=places[problem.line]) for problem in problems if problem.line in places}


def _flake8(text: str) -> list[Problem]:
    if importlib.util.find_spec("flake8") is None:
        raise _NotChecked("the package flake8 is not installed (%pip install flake8).")
    if "\0" in text:
        raise _NotChecked("flake8 says nothing about NUL characters.")
    arguments = [
        "-m",
        "flake8",
        "--isolated",
        f"--select={_CHECKS}",
        "--format=%(row)d:%(col)d:%(code)s %(text)s",
    ]
    try:
        checked = subprocess.run(
            [sys.executable, *arguments, "-"],
            input=text.encode(errors="replace"),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _NotChecked(f"{error}.") from None
    if checked.returncode not in (0, 1):
        raise _NotChecked("flake8 failed.")
    shown = checked.stdout.decode(errors="replace")
    return [Problem(int(line), int(column), message) for line, column, message in _FOUND.findall(shown)]


def _syntax(text: str) -> list[Problem]:
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, "", "exec", dont_inherit=True)
    except SyntaxError as error:
        return [Problem(error.lineno or 1, error.offset or 1, error.msg)]
    except (ValueError, RecursionError, MemoryError) as error:  # NUL characters, or nested too deeply
        return [Problem(1, 1, str(error))]
    return []
