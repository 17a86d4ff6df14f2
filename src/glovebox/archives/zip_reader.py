"""Reads the list of an archive's entries part by part: one can be made to have millions of them.

The standard library reads that list as a whole, and makes objects of all its entries, before
their number is known. Here they are counted first, and then given to it in portions.
"""

from __future__ import annotations

import errno
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

from glovebox.archives.zip_records import LIMIT16, MOST_ENTRIES, MOST_LISTED, end_records
from glovebox.errors import BadArchive

#: What the standard library raises on archives that are damaged or made to harm.
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError)
_PORTION = 10_000
_PORTION_BYTES = 4 << 20
_WINDOW = 1 << 20
_END = struct.Struct("<4s4x2H2LH")
_END_64 = struct.Struct("<4s20x4Q")
_END_64_SIZE = 56
_LOCATOR_64_SIZE = 20
_HEADER_SIZE = 46
_LENGTHS = struct.Struct("<3H")
_LENGTHS_AT = 28


class Listing(NamedTuple):
    """The place of the list of an archive's entries, and their number according to the archive."""

    start: int
    size: int
    #: Where it should be; the difference to `start` is what something was put before the archive.
    offset: int
    entries: int


def checked_listing(
    file: IO[bytes], most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_LISTED
) -> Listing:
    """The list of an archive, after its entries were counted. Takes little memory, whatever their number.

    Raises:
        BadArchive: there are too many.
        BadZipFile: it is damaged.
    """
    listing = _find(file)
    if listing.entries > most_entries:
        raise BadArchive(f"The archive has {listing.entries} entries; at most {most_entries} are unpacked")
    if listing.size > most_bytes:
        raise BadArchive(
            f"The list of the archive's entries has {listing.size} bytes; at most {most_bytes} are read"
        )
    for number, _ in enumerate(headers(file, listing), 1):
        if number > most_entries:  # whatever the archive says
            raise BadArchive(
                f"The archive has more than {most_entries} entries; at most {most_entries} are unpacked"
            )
    return listing


def portions(file: IO[bytes], listing: Listing) -> Iterator[zipfile.ZipFile]:
    """The archive again and again, each time with some of its entries, in their order.

    Raises:
        BadZipFile: it is damaged.
    """
    portion, count = bytearray(), 0
    for header in headers(file, listing):
        portion += header
        count += 1
        if count >= _PORTION or len(portion) >= _PORTION_BYTES:
            yield _portion(file, listing, bytes(portion), count)
            portion, count = bytearray(), 0
    if count or not listing.size:
        yield _portion(file, listing, bytes(portion), count)


def headers(file: IO[bytes], listing: Listing) -> Iterator[bytes]:
    """The record of each entry in the list.

    Raises:
        BadZipFile: it is damaged.
    """
    window, at, left = b"", 0, listing.size
    position = listing.start

    def more(wanted: int) -> None:
        """Have so many bytes in the window, from `at` on."""
        nonlocal window, at, position
        if len(window) - at < wanted:
            file.seek(position)
            got = file.read(_WINDOW)
            position += len(got)
            window, at = window[at:] + got, 0
        if len(window) - at < wanted or wanted > left:
            raise zipfile.BadZipFile("Truncated central directory")

    while left > 0:
        more(_HEADER_SIZE)
        if window[at : at + 4] != b"PK\1\2":
            raise zipfile.BadZipFile("Bad magic number for central directory")
        size = _HEADER_SIZE + sum(_LENGTHS.unpack_from(window, at + _LENGTHS_AT))
        more(size)
        yield window[at : at + size]
        at += size
        left -= size


def _find(file: IO[bytes]) -> Listing:
    """Where the standard library finds the list."""
    end = file.seek(0, io.SEEK_END)
    length = min(end, _END.size + LIMIT16)
    file.seek(end - length)
    tail = file.read(length)
    at = len(tail) - _END.size
    if at < 0 or not tail.startswith(b"PK\5\6", at) or not tail.endswith(b"\0\0"):  # there is a comment
        at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise zipfile.BadZipFile("File is not a zip file")
    _, _, entries, size, offset, _ = _END.unpack_from(tail, at)
    place = end - length + at
    large = _find_large(file, place)
    if large is not None:
        entries, size, offset = large
        place -= _END_64_SIZE + _LOCATOR_64_SIZE
    if place < size:
        raise zipfile.BadZipFile("Bad offset for central directory")
    return Listing(place - size, size, offset, entries)


def _find_large(file: IO[bytes], place: int) -> tuple[int, int, int] | None:
    """Entries, size and offset of an archive in the large format."""
    if place < _END_64_SIZE + _LOCATOR_64_SIZE:
        return None
    file.seek(place - _END_64_SIZE - _LOCATOR_64_SIZE)
    records = file.read(_END_64_SIZE + _LOCATOR_64_SIZE)
    if not records.startswith(b"PK\6\7", _END_64_SIZE) or not records.startswith(b"PK\6\6"):
        return None
    _, _, entries, size, offset = _END_64.unpack_from(records)
    return entries, size, offset


def _portion(file: IO[bytes], listing: Listing, headers: bytes, count: int) -> zipfile.ZipFile:
    tail = headers + end_records(count, len(headers), listing.offset)
    return zipfile.ZipFile(cast(IO[bytes], _Excerpt(file, listing.start, tail)))


class _Excerpt:
    """An archive whose list of entries is another."""

    def __init__(self, file: IO[bytes], start: int, tail: bytes) -> None:
        self._file = file
        self._start = start
        self._tail = tail
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET and offset < 0:
            raise ValueError(f"negative seek value {offset}")
        at = (0, self._at, self._start + len(self._tail))[whence] + offset
        if at < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = self._start + len(self._tail)
        data = b""
        if self._at < self._start:
            self._file.seek(self._at)
            data = self._file.read(min(size, self._start - self._at))
        elif self._at < self._start + len(self._tail):
            inside = self._at - self._start
            data = self._tail[inside : inside + size]
        self._at += len(data)
        return data
