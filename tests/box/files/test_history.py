from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from glovebox.box.files.editor.history import History


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def stored(tmp_path: Path) -> int:
    return sum(path.is_file() for path in tmp_path.rglob("*"))


def undo_all(history: History, path: str) -> list[bytes]:
    contents = []
    while (content := history.last(path)) is not None:
        contents.append(content)
        history.drop_last(path)
    return contents


def test_contents_come_back_newest_first_and_by_path() -> None:
    history = History()
    for content in (b"1", b"2"):
        history.push("/a", content)
    history.push("/b", b"other")
    assert undo_all(history, "/a") == [b"2", b"1"]
    assert undo_all(history, "/b") == [b"other"]
    assert history.last("/c") is None


def test_only_the_last_ten_are_kept(tmp_path: Path) -> None:
    history = History()
    for number in range(13):
        history.push("/a", b"%d" % number)
    assert stored(tmp_path) == 10
    assert undo_all(history, "/a") == [b"%d" % number for number in range(12, 2, -1)]
    assert stored(tmp_path) == 0


def test_the_path_edited_longest_ago_is_forgotten_when_it_gets_too_much(tmp_path: Path) -> None:
    history = History(keep_bytes=25)
    history.push("/a", b"x" * 10)
    history.push("/b", b"x" * 10)
    history.push("/a", b"y" * 10)
    assert undo_all(history, "/b") == []
    assert undo_all(history, "/a") == [b"y" * 10, b"x" * 10]
    assert stored(tmp_path) == 0


def test_the_directory_is_private_and_goes_away(tmp_path: Path) -> None:
    history = History()
    assert list(tmp_path.iterdir()) == []
    history.push("/a", b"x")
    (directory,) = tmp_path.iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    history.close()
    assert list(tmp_path.iterdir()) == []
    assert history.last("/a") is None


def test_a_lost_directory_means_a_lost_history_and_no_failure(tmp_path: Path) -> None:
    history = History()
    history.push("/a", b"1")
    for directory in tmp_path.iterdir():
        shutil.rmtree(directory)
    assert history.last("/a") is None
    history.push("/a", b"2")
    assert undo_all(history, "/a") == [b"2"]


def test_an_edit_that_cannot_be_remembered_does_not_bring_back_an_older_state(tmp_path: Path) -> None:
    history = History()
    history.push("/a", b"1")
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    (entry.parent / f"{int(entry.name) + 1}").mkdir()  # in the way of the next
    history.push("/a", b"2")
    assert history.last("/a") is None
