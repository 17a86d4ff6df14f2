from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import RunningBox, running_box

EXTRA = re.compile(r"\n\[Jupyter current working directory: .*\]\n\[Jupyter Python interpreter: .*\]\Z")


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box with kernels that have the functions."""
    pytest.importorskip("ipykernel")
    with running_box(tmp_path_factory.mktemp("skills") / "ws", "--plugins", "jupyter", "agent_skills") as box:
        yield box


def cell(box: RunningBox, code: str) -> str:
    content = box.execute("run_ipython", code=code, timeout=60)["content"]
    assert EXTRA.search(content), content
    return EXTRA.sub("", content)


def test_without_a_notebook_the_plugin_says_so(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--plugins", "agent_skills") as box:
        plugin = box.client.get("/plugins/agent_skills").json()
    assert (plugin["state"], plugin["health"]) == ("running", {"notebook": False})


def test_with_a_notebook_the_plugin_says_so(notebook: RunningBox) -> None:
    assert notebook.client.get("/plugins/agent_skills").json()["health"] == {"notebook": True}


def test_cells_can_look_at_files_and_remember_the_open_one(notebook: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text("line 1\nline 2\n")
    shown = (
        f"[File: {path} (2 lines total)]\n(this is the beginning of the file)\n1|line 1\n2|line 2\n"
        "(this is the end of the file)"
    )
    assert cell(notebook, f"open_file({str(path)!r})") == shown
    assert cell(notebook, "goto_line(2)") == shown
    assert cell(notebook, "search_file('2')").splitlines()[1] == "Line 2: line 2"


def test_cells_can_edit_files_and_undo_it(notebook: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    answer = cell(notebook, f"print(file_editor('create', {str(path)!r}, 'one'))")
    opening, fields, closing = answer.splitlines()
    assert closing == opening.replace("<", "</")
    assert json.loads(fields)["new_content"] == path.read_text() == "one"
    cell(notebook, f"file_editor('str_replace', {str(path)!r}, old_str='one', new_str='two')")
    assert path.read_text() == "two"
    cell(notebook, f"file_editor('undo_edit', {str(path)!r})")
    assert path.read_text() == "one"


def test_cells_can_ask_for_help(notebook: RunningBox) -> None:
    said = cell(notebook, "help(search_dir)")
    assert "search_dir(search_term: str, dir_path: str = './') -> None" in said
    assert "Show every line with a text" in said
