from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from glovebox.client.git import LARGEST, get_git_changes, get_git_diff, get_workspace_branch
from glovebox.errors import ClientError
from tests.client.asked import connected
from tests.support.running import RunningBox

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", where, *IDENTITY, *arguments], capture_output=True, check=True)
    return done.stdout.decode()


def repository(there: Path, **files: str) -> Path:
    there.mkdir(parents=True)
    git(there, "init", "-q", "-b", "main")
    for name, content in files.items():
        (there / name).write_text(content)
    git(there, "add", ".")
    git(there, "commit", "-q", "--allow-empty", "-m", "first")
    return there


async def changes(box: RunningBox, cwd: Path) -> list[tuple[str, str]]:
    async with connected(box) as runtime:
        found = await get_git_changes(runtime, str(cwd))
    assert found is not None
    return [(change.status, change.path) for change in found]


async def test_work_is_compared_with_what_was_pushed(shared_box: RunningBox, tmp_path: Path) -> None:
    repository(tmp_path / "origin", changed="1\n", gone="2\n", moved="some text that is moved\n", same="4\n")
    git(tmp_path, "clone", "-q", str(tmp_path / "origin"), "clone")
    clone = tmp_path / "clone"
    (clone / "changed").write_text("one\n")
    (clone / "gone").unlink()
    git(clone, "mv", "moved", "arrived")
    (clone / ".gitignore").write_text("ignored\n")
    (clone / "ignored").touch()
    (clone / 'new "file"\tü\n').touch()
    git(clone, "commit", "-q", "-a", "-m", "mine")
    assert await changes(shared_box, clone) == [
        ("A", ".gitignore"),
        ("A", "arrived"),
        ("M", "changed"),
        ("D", "gone"),
        ("D", "moved"),
        ("A", 'new "file"\tü\n'),
    ]


async def test_a_branch_of_ones_own_is_compared_with_where_it_began(
    shared_box: RunningBox, tmp_path: Path
) -> None:
    origin = repository(tmp_path / "origin", a="1\n")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    git(clone, "checkout", "-q", "-b", "mine")
    (clone / "b").write_text("b\n")
    git(clone, "add", "b")
    git(clone, "commit", "-q", "-m", "mine")
    (origin / "theirs").touch()
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "theirs")
    git(clone, "fetch", "-q")
    assert await changes(shared_box, clone) == [("A", "b")]


async def test_without_a_remote_everything_is_new(shared_box: RunningBox, tmp_path: Path) -> None:
    repository(tmp_path / "own", a="1\n")
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    git(unborn, "init", "-q")
    (unborn / "x").touch()
    assert await changes(shared_box, tmp_path / "own") == [("A", "a")]
    assert await changes(shared_box, unborn) == [("A", "x")]


async def test_repositories_in_it_tell_their_own_changes(shared_box: RunningBox, tmp_path: Path) -> None:
    around = repository(tmp_path / "around", a="1\n")
    repository(around / "inner", b="2\n")
    repository(around / ".hidden", c="3\n")
    (around / "inner2").mkdir()
    (around / "inner2" / "d").touch()
    expected = [("A", ".hidden/c"), ("A", "a"), ("A", "inner/b"), ("A", "inner2/d")]
    assert await changes(shared_box, around) == expected


async def test_a_directory_with_repositories_need_not_be_one(shared_box: RunningBox, tmp_path: Path) -> None:
    repository(tmp_path / "one", a="1\n")
    assert await changes(shared_box, tmp_path) == [("A", "one/a")]
    (tmp_path / "none").mkdir()
    assert await changes(shared_box, tmp_path / "none") == []


async def test_no_directory_no_answer(shared_box: RunningBox, tmp_path: Path) -> None:
    async with connected(shared_box) as runtime:
        assert await get_git_changes(runtime, None) is None
        assert await get_git_changes(runtime, str(tmp_path / "nowhere")) is None
        with pytest.raises(ClientError, match=r"^no_dir_in_git_diff$"):
            await get_git_diff(runtime, "a", None)


async def test_a_file_as_it_is_and_as_it_was(shared_box: RunningBox, tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", **{"a b.txt": "old\nlines\n", "gone": "was here\n"})
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    (clone / "a b.txt").write_text("new\n\x1b[31mlines ü\n")
    (clone / "gone").unlink()
    (clone / "deep").mkdir()
    (clone / "deep" / "fresh").write_text("x" * (LARGEST - 1) + "\n")
    async with connected(shared_box) as runtime:
        both = await get_git_diff(runtime, "a b.txt", str(clone))
        assert (both.original, both.modified) == ("old\nlines", "new\n\x1b[31mlines ü")
        gone = await get_git_diff(runtime, "gone", str(clone))
        assert (gone.original, gone.modified) == ("was here", "")
        fresh = await get_git_diff(runtime, str(clone / "deep" / "fresh"), str(tmp_path))
        assert (fresh.original, fresh.modified) == ("", "x" * (LARGEST - 1))
        nothing = await get_git_diff(runtime, "no/such/file", str(clone))
        assert (nothing.original, nothing.modified) == ("", "")


async def test_files_that_are_not_compared(shared_box: RunningBox, tmp_path: Path) -> None:
    own = repository(tmp_path / "own")
    (own / "large").write_bytes(b"x" * (LARGEST + 1))
    (tmp_path / "outside").touch()
    async with connected(shared_box) as runtime:
        with pytest.raises(ClientError, match=r"^file_to_large$"):
            await get_git_diff(runtime, "large", str(own))
        with pytest.raises(ClientError, match=r"^no_repository$"):
            await get_git_diff(runtime, "../outside", str(own))


async def test_the_branch_of_a_repository(shared_box: RunningBox, tmp_path: Path) -> None:
    own = repository(tmp_path / "own")
    async with connected(shared_box) as runtime:
        assert await get_workspace_branch(runtime, str(own)) == "main"
        git(own, "checkout", "-q", "--detach")
        assert await get_workspace_branch(runtime, str(own)) is None
        assert await get_workspace_branch(runtime, str(tmp_path)) is None
