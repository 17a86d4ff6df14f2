"""The editor for code that runs in a kernel: one function, which answers with JSON between two tags."""

from __future__ import annotations

import atexit
import functools
import json
import os
import uuid

from glovebox.box.files.editor.editor import Edited, Editor, EditorCommand
from glovebox.box.files.editor.messages import EditorError, invalid, line_number
from glovebox.box.files.linting import lint

#: What the editor says last after a change, and what problems are put before.
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
    """Carry out one command of the editor. What it cannot do is told in the answer."""
    try:
        edited = _editor().run(
            EditorCommand(
                command=str(command),
                path=_path(path),
                file_text=_text("file_text", file_text),
                view_range=view_range,
                old_str=_text("old_str", old_str),
                new_str=_text("new_str", new_str),
                insert_line=line_number(insert_line),
            )
        )
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
    """The editor of this process. What it keeps to undo edits goes when the process ends."""
    editor = Editor(working_dir=None)
    atexit.register(editor.close)
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
