from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glovebox.box.files.editor.in_kernel import lint
from glovebox.box.notebook.skills import file_editor

ANSWER = re.compile(r"<(oh_aci_output_[0-9a-f]{32})>\n(\{.*\})\n</\1>")


def edit(command: Any, path: Any, **arguments: Any) -> dict[str, Any]:
    """What the editor answers, without the tags."""
    answer = file_editor(command, path, **arguments)
    match = ANSWER.fullmatch(answer)
    assert match, answer
    fields: dict[str, Any] = json.loads(match[2])
    assert fields["formatted_output_and_error"] == (fields["output"] or f"ERROR:\n{fields['error']}")
    return fields


def test_the_answer_is_spaced_as_in_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text("line 1\nä\n")
    answer = re.sub("[0-9a-f]{32}", "ID", file_editor("view", str(path)))
    head = f"Here's the result of running `cat -n` on {path}:"
    listing = head + r"\n     1\tline 1\n     2\t\u00e4\n     3\t\n"
    assert answer == (
        f'<oh_aci_output_ID>\n{{"output": "{listing}","error": null,"path": "{path}","prev_exist": true,'
        f'"old_content": null,"new_content": null, "formatted_output_and_error": "{listing}"}}\n'
        "</oh_aci_output_ID>"
    )
    answer = re.sub("[0-9a-f]{32}", "ID", file_editor("view", "s.txt"))
    error = "Invalid `path` parameter: s.txt. The path should be an absolute path, starting with `/`."
    assert answer == (
        f'<oh_aci_output_ID>\n{{"output": null,"error": "{error}", '
        f'"formatted_output_and_error": "ERROR:\\n{error}"}}\n</oh_aci_output_ID>'
    )


def test_two_answers_never_have_the_same_tag(tmp_path: Path) -> None:
    assert file_editor("view", str(tmp_path)) != file_editor("view", str(tmp_path))


def test_a_file_is_created_changed_and_changed_back(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    created = edit("create", str(path), file_text="one\ntwo\n")
    assert created["output"] == f"File created successfully at: {path}"
    assert (created["prev_exist"], created["old_content"]) == (False, None)
    assert created["new_content"] == path.read_text() == "one\ntwo\n"
    replaced = edit("str_replace", str(path), old_str="two", new_str="three")
    assert (replaced["old_content"], replaced["new_content"]) == ("one\ntwo\n", "one\nthree\n")
    inserted = edit("insert", str(path), insert_line=0, new_str="zero")
    assert inserted["new_content"] == path.read_text() == "zero\none\nthree\n"
    assert edit("undo_edit", str(path))["new_content"] == "one\nthree\n"
    assert edit("undo_edit", str(path))["new_content"] == path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("line", [1, 1.0, "1"])
def test_a_line_number_may_be_any_whole_number(tmp_path: Path, line: Any) -> None:
    path = tmp_path / "a"
    path.write_text("one\ntwo\n")
    edit("insert", str(path), insert_line=line, new_str="new")
    assert path.read_text() == "one\nnew\ntwo\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"command": "frob"}, "Unrecognized command frob. The allowed commands for the oh_editor tool are: "),
        ({"command": None}, "Unrecognized command None. "),
        ({"command": "insert", "new_str": "x"}, "Parameter `insert_line` is required for command: insert."),
        ({"command": "insert", "new_str": "x", "insert_line": "x"}, "Invalid insert_line value: 'x'."),
        ({"command": "insert", "new_str": 5, "insert_line": 0}, "Invalid `new_str` parameter: 5. "),
        ({"command": "str_replace", "old_str": b"x"}, "Invalid `old_str` parameter: b'x'. "),
        ({"command": "create", "file_text": 5}, "Invalid `file_text` parameter: 5. "),
        ({"command": "view", "view_range": "a"}, "Invalid `view_range` parameter: a. "),
        ({"command": "view", "path": None}, "Invalid `path` parameter: None. "),
        ({"command": "view", "path": 5}, "Invalid `path` parameter: 5. "),
        ({"command": "view", "path": "/a\0b"}, "Invalid `path` parameter: /a\0b. "),
    ],
)
def test_wrong_arguments_are_answered_in_words(tmp_path: Path, arguments: dict[str, Any], error: str) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")
    answer = edit(**({"path": str(path)} | arguments))
    assert answer["output"] is None
    assert answer["error"].startswith(error)
    assert path.read_text() == "one\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_lack_of_permission_is_answered_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")
    path.chmod(0)
    assert "Permission denied" in edit("view", str(path))["error"]
    path.chmod(0o400)
    assert edit("str_replace", str(path), old_str="one", new_str="two")["error"].startswith("Ran into ")


def test_what_is_kept_to_undo_edits_goes_with_the_process(tmp_path: Path) -> None:
    code = (
        "from glovebox.box.notebook.skills import *; import os, tempfile\n"
        f"file_editor('create', {str(tmp_path / 'a')!r}, 'text')\n"
        "print([name for name in os.listdir(tempfile.gettempdir()) if name.startswith('glovebox-history-')])"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "glovebox-history-" in done.stdout
    assert list(scratch.iterdir()) == []


def test_a_python_without_packages_can_edit_and_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9 au lait, s'il vous pla\xeet\n")
    code = (
        f"import sys; sys.path.append({str(Path(__file__).parents[4] / 'src')!r})\n"
        "from glovebox.box.notebook.skills import *\n"
        f"print(file_editor('create', {str(tmp_path / 'b')!r}, 'text'))\n"
        f"print(file_editor('view', {str(tmp_path / 'a')!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    created, viewed = (json.loads(match[1]) for match in ANSWER.findall(done.stdout))
    assert created["output"] == f"File created successfully at: {tmp_path}/b"
    assert viewed["error"] == (
        f"{tmp_path}/a can only be read with the package charset_normalizer: %pip install charset_normalizer"
    )


def test_problems_of_a_change_come_before_the_advice(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("def f():\n    return 1\n")
    said = edit("str_replace", str(path), old_str="1", new_str="(1", enable_linting=True)["output"]
    assert re.search(
        r"\n     3\t\n\nLinting issues found in the changes:\n- Line 2, Column \d+: .*'\(' was never closed\n"
        r"(Only .*\n)?\nReview the changes and make sure",
        said,
    ), said
    said = edit("str_replace", str(path), old_str="(1", new_str="2", enable_linting=True)["output"]
    assert "\n     3\t\n\nNo linting issues found in the changes." in said
    said = edit("insert", str(path), insert_line=0, new_str="(")["output"]
    assert "Linting" not in said


def test_only_problems_that_are_new_are_told() -> None:
    assert "No linting issues found" in lint("a.py", "x = 1\n(\n", "y = 2\nx = 1\n(\n")
    assert "- Line 1, " in lint("a.py", "x = 1\n", "(\n")
    assert "- Line 2, " in lint("a.py", "[\n", "\n(\n")


def test_text_that_no_parser_takes_is_a_problem_not_a_crash() -> None:
    assert "Linting issues found" in lint("a.py", "", "x = '\0'\n")
    assert "Linting issues found" in lint("a.py", "", "(" * 10_000)


def test_of_other_files_it_is_said_that_they_are_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    path.write_text("f(1)\n")
    said = edit("str_replace", str(path), old_str="1", new_str="(", enable_linting=True)["output"]
    assert "\nOnly Python files are checked for problems.\nReview the changes" in said


def test_with_flake8_names_that_are_not_there_are_found() -> None:
    pytest.importorskip("flake8")
    assert lint("a.py", "old_bad\n", "qq\nimport os\nold_bad\n") == (
        "Linting issues found in the changes:\n- Line 1, Column 1: F821 undefined name 'qq'\n"
    )


def test_without_flake8_it_is_said_that_only_the_syntax_was_checked() -> None:
    code = (
        f"import sys; sys.path.append({str(Path(__file__).parents[4] / 'src')!r})\n"
        "from glovebox.box.files.editor.in_kernel import lint; print(lint('a.py', '', 'x\\n'))"
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == (
        "No linting issues found in the changes. "
        "Only the syntax was checked: the package flake8 is not installed (%pip install flake8).\n"
    )
