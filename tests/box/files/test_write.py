from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.errors import ActionError
from glovebox.protocol.observations import ErrorObservation, FileWriteObservation
from tests.box.files.editing import Files, files_in, leftovers

FIVE = "line 1\nline 2\nline 3\nline 4\nline 5\n"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    async with files_in(tmp_path) as files:
        yield files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("content", "data"),
    [
        ("hello", b"hello\n"),
        ("", b"\n"),
        ("a\nb", b"a\nb\n"),
        ("a\n", b"a\n\n"),
        ("ü 日本 🎉", "ü 日本 🎉\n".encode()),
        ("a\r\nb", b"a\r\nb\n"),
    ],
)
async def test_every_line_of_a_new_file_gets_a_line_end(
    files: Files, tmp_path: Path, content: str, data: bytes
) -> None:
    path = tmp_path / "n.txt"
    assert await files.write("n.txt", content, start=3, end=4) == FileWriteObservation(path=str(path))
    assert path.read_bytes() == data
    assert mode(path) == 0o664


async def test_missing_directories_are_made(files: Files, tmp_path: Path) -> None:
    await files.write(tmp_path / "x/y/z.txt", "deep")
    assert (tmp_path / "x/y/z.txt").read_text() == "deep\n"


async def test_an_existing_file_is_replaced_and_keeps_its_mode(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "m.sh"
    path.write_text("echo a very long old script\n")
    path.chmod(0o750)
    await files.write(path, "echo new")
    assert path.read_text() == "echo new\n"
    assert mode(path) == 0o750
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (1, 2, "line 1\nNEW\nline 3\nline 4\nline 5\n"),
        (0, 0, "NEW\n" + FIVE),
        (3, -1, "line 1\nline 2\nline 3\nNEW\n"),
        (100, 100, FIVE + "NEW\n"),
        (3, 1, "line 1\nline 2\nline 3\nNEW\nline 2\nline 3\nline 4\nline 5\n"),
        (-1, -1, "line 1\nline 2\nline 3\nline 4\nNEW\n"),
        (0, 2, "NEW\nline 3\nline 4\nline 5\n"),
    ],
)
async def test_a_range_is_replaced(files: Files, tmp_path: Path, start: int, end: int, text: str) -> None:
    (tmp_path / "a.txt").write_text(FIVE)
    await files.write("a.txt", "NEW", start=start, end=end)
    assert (tmp_path / "a.txt").read_text() == text


async def test_lines_around_a_range_keep_their_ends(files: Files, tmp_path: Path) -> None:
    (tmp_path / "crlf.txt").write_bytes(b"a\r\nb\r\nc\r\n")
    await files.write("crlf.txt", "B\nB", start=1, end=2)
    assert (tmp_path / "crlf.txt").read_bytes() == b"a\r\nB\r\nB\r\nc\r\n"


async def test_a_directory_is_not_written(files: Files, tmp_path: Path) -> None:
    assert await files.write(tmp_path, "x") == ErrorObservation(
        content=f"Path is a directory: {tmp_path}. You can only write to files"
    )


@pytest.mark.parametrize("data", [b"\xe9\xe8\xfb\n", bytes(range(256))])
async def test_a_file_that_is_not_utf8_is_left_alone(files: Files, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes(data)
    assert await files.write(path, "x") == ErrorObservation(
        content=f"File could not be decoded as utf-8: {path}"
    )
    assert path.read_bytes() == data


async def test_writing_through_a_link_changes_its_target(files: Files, tmp_path: Path) -> None:
    (tmp_path / "target.txt").write_text("t\n")
    (tmp_path / "ln.txt").symlink_to("target.txt")
    await files.write("ln.txt", "via link")
    assert (tmp_path / "target.txt").read_text() == "via link\n"
    assert (tmp_path / "ln.txt").is_symlink()


async def test_writing_through_a_dangling_link_makes_its_target(files: Files, tmp_path: Path) -> None:
    (tmp_path / "dang.txt").symlink_to("made.txt")
    await files.write("dang.txt", "x")
    assert (tmp_path / "made.txt").read_text() == "x\n"
    assert (tmp_path / "dang.txt").is_symlink()


async def test_a_link_into_a_missing_directory_is_a_missing_file(files: Files, tmp_path: Path) -> None:
    (tmp_path / "dang.txt").symlink_to("none/made.txt")
    assert await files.write("dang.txt", "x") == ErrorObservation(
        content=f"File not found: {tmp_path}/dang.txt"
    )


async def test_what_the_system_refuses_fails_with_its_words(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ActionError, match=r"^\[Errno 2\] No such file or directory: '/proc/glovebox'$"):
        await files.write("/proc/glovebox/x", "x")
    with pytest.raises(ActionError, match=rf"^\[Errno 20\] Not a directory: '{tmp_path}/a.txt/x'$"):
        await files.write(tmp_path / "a.txt/x", "x")
    with pytest.raises(ActionError, match=rf"^\[Errno 40\] .*: '{tmp_path}/loop'$"):
        await files.write("loop", "x")
    with pytest.raises(ActionError, match="null byte"):
        await files.write("a\0b", "x")


async def test_text_that_cannot_be_encoded_leaves_nothing_behind(files: Files, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old\n")
    for name in ("old.txt", "new.txt"):
        with pytest.raises(ActionError, match="surrogates not allowed"):
            await files.write(name, "\ud800")
    assert (tmp_path / "old.txt").read_text() == "old\n"
    assert os.listdir(tmp_path) == ["old.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_file_without_permission_fails_with_its_path(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "ro.txt"
    path.write_text("x\n")
    path.chmod(0o444)
    with pytest.raises(ActionError, match=rf"^\[Errno 13\] Permission denied: '{path}'$"):
        await files.write(path, "y")
    assert path.read_text() == "x\n"


async def test_a_pipe_is_refused_at_once(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert await files.write("pipe", "x") == ErrorObservation(
        content=f"Path is not a regular file: {tmp_path}/pipe. You can only write to files"
    )


@AS_ROOT
async def test_new_files_and_directories_belong_to_the_sandbox_user(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)
    async with files_in(tmp_path, user_id=4321) as files:
        await files.write("made/n.txt", "x")
    for path in (tmp_path / "made", tmp_path / "made/n.txt"):
        assert (path.stat().st_uid, path.stat().st_gid) == (4321, 4321)
    assert mode(tmp_path / "made/n.txt") == 0o664


@AS_ROOT
async def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    os.chmod(tmp_path, 0o777)
    path.touch()
    os.chmod(path, 0o666)
    os.chown(path, 1234, 2345)
    async with files_in(tmp_path, user_id=4321) as files:
        await files.write(path, "x")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


@pytest.mark.skipif(os.geteuid() == 0, reason="root is allowed to")
async def test_being_refused_the_ownership_is_told_after_the_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    async with files_in(tmp_path, user_id=0) as files:
        observation = await files.write(path, "x")
    assert path.read_text() == "x\n"
    assert observation == ErrorObservation(
        content=f"File {path} written, but failed to change ownership and permissions: "
        f"[Errno 1] Operation not permitted: '{path}'"
    )


async def test_many_writes_to_one_file_at_once_lose_nothing(files: Files, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("top\n")
    (tmp_path / "link.txt").symlink_to("log.txt")
    names = ["log.txt", str(tmp_path / "log.txt"), "link.txt", "./log.txt"]
    await asyncio.gather(
        *(files.write(names[number % 4], f"line {number}", start=1, end=1) for number in range(60))
    )
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert lines[0] == "top"
    assert sorted(lines[1:]) == sorted(f"line {number}" for number in range(60))
