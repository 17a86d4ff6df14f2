"""Searching and rearranging in a window."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.protocol.files import (
    DeleteAction,
    GlobAction,
    GrepAction,
    MkdirAction,
    MoveAction,
    StatAction,
)
from glovebox.protocol.window import Glob, Grep
from tests.hub.window.window_box import Acting, acting, failing


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Acting]:
    async with acting(tmp_path) as box:
        yield box


async def test_files_are_found_newest_first_in_pages(box: Acting, tmp_path: Path) -> None:
    for number, name in enumerate(["a.py", "sub/b.py", "sub/c.txt", ".hidden.py"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (number, number))
    found = await box.do(GlobAction(pattern="*.py"))
    assert found.matches == [str(tmp_path / "sub/b.py"), str(tmp_path / "a.py")]
    first = await box.do(GlobAction(pattern="*", limit=2))
    assert (first.total, first.next_offset, len(first.matches)) == (3, 2, 2)
    assert first.content.endswith("[1-2 of 3 paths. The next page is at offset 2.]")
    assert (await box.do(GlobAction(pattern="*", limit=2, offset=2))).next_offset is None
    assert (await box.do(GlobAction(pattern="{a,[b]}.py", path="sub"))).matches == [
        str(tmp_path / "sub/b.py")
    ]
    assert (await box.do(GlobAction(pattern=".hidden*"))).total == 1
    assert (await box.do(GlobAction(pattern="*.py", hidden=True))).total == 3
    assert (await box.do(GlobAction(pattern=f"{tmp_path}/sub/*"))).total == 2
    assert "No file in" in (await box.do(GlobAction(pattern="nowhere/*.c"))).content


async def test_patterns_that_cannot_be_are_refused(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = await box.refused(GlobAction(pattern="{a"))
    assert (refused.error_id, "not closed" in refused.content) == ("invalid_pattern", True)
    assert (await box.refused(GlobAction(pattern="src/"))).error_id == "unsupported"
    assert (await box.refused(GlobAction(pattern="*", path="no"))).error_id == "not_found"
    assert (await box.refused(GlobAction(pattern="*", path="file"))).error_id == "not_a_directory"
    assert (await box.refused(GlobAction(pattern="*", limit=0))).error_id == "invalid_argument"
    assert (await box.refused(GrepAction(pattern="(a"))).error_id == "invalid_pattern"
    assert (await box.refused(GrepAction(pattern="a", include="../*"))).error_id == "invalid_argument"
    assert (await box.refused(GrepAction(pattern="a", path="no"))).error_id == "not_found"
    box.hands.before = failing("bad_pattern", Grep)
    assert (await box.refused(GrepAction(pattern="a"))).error_id == "invalid_pattern"
    box.hands.before = failing("outside_workspace", Glob)
    assert (await box.refused(GlobAction(pattern="*"))).error_id == "outside_workspace"


async def test_lines_are_found_with_their_neighbours_in_pages(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\nx = 1\nimport re\n")
    (tmp_path / "b.txt").write_text("Import me\n" + "import " + "y" * 3000 + "\n")
    found = await box.do(GrepAction(pattern="^import", include="*.py", context=1))
    assert [(one.line, one.before, one.after) for one in found.matches] == [
        (1, [], ["x = 1"]), (3, ["x = 1"], []),
    ]  # fmt: skip
    assert found.content == (
        f"{tmp_path}/a.py:1:import os\n{tmp_path}/a.py-2-x = 1\n{tmp_path}/a.py:3:import re"
    )
    page = await box.do(GrepAction(pattern="import", ignore_case=True, limit=1, offset=1))
    assert (page.total, page.files, page.next_offset, page.matches[0].line) == (4, 2, 2, 3)
    long = await box.do(GrepAction(pattern="yyy", path="b.txt"))
    assert long.matches[0].text.endswith("[…]")
    assert len(long.matches[0].text) < 1100
    literal = await box.do(GrepAction(pattern="x = 1", literal=True))
    assert literal.total == 1


async def test_paths_are_looked_at(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345")
    (tmp_path / "link").symlink_to("a.txt")
    found = await box.do(StatAction(path="a.txt"))
    assert (found.type, found.size, found.owner, found.mode) == ("file", 5, None, "")
    assert found.content.startswith(f"{tmp_path}/a.txt: file, 5 bytes, modified ")
    assert (await box.do(StatAction(path="link"))).type == "file"
    assert (await box.do(StatAction(path="link", follow_symlinks=False))).type == "symlink"
    assert (await box.do(StatAction(path="."))).type == "directory"
    assert (await box.refused(StatAction(path="no"))).error_id == "not_found"
    assert (await box.refused(StatAction(path=""))).error_id == "invalid_argument"
    assert (await box.refused(StatAction(path="/etc"))).error_id == "outside_workspace"
    os.mkfifo(tmp_path / "pipe")
    assert (await box.refused(StatAction(path="pipe"))).error_id == "not_a_file"


async def test_paths_are_moved_and_nothing_is_replaced_unasked(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "dir/full").mkdir(parents=True)
    (tmp_path / "dir/full/x").touch()
    assert (await box.refused(MoveAction(source="a", destination="b"))).error_id == "already_exists"
    moved = await box.do(MoveAction(source="a", destination="b", overwrite=True))
    assert moved.content == f"Moved {tmp_path}/a to {tmp_path}/b."
    assert (tmp_path / "b").read_text() == "a"
    assert (await box.do(MoveAction(source="b", destination="dir"))).destination == f"{tmp_path}/dir/b"
    (tmp_path / "full").mkdir()
    (tmp_path / "c").touch()
    refusals = {
        ("no", "x", False): "not_found",
        ("c", "x/", False): "not_found",
        ("c", "none/x", False): "not_found",
        ("c", "c", False): "invalid_argument",
        ("dir", "dir/inside", False): "invalid_argument",
        ("full", "dir", True): "not_empty",
        (".", "dir", False): "invalid_argument",
    }
    for (source, destination, overwrite), code in refusals.items():
        action = MoveAction(source=source, destination=destination, overwrite=overwrite)
        assert (await box.refused(action)).error_id == code, action


async def test_paths_are_deleted_but_not_the_floor(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "dir/sub").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert (await box.do(DeleteAction(path="file"))).removed == 1
    assert (await box.refused(DeleteAction(path="file"))).error_id == "not_found"
    assert (await box.do(DeleteAction(path="file", missing_ok=True))).removed == 0
    assert (await box.refused(DeleteAction(path="dir"))).error_id == "not_empty"
    await box.output("cd dir/sub")
    assert (await box.refused(DeleteAction(path=f"{tmp_path}/dir", recursive=True))).error_id == (
        "protected_path"
    )
    assert (await box.refused(DeleteAction(path=str(tmp_path), recursive=True))).error_id == "protected_path"
    await box.output("cd ../..")
    await box.do(DeleteAction(path="dir", recursive=True))
    assert not (tmp_path / "dir").exists()


async def test_directories_are_made(box: Acting, tmp_path: Path) -> None:
    assert (await box.do(MkdirAction(path="a/b/c"))).created
    assert not (await box.do(MkdirAction(path="a/b/c"))).created
    assert (await box.refused(MkdirAction(path="x/y", parents=False))).error_id == "not_found"
    (tmp_path / "file").touch()
    assert (await box.refused(MkdirAction(path="file"))).error_id == "already_exists"
    box.hands.acting.trusted = False
    assert (await box.refused(MkdirAction(path="z"))).error_id == "untrusted"


async def test_a_window_without_a_folder_says_so() -> None:
    async with acting() as box:
        assert (await box.refused(StatAction(path="/tmp"))).error_id == "no_folder"
        assert (await box.refused(GlobAction(pattern="*"))).error_id == "no_folder"
