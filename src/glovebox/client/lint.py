"""Mistakes that an edit brings into a file.

Python's own compiler looks at Python files, in a process of its own: a text can be made to crash it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable

import msgspec

from glovebox.client.hunks import visualize
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
    """A mistake, and where it is."""

    line: int
    column: int
    message: str


#: Finds mistakes in a file that it did not have before: path, old text, new text.
Lint = Callable[[str, str, str], Awaitable[list[LintError]]]


async def lint_python(path: str, old: str, new: str) -> list[LintError]:
    """What makes a Python file one that cannot be compiled; nothing if it could not be before, either."""
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
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError):  # then nobody knows
        return []


def lint_failure(path: str, old: str, new: str, errors: list[LintError]) -> str:
    """What an agent is told of an edit that was not made because of its mistakes."""
    shown = [
        f"[begin lint error {number}]\n{_shown(new, error)}\n[end lint error {number}]\n{_LINE}"
        for number, error in enumerate(errors[:_MOST_SHOWN])
    ]
    return (
        f"\n[Linting failed for edited file {path}. {len(errors)} lint errors found.]\n"
        f"[begin attempted changes]\n{visualize(path, old, new, applied=False)}\n[end attempted changes]\n"
        f"{_LINE}{'-' * 20}First {_MOST_SHOWN} lint errors{'-' * 20}\n{''.join(shown)}"
    )


def _shown(text: str, error: LintError) -> str:
    """A mistake with the lines around it."""
    lines = text.split("\n")
    first = max(error.line - _AROUND, 1)
    around = [
        f"{number}|{line}" for number, line in enumerate(lines[first - 1 : error.line + _AROUND], first)
    ]
    return "\n".join([f"Line {error.line}, column {error.column}: {error.message}", *around])
