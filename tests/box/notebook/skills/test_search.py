from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from glovebox.box.notebook.skills import find_file, open_file, search_dir, search_file

Capture = pytest.CaptureFixture[str]


def put(path: Path, content: str | bytes = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_lines_are_found_in_all_files_below_a_directory(tmp_path: Path, capsys: Capture) -> None:
    put(tmp_path / "b.txt", "no\n  the needle \r\nNEEDLE\n")
    put(tmp_path / "a/deep/c.txt", "needle needle")
    put(tmp_path / "a/.hidden", "needle")
    put(tmp_path / ".dir/d.txt", "needle")
    put(tmp_path / "latin", b"caf\xe9 needle\n")
    search_dir("needle", str(tmp_path))
    assert capsys.readouterr().out == (
        f'[Found 4 matches for "needle" in {tmp_path}]\n'
        f"{tmp_path}/b.txt (Line 2): the needle\n"
        f"{tmp_path}/latin (Line 1): caf needle\n"
        f"{tmp_path}/.dir/d.txt (Line 1): needle\n"
        f"{tmp_path}/a/deep/c.txt (Line 1): needle needle\n"
        f'[End of matches for "needle" in {tmp_path}]\n'
    )


def test_the_current_directory_is_searched_by_default(here: Path, capsys: Capture) -> None:
    put(here / "a.txt", "needle")
    search_dir("needle")
    find_file("a.t")
    assert capsys.readouterr().out == (
        '[Found 1 matches for "needle" in ./]\n./a.txt (Line 1): needle\n'
        '[End of matches for "needle" in ./]\n'
        '[Found 1 matches for "a.t" in ./]\n./a.txt\n[End of matches for "a.t" in ./]\n'
    )


def test_a_directory_without_the_text_is_named_as_it_was_given(here: Path, capsys: Capture) -> None:
    (here / "sub").mkdir()
    search_dir("needle", "sub/")
    search_dir("needle", "./sub")
    assert capsys.readouterr().out == (
        'No matches found for "needle" in sub/\nNo matches found for "needle" in ./sub\n'
    )


def test_matches_in_a_hundred_files_are_shown_and_in_more_are_counted(
    tmp_path: Path, capsys: Capture
) -> None:
    for number in range(100):
        put(tmp_path / f"f{number}", "bulk\nbulk\n")
    search_dir("bulk", str(tmp_path))
    assert capsys.readouterr().out.startswith(f'[Found 200 matches for "bulk" in {tmp_path}]\n')
    put(tmp_path / "one-more", "bulk")
    search_dir("bulk", str(tmp_path))
    assert capsys.readouterr().out == (
        f'More than 101 files matched for "bulk" in {tmp_path}. Please narrow your search.\n'
    )


def test_links_that_lead_nowhere_and_pipes_are_passed_over(tmp_path: Path, capsys: Capture) -> None:
    put(tmp_path / "a", "needle")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe")
    search_dir("needle", str(tmp_path))
    assert capsys.readouterr().out.splitlines()[1:-1] == [
        f"{tmp_path}/a (Line 1): needle",
        f"{tmp_path}/link (Line 1): needle",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_could_not_be_read_are_mentioned(tmp_path: Path, capsys: Capture) -> None:
    put(tmp_path / "a", "needle")
    (tmp_path / "a").chmod(0)
    search_dir("needle", str(tmp_path))
    assert capsys.readouterr().out == (
        f'No matches found for "needle" in {tmp_path}\n'
        f"[1 files could not be read, first {tmp_path}/a: Permission denied]\n"
    )


@pytest.mark.parametrize("place", ["missing", "file", "", "a\0b", None, 5])
def test_what_is_no_directory_is_not_found(here: Path, capsys: Capture, place: Any) -> None:
    put(here / "file")
    search_dir("x", place)
    find_file("x", place)
    assert capsys.readouterr().out == 2 * f"ERROR: Directory {place} not found\n"


@pytest.mark.parametrize("term", [None, 5, b"x"])
def test_what_is_no_text_cannot_be_searched_for(here: Path, capsys: Capture, term: Any) -> None:
    put(here / "a", "x")
    search_dir(term)
    search_file(term, "a")
    find_file(term)
    assert capsys.readouterr().out == (
        2 * f"ERROR: search_term must be a string, not {term!r}.\n"
        + f"ERROR: file_name must be a string, not {term!r}.\n"
    )


def test_lines_are_found_in_one_file(tmp_path: Path, capsys: Capture) -> None:
    put(tmp_path / "with space", "one\n  two ne.dle \nneedle\nne.dle ne.dle")
    search_file("ne.dle", str(tmp_path / "with space"))
    assert capsys.readouterr().out == (
        f'[Found 2 matches for "ne.dle" in {tmp_path}/with space]\n'
        "Line 2: two ne.dle\n"
        "Line 4: ne.dle ne.dle\n"
        f'[End of matches for "ne.dle" in {tmp_path}/with space]\n'
    )


def test_the_open_file_is_searched_by_default(here: Path, capsys: Capture) -> None:
    put(here / "a", "Line 1\nLine 2\n")
    search_file("Line 2")
    assert capsys.readouterr().out == (
        "ERROR: No file specified or open. Use the open_file function first.\n"
    )
    open_file("a")
    capsys.readouterr()
    search_file("Line 2")
    search_file("line 2")
    assert capsys.readouterr().out == (
        f'[Found 1 matches for "Line 2" in {here}/a]\nLine 2: Line 2\n'
        f'[End of matches for "Line 2" in {here}/a]\n'
        f'[No matches found for "line 2" in {here}/a]\n'
    )


def test_a_file_to_search_must_be_there_and_be_text(here: Path, capsys: Capture) -> None:
    put(here / "b", b"\0needle")
    search_file("needle", "missing")
    search_file("needle", str(here))
    search_file("needle", "b")
    assert capsys.readouterr().out == (
        "ERROR: File missing not found.\n"
        f"ERROR: File {here} not found.\n"
        "ERROR: File b is binary and cannot be shown as text.\n"
    )


def test_files_are_found_by_a_part_of_their_name(tmp_path: Path, capsys: Capture) -> None:
    for name in ("long.txt", "b/long.txt.bak", "a/.long.txt", "a/other", "long.txt.d/x", "LONG.TXT"):
        put(tmp_path / name)
    find_file("long.txt", str(tmp_path))
    assert capsys.readouterr().out == (
        f'[Found 3 matches for "long.txt" in {tmp_path}]\n'
        f"{tmp_path}/long.txt\n{tmp_path}/a/.long.txt\n{tmp_path}/b/long.txt.bak\n"
        f'[End of matches for "long.txt" in {tmp_path}]\n'
    )
    find_file("*.txt", str(tmp_path))
    assert capsys.readouterr().out == f'[No matches found for "*.txt" in {tmp_path}]\n'


def test_names_that_are_not_utf_8_can_be_printed(tmp_path: Path, capsys: Capture) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).write_text("needle")
    find_file("caf", str(tmp_path))
    search_dir("needle", str(tmp_path))
    assert capsys.readouterr().out.count("/caf\ufffd") == 2
