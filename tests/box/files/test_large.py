"""Large files: parts of them are read and changed without holding them in memory."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.files.disk import lines, local_files
from glovebox.box.files.disk.lines import LineIndex, TooSlow
from glovebox.box.files.disk.path_errors import FileActionError
from tests.box.files.editing import Files, files_in, read_file, write_file
from tests.protocol.test_zip_reader import crowded
from tests.support.running import KEY, RunningBox, running_box

MEGABYTE = 1 << 20
#: Every kind of line end, characters of one to four bytes, and some that only look like line ends.
TEXT = st.lists(
    st.sampled_from(
        ["a", " ", "\n", "\r", "\r\n", "\r\r\n", "\x0c", "\x85", "\u2028", "é", "日", "🎉", "\0"]
    ),
    max_size=40,
).map("".join)
INDEX = st.integers(-12, 20)
CHUNK = st.integers(2, 9)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("large")


@pytest.fixture(scope="module")
def small_pieces() -> Iterator[None]:
    """Have files of any size treated like large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_files, "SMALL", 1)
        yield


@settings(deadline=None)
@given(TEXT, CHUNK)
def test_every_line_is_found(text: str, chunk: int) -> None:
    data = text.encode()
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        index = LineIndex(file.fileno(), chunk=chunk)
        all_lines = lines.split(text)
        assert (index.lines, index.size) == (len(all_lines), len(data))
        assert index.line_end == lines.line_end(text)
        for number in range(len(all_lines) + 2):
            assert index.offset(number) == len("".join(all_lines[:number]).encode())


@settings(deadline=None)
@given(st.binary(max_size=12).map(lambda rare: rare.replace(b"\0", b"\xe2\x82")), CHUNK)
def test_what_is_not_utf8_is_noticed_wherever_it_is(data: bytes, chunk: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                LineIndex(file.fileno(), chunk=chunk)
        else:
            assert LineIndex(file.fileno(), chunk=chunk).lines == len(lines.split(text))


def test_going_through_a_file_without_end_is_given_up(directory: Path) -> None:
    path = directory / "sparse"
    path.touch()
    os.truncate(path, 1 << 42)
    with open(path, "rb") as file, pytest.raises(TooSlow):
        LineIndex(file.fileno(), seconds=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LineIndex.__init__, "__kwdefaults__", {"chunk": 1 << 18, "seconds": 0.05})
        for start, end in ((0, 5), (7, -1)):
            with pytest.raises(FileActionError, match="could not be gone through in time"):
                read_file(str(path), start, end)


@settings(deadline=None)
@given(TEXT, INDEX, INDEX)
def test_a_part_of_a_large_file_is_what_it_is_of_a_small_one(
    directory: Path, small_pieces: None, text: str, start: int, end: int
) -> None:
    path = directory / "read.txt"
    path.write_bytes(text.encode())
    assert read_file(str(path), start, end) == lines.cut(lines.shown(text), start, end)


@pytest.mark.parametrize("several_names", [False, True])
@settings(deadline=None)
@given(TEXT, st.text("ab\n"), st.none() | INDEX, st.none() | INDEX)
def test_a_large_file_is_changed_like_a_small_one(
    directory: Path,
    small_pieces: None,
    several_names: bool,
    text: str,
    content: str,
    start: int | None,
    end: int | None,
) -> None:
    path, other = directory / "write.txt", directory / "other.txt"
    path.unlink(missing_ok=True)
    other.unlink(missing_ok=True)
    path.write_bytes(text.encode())
    if several_names:  # it is then overwritten in place
        os.link(path, other)
    write_file(str(path), content, start, end)
    assert path.read_bytes() == lines.splice(text, content, start, end).encode()
    assert not several_names or path.samefile(other)


def test_a_large_file_that_cannot_be_overwritten_is_as_it_was(
    directory: Path, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = directory / "kept.txt", directory / "kept-too.txt"
    path.write_text("one\ntwo\nthree\n")
    os.link(path, other)
    write, written = os.write, []

    def full_disk(fd: int, data: bytes) -> int:
        written.append(data)
        if len(written) == 2:
            raise OSError(28, os.strerror(28))
        return write(fd, data)

    monkeypatch.setattr(os, "write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_file(str(path), "much longer than it was", 1, 2)
    assert path.read_text() == "one\ntwo\nthree\n"


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    async with files_in(tmp_path) as files:
        yield files


async def test_more_than_is_read_at_once_is_refused_with_what_to_do(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "big.txt"
    path.write_bytes((b"x" * (MEGABYTE - 1) + b"\n") * 40)
    for part in ({}, {"start": 0, "end": 40}, {"start": 2}):
        refused = await files.read(path, **part)
        assert "start and end" in refused.content
        assert refused.error_id == "too_large"  # type: ignore[union-attr]
    assert len((await files.read(path, start=20)).content) == 20 * MEGABYTE
    (tmp_path / "film.mp4").symlink_to(path)
    assert "File is too large" in (await files.read("film.mp4")).content


@pytest.fixture(scope="module")
def large(directory: Path) -> Path:
    """300 MB in lines of 100 bytes, some of them not ASCII."""
    path = directory / "large.txt"
    with open(path, "wb") as file:
        for number in range(300):
            line = f"{number:07} ".encode() + ("é".encode() if number % 2 else b"xx") + b"." * 89 + b"\n"
            file.write(line * (MEGABYTE // 100))
    return path


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    with running_box(tmp_path_factory.mktemp("large-box") / "ws", "--no-enable-browser") as box:
        box.execute("read", path="/etc/hostname")
        yield box


def growth(box: RunningBox, path: Path, action: str, **args: Any) -> tuple[str, float]:
    """What an action answers, and by how many megabytes its server was larger meanwhile than before."""
    Path(f"/proc/{box.process.pid}/clear_refs").write_text("5")
    before = memory(box, "VmRSS")
    answer = box.execute(action, path=str(path), **args)
    return str(answer["content"]), (memory(box, "VmHWM") - before) / MEGABYTE


def memory(box: RunningBox, name: str) -> int:
    for line in Path(f"/proc/{box.process.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(name)


def line_of(number: int) -> str:
    return f"{number:07} {'é' if number % 2 else 'xx'}{'.' * 89}\n"


@pytest.mark.skipif(
    os.geteuid() != 0 and not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux only"
)
def test_a_few_lines_of_a_large_file_take_little_memory(box: RunningBox, large: Path) -> None:
    per_number = MEGABYTE // 100
    for first in (0, 17 * per_number, 299 * per_number):
        content, grown = growth(box, large, "read", start=first, end=first + 5)
        assert content == line_of(first // per_number) * 5
        assert grown < 50
    content, grown = growth(box, large, "read", start=10**9, end=10**9 + 1)
    assert content == line_of(299) * 2
    assert grown < 50
    content, grown = growth(box, large, "read", start=290 * per_number)
    assert content == "".join(line_of(number) * per_number for number in range(290, 300))
    assert grown < 10 + 50


def test_a_large_file_is_changed_in_little_memory(box: RunningBox, large: Path, directory: Path) -> None:
    path = directory / "changed.txt"
    os.link(large, directory / "hard-link.txt")
    try:
        os.rename(directory / "hard-link.txt", path)
        size = large.stat().st_size
        _, grown = growth(box, path, "write", content="new", start=3, end=4)
        assert grown < 50
        assert path.stat().st_size == size - 100 + 4
        with open(path) as file:
            assert [next(file) for _ in range(5)][3:] == ["new\n", line_of(0)]
        _, grown = growth(box, path, "write", content=line_of(0).rstrip("\n"), start=3, end=4)
        assert grown < 50
        assert path.stat().st_size == size
    finally:
        path.unlink()


def test_a_box_answers_others_while_it_goes_through_a_large_file(box: RunningBox, large: Path) -> None:
    waits: list[float] = []
    done = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=box.url, headers={"X-Session-API-Key": KEY}, trust_env=False) as client:
            while not done.is_set():
                begun = time.monotonic()
                assert client.get("/alive", timeout=60).status_code == 200
                waits.append(time.monotonic() - begun)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(3):
            box.execute("read", path=str(large), start=5, end=10)
    finally:
        done.set()
        asking.join()
    assert len(waits) > 3
    assert max(waits) < 5  # it took 21 seconds


@pytest.mark.parametrize(
    "line",
    ["a\n", "\n", "some words in a line\n", "日本語\n", "a\r\n"],
    ids=["short", "empty", "usual", "wide", "crlf"],
)
def test_the_editor_takes_little_memory_for_the_largest_file_it_opens(
    box: RunningBox, directory: Path, line: str
) -> None:
    path = directory / "edit.txt"
    data = line.encode()
    path.write_bytes(data * (9 * MEGABYTE // len(data)) + b"needle\n")
    for args in (
        {"command": "view"},
        {"command": "str_replace", "old_str": "needle", "new_str": "thread"},
        {"command": "insert", "insert_line": 100, "new_str": "a line"},
        {"command": "undo_edit"},
        {"command": "str_replace", "old_str": "", "new_str": "everywhere"},
        {"command": "str_replace", "old_str": "\n", "new_str": "everywhere"},
    ):
        _, grown = growth(box, path, "edit", **args)
        assert grown < 60, args
    content, grown = growth(box, path, "read", impl_source="oh_aci", view_range=[1000, 1005])
    assert content.count("\n") == 7
    assert grown < 60


@pytest.mark.attack
@pytest.mark.parametrize("said", [None, 2])
def test_an_archive_with_millions_of_entries_is_refused_in_little_memory(
    box: RunningBox, directory: Path, said: int | None
) -> None:
    archive = directory / "many.zip"
    archive.write_bytes(crowded(2_500_000, said=said))
    Path(f"/proc/{box.process.pid}/clear_refs").write_text("5")
    before = memory(box, "VmRSS")
    with open(archive, "rb") as file:
        answer = box.client.post(
            "/upload_file", params={"destination": str(directory / "out")}, files={"file": ("a.zip", file)}
        )
    assert answer.status_code == 500
    assert "entries; at most 1000000 are unpacked" in answer.text
    assert (memory(box, "VmHWM") - before) / MEGABYTE < 50
