from __future__ import annotations

import io
import os
import struct
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from glovebox.archives.zip_records import dos_time
from glovebox.archives.zip_writer import BATCH, ZipEntry, ZipWriter, pack
from glovebox.client.transfer.files import collect
from glovebox.errors import TransferError

GIGABYTE = 1 << 30
FILE = 0o100644


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with a small file and a large one."""
    (tmp_path / "things" / "d").mkdir(parents=True)
    (tmp_path / "things" / "d" / "small ü").write_bytes(b"s" * 1000)
    (tmp_path / "things" / "large").write_bytes(b"l" * 3_000_000)
    return tmp_path / "things"


def opened(data: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert archive.testzip() is None
    return archive


def sent(source: Path) -> bytes:
    return b"".join(piece for piece, _ in pack(collect(source, recursive=True)))


def test_an_archive_says_of_files_what_they_are(source: Path) -> None:
    moment = time.mktime((2020, 2, 29, 13, 37, 42, 0, 0, -1))
    os.utime(source / "large", (moment, moment))
    os.utime(source / "d" / "small ü", (0, 0))
    (source / "large").chmod(0o4751)
    with opened(sent(source)) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        assert list(entries) == ["things/", "things/large", "things/d/", "things/d/small ü"]
        assert archive.read("things/large") == b"l" * 3_000_000
    assert {entry.compress_type for entry in entries.values()} == {zipfile.ZIP_STORED}
    assert entries["things/large"].external_attr >> 16 == 0o104751
    assert entries["things/large"].date_time == (2020, 2, 29, 13, 37, 42)
    assert entries["things/d/small ü"].date_time == (1980, 1, 1, 0, 0, 0)
    assert entries["things/d/"].is_dir()


@pytest.mark.parametrize(
    ("name", "size"), [("d/small ü", 0), ("d/small ü", 500), ("large", 0), ("large", 1_500_000)]
)
def test_a_file_that_shrinks_is_sent_as_it_is(source: Path, name: str, size: int) -> None:
    items = collect(source, recursive=True)
    os.truncate(source / name, size)
    with opened(b"".join(piece for piece, _ in pack(items))) as archive:
        assert archive.getinfo(f"things/{name}").file_size == size


@pytest.mark.parametrize(("name", "size"), [("d/small ü", 1000), ("large", 3_000_000)])
def test_of_a_file_that_grows_only_the_beginning_is_sent(source: Path, name: str, size: int) -> None:
    items = collect(source, recursive=True)
    with (source / name).open("ab") as file:
        file.write(b"more" * BATCH)
    with opened(b"".join(piece for piece, _ in pack(items))) as archive:
        assert archive.getinfo(f"things/{name}").file_size == size


@pytest.mark.parametrize("name", ["d/small ü", "large"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(source: Path, name: str) -> None:
    items = collect(source, recursive=True)
    (source / name).unlink()
    os.mkfifo(source / name)
    with pytest.raises(TransferError, match="no regular file"):
        list(pack(items))


def test_small_files_go_together_and_no_piece_is_large(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").write_bytes(b"x" * (number * 50))
    (tmp_path / "largest").write_bytes(b"x" * BATCH)
    pieces = list(pack(collect(tmp_path, recursive=True)))
    assert len(pieces) < 20
    assert max(len(piece) for piece, _ in pieces) < 3 * BATCH
    assert sum(size for _, size in pieces) == sum(range(300)) * 50 + BATCH


def test_more_entries_than_the_short_form_counts() -> None:
    archive = ZipWriter()
    names = [f"{number}" for number in range(65_536)]
    data = b"".join(
        archive.begin(ZipEntry(name.encode(), 0, dos_time(0), FILE)) + archive.end(0, 0) for name in names
    )
    end = archive.close()
    with zipfile.ZipFile(io.BytesIO(data + end)) as read:
        assert read.namelist() == names
    assert struct.unpack_from("<2Q", end, end.rindex(b"PK\6\6") + 24) == (65_536, 65_536)


def test_more_bytes_than_the_short_form_counts(tmp_path: Path) -> None:
    """Holes stand for the content, and no checksum is right."""
    sizes = {"a": 3 * GIGABYTE, "exact": 0xFFFFFFFF, "b": 5 * GIGABYTE, "c": 10}
    archive = ZipWriter()
    with (tmp_path / "a.zip").open("wb") as file:
        for name, size in sizes.items():
            file.write(archive.begin(ZipEntry(name.encode(), size, dos_time(0), FILE)))
            file.seek(size, os.SEEK_CUR)
            file.write(archive.end(0, size))
        file.write(archive.begin(ZipEntry(b"last", 7, dos_time(0), FILE)) + b"content")
        file.write(archive.end(zlib.crc32(b"content"), 7) + archive.close())
    with zipfile.ZipFile(tmp_path / "a.zip") as read:
        assert {entry.filename: entry.file_size for entry in read.infolist()} == {**sizes, "last": 7}
        assert read.read("last") == b"content"
        with read.open("b") as there:
            assert there.read(10) == bytes(10)
