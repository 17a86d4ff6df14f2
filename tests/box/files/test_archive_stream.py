from __future__ import annotations

import io
import os
import threading
import zipfile
import zlib
from pathlib import Path

import pytest

from glovebox.archives.zip_writer import ZipEntry, ZipWriter, archive_size
from glovebox.box.files.transfer.archive_stream import ArchiveStream, open_zip
from glovebox.errors import TransferError

GIGABYTE = 1 << 30


def everything(stream: ArchiveStream) -> bytes:
    pieces = []
    while piece := stream.read():
        pieces.append(piece)
    return b"".join(pieces)


def opened(path: Path) -> zipfile.ZipFile:
    stream = open_zip(str(path))
    data = everything(stream)
    assert len(data) == stream.size
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert archive.testzip() is None
    return archive


def sparse_archive(path: Path, entries: list[ZipEntry]) -> None:
    """An archive whose data are holes."""
    writer = ZipWriter()
    with path.open("wb") as file:
        for entry in entries:
            file.write(writer.begin(entry))
            file.seek(entry.size, os.SEEK_CUR)
            file.write(writer.end(0, entry.size))
        file.write(writer.close())


def test_an_archive_holds_what_the_directory_holds(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/empty directory").mkdir()
    contents = {"a.txt": b"A\n", "d/b": os.urandom(3_000_000), "d/e/empty": b"", "d/.hidden": b"h"}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    with opened(tmp_path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == contents
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_the_order_is_that_of_names(tmp_path: Path) -> None:
    for name in ("c", "a", "b/z", "b/y", "b/x/w"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with opened(tmp_path) as archive:
        assert archive.namelist() == ["a", "c", "b/y", "b/z", "b/x/w"]


def test_mode_and_time_of_a_file_travel_with_it(tmp_path: Path) -> None:
    (tmp_path / "run.sh").touch()
    (tmp_path / "run.sh").chmod(0o751)
    os.utime(tmp_path / "run.sh", (1_500_000_000, 1_500_000_000))
    with opened(tmp_path) as archive:
        info = archive.getinfo("run.sh")
    assert info.external_attr >> 16 == 0o100751
    assert info.date_time == zipfile.ZipInfo.from_file(tmp_path / "run.sh").date_time


@pytest.mark.parametrize(
    ("seconds", "year"), [(0, 1980), (-1_000_000_000, 1980), (9_000_000_000, 2107), (1 << 40, 2107)]
)
def test_times_a_zip_cannot_tell_become_the_nearest_it_can(tmp_path: Path, seconds: int, year: int) -> None:
    (tmp_path / "x").touch()
    try:
        os.utime(tmp_path / "x", (seconds, seconds))
    except OSError:
        pytest.skip("the file system cannot tell it either")
    if abs((tmp_path / "x").stat().st_mtime - seconds) > 1:
        pytest.skip("the file system cannot tell it either")
    with opened(tmp_path) as archive:
        assert archive.getinfo("x").date_time[0] == year


def test_names_in_any_script_and_in_none_are_archived(tmp_path: Path) -> None:
    names = [b"plain", "日本.txt".encode(), b"latin-\xe9.txt", b"\xff\xfe"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(name)
    with opened(tmp_path) as archive:
        assert {archive.read(info) for info in archive.infolist()} == set(names)
        assert {"plain", "日本.txt"} < set(archive.namelist())
        assert len(set(archive.namelist())) == len(names)


def test_links_count_as_what_they_lead_to_unless_it_is_a_directory(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "file").write_text("f")
    (inside / "to file").symlink_to("../file")
    (inside / "to directory").symlink_to("..")
    (inside / "dangling").symlink_to("nowhere")
    (inside / "circle").symlink_to("circle")
    os.mkfifo(inside / "pipe")
    with opened(inside) as archive:
        assert archive.namelist() == ["to file"]
        assert archive.read("to file") == b"f"


def test_a_single_file_is_archived_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("f\n")
    with opened(tmp_path / "f.txt") as archive:
        assert archive.namelist() == ["f.txt"]
        assert archive.read("f.txt") == b"f\n"


def test_an_empty_directory_gives_an_empty_archive(tmp_path: Path) -> None:
    assert len(everything(open_zip(str(tmp_path)))) == 22


def test_a_pipe_is_nothing_to_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransferError, match="neither a directory nor a regular file"):
        open_zip(str(tmp_path / "pipe"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_is_an_error_and_a_directory_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o000)
    assert len(everything(open_zip(str(tmp_path)))) == 22
    (tmp_path / "secret").touch(mode=0o000)
    with pytest.raises(PermissionError, match=f"{tmp_path}/secret"):
        open_zip(str(tmp_path))


def test_a_file_that_grows_meanwhile_is_archived_as_it_was_found(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before")
    stream = open_zip(str(tmp_path))
    (tmp_path / "log").write_text("before and after")
    with zipfile.ZipFile(io.BytesIO(everything(stream))) as archive:
        assert archive.read("log") == b"before"


@pytest.mark.parametrize("change", ["shrink", "vanish", "pipe"])
def test_a_file_that_is_not_what_it_was_is_an_error(tmp_path: Path, change: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"x" * 100)
    stream = open_zip(str(tmp_path))
    file.unlink()
    if change == "shrink":
        file.write_bytes(b"x" * 99)
    elif change == "pipe":
        os.mkfifo(file)
    with pytest.raises((TransferError, FileNotFoundError)):
        everything(stream)


def test_closing_closes_the_open_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(5_000_000))
    before = len(os.listdir("/proc/self/fd"))
    stream = open_zip(str(tmp_path))
    stream.read()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    stream.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert stream.read() == b""


def test_closing_while_a_thread_reads_neither_waits_nor_leaks(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(20_000_000))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        stream = open_zip(str(tmp_path))
        begun = threading.Event()

        def read_all(stream: ArchiveStream = stream, begun: threading.Event = begun) -> None:
            while stream.read():
                begun.set()

        reader = threading.Thread(target=read_all)
        reader.start()
        assert begun.wait(10)
        stream.close()
        reader.join(10)
        assert not reader.is_alive()
    assert len(os.listdir("/proc/self/fd")) == before


def test_large_files_and_far_offsets_are_told_in_64_bits(tmp_path: Path) -> None:
    entries = [
        ZipEntry(b"small", 10_000, 0, 0o100644),
        ZipEntry(b"just below", 4 * GIGABYTE - 2, 0, 0o100644),
        ZipEntry(b"at the limit", 4 * GIGABYTE - 1, 0, 0o100644),
        ZipEntry(b"above", 5 * GIGABYTE, 0, 0o100644),
        ZipEntry(b"after", 0, 0, 0o100644),
    ]
    sparse_archive(tmp_path / "large.zip", entries)
    assert (tmp_path / "large.zip").stat().st_size == archive_size(entry[:2] for entry in entries)
    with zipfile.ZipFile(tmp_path / "large.zip") as archive:
        assert [info.file_size for info in archive.infolist()] == [entry.size for entry in entries]
        for info in archive.infolist():
            with archive.open(info) as file:
                assert file.read(10) == bytes(min(10, info.file_size))


@pytest.mark.parametrize("count", [65_534, 65_535, 65_536])
def test_any_number_of_files_fits(tmp_path: Path, count: int) -> None:
    entries = [ZipEntry(b"%d" % number, 0, 0, 0o100644) for number in range(count)]
    sparse_archive(tmp_path / "many.zip", entries)
    assert (tmp_path / "many.zip").stat().st_size == archive_size(entry[:2] for entry in entries)
    # 65535 in the short record means "look in the long one".
    assert (b"PK\6\6" in (tmp_path / "many.zip").read_bytes()) == (count >= 65_535)
    with zipfile.ZipFile(tmp_path / "many.zip") as archive:
        assert len(archive.infolist()) == count
        assert archive.read("0") == b""


def test_checksums_are_those_of_the_data(tmp_path: Path) -> None:
    data = os.urandom(2_500_000)
    (tmp_path / "x").write_bytes(data)
    with opened(tmp_path) as archive:
        assert zlib.crc32(data) == archive.getinfo("x").CRC
