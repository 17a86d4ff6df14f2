from __future__ import annotations

import base64
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.box.events import EventLog
from glovebox.box.executor import Executor
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.disk.local_files import LocalFile, LocalFiles
from glovebox.box.threads import Threads
from glovebox.errors import ActionError
from glovebox.protocol.actions import FileReadAction
from glovebox.protocol.observations import ErrorObservation, FileReadObservation
from tests.box.files.acting import QuietShell
from tests.box.files.editing import Files, files_in

FIVE = "line 1\nline 2\nline 3\nline 4\nline 5\n"
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    async with files_in(tmp_path) as files:
        yield files


async def test_a_whole_file_comes_back_with_its_path(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(FIVE)
    assert await files.read(path) == FileReadObservation(content=FIVE, path=str(path))


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "sub/../a.txt", ".//a.txt"])
async def test_a_relative_path_starts_at_the_shell(files: Files, tmp_path: Path, path: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("x\n")
    observation = await files.read(path)
    assert isinstance(observation, FileReadObservation)
    assert observation.path == f"{tmp_path}/{path.removeprefix('.//').removeprefix('./')}"
    assert observation.content == "x\n"


@pytest.mark.parametrize(
    ("start", "end", "lines"),
    [
        (0, -1, "12345"),
        (2, -1, "345"),
        (1, 3, "23"),
        (0, 100, "12345"),
        (50, -1, ""),
        (-3, -1, "12345"),
        (4, 2, "4"),
        (0, -2, "1"),
        (4, 5, "45"),
        (9, 10, "45"),
    ],
)
async def test_a_range_is_cut_with_the_arithmetic_of_the_contract(
    files: Files, tmp_path: Path, start: int, end: int, lines: str
) -> None:
    (tmp_path / "a.txt").write_text(FIVE)
    observation = await files.read("a.txt", start=start, end=end)
    assert observation.content == "".join(f"line {number}\n" for number in lines)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"x\ny", "x\ny"),
        ("naïve – 日本 🎉\n".encode(), "naïve – 日本 🎉\n"),
        (b"\xef\xbb\xbfbom\n", "\ufeffbom\n"),
        # The sample that is tested for being binary ends within a character.
        (("日本語の文章" * 500).encode(), "日本語の文章" * 500),
    ],
)
async def test_text_is_read_as_utf8_with_line_feeds(
    files: Files, tmp_path: Path, data: bytes, text: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert (await files.read(tmp_path / "a.txt")).content == text


async def test_a_file_of_any_size_is_read(files: Files, tmp_path: Path) -> None:
    text = "0123456789abcdef\n" * 700_000
    (tmp_path / "big.txt").write_text(text)
    assert (await files.read("big.txt")).content == text


async def test_a_file_that_does_not_tell_its_size_is_read(files: Files) -> None:
    assert "Pid:" in (await files.read("/proc/self/status")).content


async def test_a_missing_file_is_named_with_the_current_directory(files: Files, tmp_path: Path) -> None:
    assert await files.read("none.txt") == ErrorObservation(
        content=f"File not found: {tmp_path}/none.txt. Your current working directory is {tmp_path}."
    )


async def test_a_directory_is_not_read(files: Files, tmp_path: Path) -> None:
    for path in (tmp_path, "", "."):
        assert await files.read(path) == ErrorObservation(
            content=f"Path is a directory: {tmp_path}. You can only read files"
        )


async def test_text_that_is_not_utf8_is_refused(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes("café crème brûlée\n".encode("latin-1"))
    assert await files.read(path) == ErrorObservation(content=f"File could not be decoded as utf-8: {path}.")


async def test_a_pipe_is_refused_at_once(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    observation = await files.read("pipe")
    assert observation == ErrorObservation(
        content=f"Path is not a regular file: {tmp_path}/pipe. You can only read files"
    )


async def test_a_device_is_refused(files: Files) -> None:
    assert isinstance(await files.read("/dev/zero"), ErrorObservation)


async def test_what_the_system_refuses_fails_with_its_words(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ActionError, match=rf"^\[Errno 20\] Not a directory: '{tmp_path}/a.txt/x'$"):
        await files.read(tmp_path / "a.txt/x")
    with pytest.raises(ActionError, match=rf"^\[Errno 40\] .*: '{tmp_path}/loop'$"):
        await files.read("loop")
    with pytest.raises(ActionError, match="null byte"):
        await files.read("a\0b")


async def test_a_socket_does_not_hang(files: Files, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pytest.raises(ActionError, match="Errno 6"):
            await files.read("socket")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_permission_fails_with_its_path(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0)
    with pytest.raises(ActionError, match=rf"^\[Errno 13\] Permission denied: '{path}'$"):
        await files.read(path)


async def test_a_binary_file_is_refused_by_its_absolute_path(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "b.bin"
    path.write_bytes(bytes(range(256)) * 8)
    refusal = ErrorObservation(content="ERROR_BINARY_FILE")
    assert await files.read(path) == refusal
    assert await files.view(path) == refusal
    # By a relative one it is not tested, and read like any text.
    assert await files.read("b.bin") == ErrorObservation(
        content=f"File could not be decoded as utf-8: {path}."
    )


async def test_compiled_python_is_binary_by_its_name(files: Files, tmp_path: Path) -> None:
    (tmp_path / "x.pyc").write_text("text\n")
    for path in (tmp_path / "x.pyc", "x.pyc", tmp_path / "missing.pyc"):
        assert await files.read(path) == ErrorObservation(content="ERROR_BINARY_FILE")


async def test_a_picture_is_refused_by_absolute_path_and_shown_by_relative_path(
    files: Files, tmp_path: Path
) -> None:
    path = tmp_path / "a.gif"
    path.write_bytes(GIF)
    assert await files.read(path) == ErrorObservation(content="ERROR_BINARY_FILE")
    assert await files.read("a.gif", start=1, end=2) == FileReadObservation(
        content=f"data:image/gif;base64,{base64.b64encode(GIF).decode()}", path=str(path)
    )


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("t.png", "image/png"),
        ("t.jpg", "image/jpeg"),
        ("T.JPEG", "image/jpeg"),
        ("t.bmp", "image/bmp"),
        ("t.pdf", "application/pdf"),
        ("t.mp4", "video/mp4"),
        ("t.webm", "video/webm"),
        ("t.ogg", "audio/ogg"),
    ],
)
async def test_text_with_the_name_of_a_medium_becomes_a_data_url(
    files: Files, tmp_path: Path, name: str, media: str
) -> None:
    (tmp_path / name).write_text("plain text\n")
    assert (await files.read(tmp_path / name)).content == f"data:{media};base64,cGxhaW4gdGV4dAo="


@pytest.mark.parametrize("name", ["t.svg", "png", "a.png.txt"])
async def test_other_names_are_read_as_text(files: Files, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("plain text\n")
    assert (await files.read(name)).content == "plain text\n"


async def test_an_unknown_source_means_the_default_one(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n")
    assert await files.read(path, impl_source="other") == FileReadObservation(content="x\n", path=str(path))


async def test_what_is_in_memory_is_read_without_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(FIVE)
    try:
        LocalFile.from_memory(str(path)).__exit__(None, None, None)
    except OSError as error:
        pytest.skip(f"the file system cannot tell what is in memory: {error}")
    threads = Threads("none", 1)
    threads.close()
    actions = FileActions(
        LocalFiles(threads, reads_memory=True), shell=QuietShell(str(tmp_path)), workspace=lambda: "/"
    )
    executor = Executor([actions.read], EventLog())
    assert (await executor.execute(FileReadAction(path="a.txt"))).content == FIVE
    for _ in range(20):  # each of which needs a thread
        with pytest.raises(ActionError):
            await executor.execute(FileReadAction(path="/proc/self/status"))
    with pytest.raises(ActionError):  # it has given up
        await executor.execute(FileReadAction(path="a.txt"))
