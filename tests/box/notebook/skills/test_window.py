from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glovebox.box.notebook.skills import goto_line, open_file, scroll_down, scroll_up
from glovebox.box.notebook.skills.text_files import SIZE, bounds

MORE = "[Use `scroll_down` to view the next 100 lines of the file!]\n"
NOT_OPEN = "ERROR: No file open. Use the open_file function first.\n"
Capture = pytest.CaptureFixture[str]


def window(path: Path, total: int, first: int, last: int) -> str:
    """What is printed for lines that say their number."""
    lines = [f"[File: {path} ({total} lines total)]"]
    lines.append("(this is the beginning of the file)" if first == 1 else f"({first - 1} more lines above)")
    lines += [f"{number}|Line {number}" for number in range(first, last + 1)]
    lines.append("(this is the end of the file)" if last == total else f"({total - last} more lines below)")
    return "\n".join(lines) + "\n"


def numbered(path: Path, total: int) -> str:
    path.write_text("".join(f"Line {number}\n" for number in range(1, total + 1)))
    return str(path)


def test_a_short_file_is_shown_as_a_whole(tmp_path: Path, capsys: Capture) -> None:
    open_file(numbered(tmp_path / "a.txt", 5))
    assert capsys.readouterr().out == (
        f"[File: {tmp_path}/a.txt (5 lines total)]\n"
        "(this is the beginning of the file)\n"
        "1|Line 1\n2|Line 2\n3|Line 3\n4|Line 4\n5|Line 5\n"
        "(this is the end of the file)\n"
    )


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", ["1|"]),
        (b"\n\n", ["1|", "2|"]),
        (b"a\nb", ["1|a", "2|b"]),
        (b"a\r\nb\rc", ["1|a", "2|b", "3|c"]),
        (b"\tif x:\n\t    pass   \n", ["1|\tif x:", "2|\t    pass   "]),
        ("one\x0cpage \u2028 line\n".encode(), ["1|one\x0cpage \u2028 line"]),
        (b"caf\xe9\n", ["1|caf\ufffd"]),
        (b"x" * 9000 + b"\n", ["1|" + "x" * 9000]),
    ],
)
def test_lines_are_shown_as_they_are(
    tmp_path: Path, capsys: Capture, content: bytes, lines: list[str]
) -> None:
    (tmp_path / "a").write_bytes(content)
    open_file(str(tmp_path / "a"))
    head = f"[File: {tmp_path}/a ({len(lines)} lines total)]"
    shown = [head, "(this is the beginning of the file)", *lines, "(this is the end of the file)", ""]
    assert capsys.readouterr().out == "\n".join(shown)


@pytest.mark.parametrize(
    ("line", "size", "first", "last"),
    [
        (1, 100, 1, 100),
        (51, 100, 1, 100),
        (52, 100, 2, 102),
        (500, 100, 450, 550),
        (500, 99, 451, 549),
        (500, 20, 490, 510),
        (500, 1, 499, 501),
        (500, 0, 450, 550),
        (500, -5, 450, 550),
        (500, None, 450, 550),
        (500, 4000, 450, 550),
        (949, 100, 899, 999),
        (950, 100, 901, 1000),
        (1000, 100, 901, 1000),
        (1000, 1, 1000, 1000),
    ],
)
def test_the_line_is_in_the_middle_of_the_window(
    tmp_path: Path, capsys: Capture, line: int, size: int | None, first: int, last: int
) -> None:
    path = tmp_path / "long.txt"
    open_file(numbered(path, 1000), line, size)
    assert capsys.readouterr().out == window(path, 1000, first, last) + (MORE if last < 1000 else "")


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, SIZE))
def test_a_window_lies_in_the_file_and_is_never_much_too_large(line: int, total: int, size: int) -> None:
    first, last = bounds(min(line, total), total, size)
    assert 1 <= first <= last <= total
    assert last - first <= max(size, 2)


@pytest.mark.parametrize("line", [0, -1, 6, 10**30, None, "2", 2.0])
def test_a_line_that_is_not_there_is_refused(tmp_path: Path, capsys: Capture, line: Any) -> None:
    open_file(numbered(tmp_path / "a", 5), line)
    assert capsys.readouterr().out == "ERROR: Line number must be between 1 and 5\n"
    goto_line(line)
    assert capsys.readouterr().out == "ERROR: Line number must be between 1 and 5.\n"


@pytest.mark.parametrize("path", ["missing.txt", "", ".", "a\0b", None, 5, "short.txt/"])
def test_what_is_no_file_is_not_found(here: Path, capsys: Capture, path: Any) -> None:
    numbered(here / "short.txt", 3)
    open_file(path)
    assert capsys.readouterr().out == f"ERROR: File {path} not found.\n"


def test_a_pipe_is_not_waited_for(tmp_path: Path, capsys: Capture) -> None:
    os.mkfifo(tmp_path / "pipe")
    open_file(str(tmp_path / "pipe"))
    assert capsys.readouterr().out == f"ERROR: File {tmp_path}/pipe not found.\n"


def test_a_binary_file_is_refused_and_the_open_one_stays(tmp_path: Path, capsys: Capture) -> None:
    open_file(numbered(tmp_path / "a", 2))
    (tmp_path / "b").write_bytes(bytes(range(256)))
    capsys.readouterr()
    open_file(str(tmp_path / "b"))
    assert capsys.readouterr().out == f"ERROR: File {tmp_path}/b is binary and cannot be shown as text.\n"
    goto_line(1)
    assert capsys.readouterr().out == window(tmp_path / "a", 2, 1, 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused_in_words(tmp_path: Path, capsys: Capture) -> None:
    Path(numbered(tmp_path / "a", 2)).chmod(0)
    open_file(str(tmp_path / "a"))
    assert capsys.readouterr().out == f"ERROR: File {tmp_path}/a cannot be read: Permission denied.\n"


def test_the_number_of_lines_must_be_a_number(tmp_path: Path, capsys: Capture) -> None:
    wrong: Any = "5"
    open_file(numbered(tmp_path / "a", 2), 1, wrong)
    assert capsys.readouterr().out == "ERROR: context_lines must be a whole number, not '5'.\n"


def test_nothing_can_be_shown_before_a_file_is_open(capsys: Capture) -> None:
    goto_line(1)
    scroll_down()
    scroll_up()
    assert capsys.readouterr().out == 3 * NOT_OPEN


def test_a_file_that_is_gone_is_not_open(tmp_path: Path, capsys: Capture) -> None:
    open_file(numbered(tmp_path / "a", 2))
    (tmp_path / "a").unlink()
    capsys.readouterr()
    scroll_down()
    assert capsys.readouterr().out == NOT_OPEN


def test_scrolling_moves_by_a_window_and_stops_at_the_ends(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "long.txt"
    open_file(numbered(path, 250))
    capsys.readouterr()
    for scroll, first, last in [
        (scroll_down, 101, 201),
        (scroll_down, 151, 250),
        (scroll_down, 151, 250),
        (scroll_up, 151, 250),
        (scroll_up, 50, 150),
        (scroll_up, 1, 100),
        (scroll_up, 1, 100),
    ]:
        scroll()
        assert capsys.readouterr().out == window(path, 250, first, last)


def test_scrolling_starts_at_the_line_that_was_gone_to(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "long.txt"
    open_file(numbered(path, 1000))
    goto_line(500)
    capsys.readouterr()
    scroll_down()
    assert capsys.readouterr().out == window(path, 1000, 600, 700)
    goto_line(500)
    capsys.readouterr()
    scroll_up()
    assert capsys.readouterr().out == window(path, 1000, 400, 500)


def test_a_file_that_became_shorter_can_still_be_scrolled(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "long.txt"
    open_file(numbered(path, 1000), 900)
    numbered(path, 3)
    capsys.readouterr()
    scroll_down()
    assert capsys.readouterr().out == window(path, 3, 1, 3)


def test_a_wrong_line_number_leaves_the_new_file_open(tmp_path: Path, capsys: Capture) -> None:
    open_file(numbered(tmp_path / "a", 2))
    open_file(numbered(tmp_path / "b", 3), 9)
    capsys.readouterr()
    goto_line(2)
    assert capsys.readouterr().out == window(tmp_path / "b", 3, 1, 3)


def test_the_open_file_stays_when_the_directory_changes(here: Path, capsys: Capture) -> None:
    numbered(here / "a", 2)
    (here / "sub").mkdir()
    open_file("./sub/../a")
    assert capsys.readouterr().out == window(here / "a", 2, 1, 2)
    os.chdir("sub")
    goto_line(2)
    assert capsys.readouterr().out == window(here / "a", 2, 1, 2)
