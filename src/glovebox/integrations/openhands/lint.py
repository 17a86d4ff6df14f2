"""Errors that an edit introduces, and how an edit is shown to an agent: as a diff or as hunks.

Python files are checked by Python's compiler, in a separate process because some texts crash it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from difflib import SequenceMatcher, unified_diff

import msgspec

from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message

_SECONDS = 20.0
_MOST_SHOWN = 5
_AROUND = 2
_LINE = "-" * 40 + "\n"
_COMPILE = """\
import json, sys, warnings
warnings.simplefilter("ignore")
try:
    compile(sys.stdin.buffer.read(), "", "exec", dont_inherit=True)
except SyntaxError as error:
    print(json.dumps({"line": error.lineno or 1, "column": error.offset or 1, "message": str(error.msg)}))
except (ValueError, RecursionError, MemoryError) as error:
    print(json.dumps({"line": 1, "column": 1, "message": str(error)}))
"""


class LintError(Message):
    """An error, and its position."""

    line: int
    column: int
    message: str


#: Finds the errors that an edit introduces: path, old text, new text.
Lint = Callable[[str, str, str], Awaitable[list[LintError]]]


async def lint_python(path: str, old: str, new: str) -> list[LintError]:
    """The syntax error of a Python file; none if the old text had one, too."""
    if not path.endswith((".py", ".pyi")):
        return []
    found = await asyncio.to_thread(_compile, new)
    return found if found and not await asyncio.to_thread(_compile, old) else []


def _compile(text: str) -> list[LintError]:
    try:
        end = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _COMPILE],
            input=text.encode(errors="replace"),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        return [decode_json(end.stdout, LintError)] if end.stdout else []
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError):
        return []


def lint_failure(path: str, old: str, new: str, errors: list[LintError]) -> str:
    """The message to an agent whose edit was not applied because of errors."""
    shown = [
        f"[begin lint error {number}]\n{_shown(new, error)}\n[end lint error {number}]\n{_LINE}"
        for number, error in enumerate(errors[:_MOST_SHOWN])
    ]
    return (
        f"\n[Linting failed for edited file {path}. {len(errors)} lint errors found.]\n"
        f"[begin attempted changes]\n{_show_attempt(path, old, new)}\n[end attempted changes]\n"
        f"{_LINE}{'-' * 20}First {_MOST_SHOWN} lint errors{'-' * 20}\n{''.join(shown)}"
    )


def _shown(text: str, error: LintError) -> str:
    """An error with the lines around it."""
    lines = text.split("\n")
    first = max(error.line - _AROUND, 1)
    around = [
        f"{number}|{line}" for number, line in enumerate(lines[first - 1 : error.line + _AROUND], first)
    ]
    return "\n".join([f"Line {error.line}, column {error.column}: {error.message}", *around])


def diff(old: str, new: str, path: str) -> str:
    """The unified diff of two texts, every line trimmed at the right; empty if they are equal."""
    lines = unified_diff(old.split("\n"), new.split("\n"), path, path, n=0, lineterm="")
    return "\n".join(line.rstrip() for line in lines)


def _show_attempt(path: str, old: str, new: str) -> str:
    """The hunks of an edit that was not applied, with the lines before and after."""
    before, after = old.split("\n"), new.split("\n")
    groups = list(SequenceMatcher(None, before, after).get_grouped_opcodes(_AROUND))
    shown = [f"[Changes are NOT applied to {path} - Here's how the file looks like if changes are applied.]"]
    for number, group in enumerate(groups, 1):
        if number > 1:
            shown.append("-" * 25)
        width = len(str(group[-1][3])) + 1
        shown += [
            f"[begin of ATTEMPTED edit {number} / {len(groups)}]",
            "(content before ATTEMPTED edit)",
            *(line for code in group for line in _side(before, code[0], code[1], code[2], "-", width)),
            "(content after ATTEMPTED edit)",
            *(line for code in group for line in _side(after, code[0], code[3], code[4], "+", width)),
            f"[end of ATTEMPTED edit {number} / {len(groups)}]",
        ]
    return "\n".join(shown)


def _side(lines: list[str], tag: str, start: int, stop: int, sign: str, width: int) -> list[str]:
    numbered = enumerate(lines[start:stop], start + 1)
    if tag == "equal":
        return [f"{number:>{width}}|{line}" for number, line in numbered]
    return [f"{sign}{number:>{width - 1}}|{line}" for number, line in numbered]
