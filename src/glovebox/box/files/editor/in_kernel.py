"""The editor for code in a kernel: one function, which answers with JSON between two tags."""

from __future__ import annotations

import atexit
import difflib
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import uuid
import warnings
from typing import NamedTuple

from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.files.editor.editor import Edited, Editor, EditorCommand
from glovebox.box.files.editor.messages import EditorError, invalid, line_number
from glovebox.box.files.machine import complete

#: The last sentence after a change begins with this; problems are inserted before it.
_ADVICE = "Review the changes"


def file_editor(
    command: str,
    path: object,
    file_text: object = None,
    view_range: object = None,
    old_str: object = None,
    new_str: object = None,
    insert_line: object = None,
    enable_linting: bool = False,
) -> str:
    """Carry out one command of the editor. Errors are part of the answer."""
    try:
        wanted = EditorCommand(
            command=str(command),
            path=_path(path),
            file_text=_text("file_text", file_text),
            view_range=view_range,
            old_str=_text("old_str", old_str),
            new_str=_text("new_str", new_str),
            insert_line=line_number(insert_line),
        )
        edited = complete(_editor().run, wanted)
    except EditorError as error:
        return _failed(str(error))
    except ImportError as error:
        # A kernel may run another Python than the box, and few files need what is not there.
        return _failed(f"{path} can only be read with the package {error.name}: %pip install {error.name}")
    output = _with_problems(edited) if enable_linting else edited.output
    fields = {
        "output": output,
        "error": None,
        "path": edited.path,
        "prev_exist": edited.prev_exist,
        "old_content": edited.old_content,
        "new_content": edited.new_content,
    }
    return _tagged(fields, output)


@functools.cache
def _editor() -> Editor:
    """The editor of this process. Its history of edits is removed when the process ends."""
    editor = Editor(LocalFiles())
    atexit.register(complete, editor.close)
    return editor


def _with_problems(edited: Edited) -> str:
    """The answer to a change, with what it broke."""
    before, advice, after = edited.output.rpartition(_ADVICE)
    if not advice or edited.old_content is None or edited.new_content is None:
        return edited.output
    return f"{before}\n{lint(edited.path, edited.old_content, edited.new_content)}\n{advice}{after}"


def _failed(error: str) -> str:
    return _tagged({"output": None, "error": error}, f"ERROR:\n{error}")


def _tagged(fields: dict[str, str | bool | None], formatted: str) -> str:
    """The answer, spaced as the contract has it. The tags are new each time, so that no file has them."""
    tag = f"oh_aci_output_{uuid.uuid4().hex}"
    shown = ",".join(f'"{name}": {json.dumps(value)}' for name, value in fields.items())
    return f'<{tag}>\n{{{shown}, "formatted_output_and_error": {json.dumps(formatted)}}}\n</{tag}>'


def _path(value: object) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise invalid("path", value, "It should be a string.")
    return path


def _text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise invalid(name, value, "It should be a string.")
    return value


#: Mistakes that make a program fail; style is not looked at.
_CHECKS = "F821,F822,F831,E112,E113,E999,E902"
_FOUND = re.compile(r"^(\d+):(\d+):(.*)$", re.MULTILINE)
_SECONDS = 30


class Problem(NamedTuple):
    """A problem and its place."""

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
