"""Archives with any number of entries, read in portions."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest

from glovebox.archives import zip_reader
from glovebox.archives.zip_reader import checked_listing, portions
from glovebox.archives.zip_records import MOST_LISTED, end_records
from glovebox.client.transfer.files import unpack
from glovebox.errors import BadArchive


def archive(count: int, *, before: bytes = b"", comment: bytes = b"", large: bool = False) -> io.BytesIO:
    """An archive of small files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as entries:
        for number in range(count):
            entry = zipfile.ZipInfo(f"{number % 3}/é-{number}.txt")
            entry.comment = b"c" * (number % 5)
            with entries.open(entry, "w", force_zip64=large) as inside:
                inside.write(b"%d" % number)
        entries.comment = comment
    return io.BytesIO(before + file.getvalue())


@pytest.mark.parametrize("count", [0, 1, 3, 4, 10])
@pytest.mark.parametrize(
    "shape", [{}, {"before": b"#!/bin/sh\n" * 7}, {"comment": b"words, with PK"}, {"large": True}], ids=str
)
def test_portions_have_the_entries_of_the_archive(
    monkeypatch: pytest.MonkeyPatch, count: int, shape: dict[str, bytes]
) -> None:
    monkeypatch.setattr(zip_reader, "_PORTION", 3)
    monkeypatch.setattr(zip_reader, "_WINDOW", 50)
    file = archive(count, **shape)  # type: ignore[arg-type]
    found = [
        (entry.filename, entry.comment, entry.header_offset, part.read(entry))
        for part in portions(file, checked_listing(file))
        for entry in part.infolist()
    ]
    whole = zipfile.ZipFile(file)
    assert found == [
        (entry.filename, entry.comment, entry.header_offset, whole.read(entry)) for entry in whole.infolist()
    ]


@pytest.mark.parametrize("place", range(1, 60))
def test_damaged_lists_are_refused(place: int) -> None:
    data = archive(2).getvalue()
    file = io.BytesIO(data[:-place])
    with pytest.raises((zipfile.BadZipFile, BadArchive)):
        checked_listing(file)


def crowded(count: int, *, said: int | None = None) -> bytes:
    """The list of an archive with so many entries, which says that there are `said`."""
    listed = struct.pack("<4s42x", b"PK\1\2") * count
    if said is None:
        return listed + end_records(count, len(listed), 0)
    return listed + struct.pack("<4s4x2H2LH", b"PK\5\6", said, said, len(listed), 0, 0)


@pytest.mark.attack
def test_entries_are_counted_whatever_is_said_of_their_number(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    for said, words in ((None, "has 1000001 entries"), (2, "has more than 1000000 entries")):
        path.write_bytes(crowded(1_000_001, said=said))
        with pytest.raises(BadArchive, match=words):
            unpack(path, tmp_path / "out")
    with open(path, "wb") as file:  # most of it is a hole
        file.seek(MOST_LISTED + 1)
        file.write(end_records(2, MOST_LISTED + 1, 0))
    with pytest.raises(BadArchive, match="at most"):
        unpack(path, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
