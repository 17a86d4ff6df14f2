"""Small entries of a zip archive, read as a whole and many times as fast as the standard library does it.

It has the last word all the same: whatever is unusual or does not fit together is left to it, so that what
is taken and what is refused, and with which words, does not depend on an entry's size.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import BinaryIO

#: Larger entries are not for here, neither as they are nor as they become.
SMALL = 256 << 10

_WINDOW = 1 << 20
_LOCAL = struct.Struct("<4s2xH18x2H")
#: How hard it was compressed, that sizes follow the data, that the name is UTF-8: they change nothing here.
_USUAL_FLAGS = 0x0006 | 0x0008 | 0x0800
_UTF8_NAME = 0x0800


class SmallEntries:
    """Reads forward through an archive, in steps that hold many entries."""

    def __init__(self, file: BinaryIO, entries: Iterable[zipfile.ZipInfo], end: int) -> None:
        """`end`: where the entries end, and the list of them begins."""
        self._file = file
        self._window = b""
        self._start = 0
        #: By where entries begin, where they have to end: those that overlap are not usual.
        self._ends: dict[int, int] = {}
        for offset in sorted((entry.header_offset for entry in entries), reverse=True):
            self._ends[offset] = end
            end = offset

    def content(self, entry: zipfile.ZipInfo) -> bytes | None:
        """What the entry holds, checked; None if that is for others to find out."""
        offset, length, size = entry.header_offset, entry.compress_size, entry.file_size
        if length > SMALL or size > SMALL or entry.flag_bits & ~_USUAL_FLAGS:
            return None
        head = self._read(offset, _LOCAL.size)
        if len(head) < _LOCAL.size:
            return None
        magic, flags, name_length, extra_length = _LOCAL.unpack(head)
        name = self._read(offset + _LOCAL.size, name_length)
        if magic != b"PK\3\4" or name != _name(entry, flags):
            return None
        start = offset + _LOCAL.size + name_length + extra_length
        if start + length > self._ends[offset]:
            return None
        content = _opened(entry, self._read(start, length))
        if content is None or len(content) != size or zlib.crc32(content) != entry.CRC:
            return None
        return content

    def _read(self, offset: int, size: int) -> bytes:
        """Bytes of the archive, fewer only at its end."""
        place = offset - self._start
        if place < 0 or place + size > len(self._window):
            self._file.seek(offset)
            self._window = self._file.read(_WINDOW)
            self._start, place = offset, 0
        return self._window[place : place + size]


def _name(entry: zipfile.ZipInfo, flags: int) -> bytes | None:
    """How an entry with these flags has to be called where its data are."""
    try:
        return entry.orig_filename.encode("utf-8" if flags & _UTF8_NAME else "cp437")
    except UnicodeEncodeError:
        return None


def _opened(entry: zipfile.ZipInfo, data: bytes) -> bytes | None:
    if entry.compress_type == zipfile.ZIP_STORED:
        return data
    if entry.compress_type != zipfile.ZIP_DEFLATED:
        return None
    try:
        # One byte more shows that there is too much; no limit would be no limit at all.
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, entry.file_size + 1)
    except zlib.error:
        return None
