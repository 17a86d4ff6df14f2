"""The records of a zip archive of stored entries, written one after the other. Data in, bytes out.

The standard library's writer takes several times as long for a small file as reading the file does.
"""

from __future__ import annotations

import struct
import time
import zlib
from typing import NamedTuple

_LIMIT32 = 0xFFFFFFFF
_LIMIT16 = 0xFFFF
_CHECKSUM_FOLLOWS = 0x0008
_UTF8_NAME = 0x0800
_VERSION = 20
_VERSION_64 = 45
_UNIX = 3 << 8
_ZIP64_FIELD = 1
#: What the 0 of an entry that says its sizes later leaves room for.
_LARGE_LATER = struct.pack("<2H2Q", _ZIP64_FIELD, 16, 0, 0)

_LOCAL = struct.Struct("<4s3H4L2H")
_CENTRAL = struct.Struct("<4s4H4L5H2L")
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")

#: The years that an archive can tell, and the moment it tells instead of others.
_FIRST_YEAR, _LAST_YEAR = 1980, 2107
_UNKNOWN_MOMENT = 1 << 21 | 1 << 16


class Entry(NamedTuple):
    """What an archive says of a file or directory. The name of a directory ends with a slash."""

    name: bytes
    mode: int
    #: See `dos_time`.
    modified: int


def dos_time(seconds: float) -> int:
    """A time as archives tell it: in steps of two seconds, local."""
    year, month, day, hour, minute, second = time.localtime(seconds)[:6]
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return _UNKNOWN_MOMENT
    return (year - 1980) << 25 | month << 21 | day << 16 | hour << 11 | minute << 5 | second // 2


class Archive:
    """An archive in the making: what is next to be sent, and the list of entries that ends it."""

    def __init__(self) -> None:
        self._offset = 0
        self._count = 0
        self._directory = bytearray()

    def whole(self, entry: Entry, content: bytes) -> bytes:
        """What precedes the content of an entry that is there as a whole."""
        flags, size, checksum = _flags(entry.name), len(content), zlib.crc32(content)
        head = _LOCAL.pack(
            b"PK\3\4", _VERSION, flags, 0, entry.modified, checksum, size, size, len(entry.name), 0
        )
        self._note(entry, flags, checksum, size, len(head) + len(entry.name) + size)
        return head + entry.name

    def begun(self, entry: Entry, *, large: bool) -> bytes:
        """What precedes the content of an entry that comes in pieces; `large` if it may need 64 bits."""
        extra = _LARGE_LATER if large else b""
        size = _LIMIT32 if large else 0
        head = _LOCAL.pack(
            b"PK\3\4", _VERSION_64 if large else _VERSION, _flags(entry.name) | _CHECKSUM_FOLLOWS, 0,
            entry.modified, 0, size, size, len(entry.name), len(extra),
        )  # fmt: skip
        return head + entry.name + extra

    def ended(self, entry: Entry, checksum: int, size: int, *, large: bool) -> bytes:
        """What follows that content."""
        trailer = struct.pack("<4sL2Q" if large else "<4s3L", b"PK\7\10", checksum, size, size)
        head = _LOCAL.size + len(entry.name) + (len(_LARGE_LATER) if large else 0)
        self._note(entry, _flags(entry.name) | _CHECKSUM_FOLLOWS, checksum, size, head + size + len(trailer))
        return trailer

    def closed(self) -> bytes:
        """What ends the archive."""
        count, size, offset = self._count, len(self._directory), self._offset
        if count >= _LIMIT16 or size >= _LIMIT32 or offset >= _LIMIT32:
            self._directory += _END_64.pack(
                b"PK\6\6", _END_64.size - 12, _UNIX | _VERSION_64, _VERSION_64, 0, 0,
                count, count, size, offset,
            ) + _LOCATOR_64.pack(b"PK\6\7", 0, offset + size, 1)  # fmt: skip
        few = min(count, _LIMIT16)
        return bytes(self._directory) + _END.pack(
            b"PK\5\6", 0, 0, few, few, min(size, _LIMIT32), min(offset, _LIMIT32), 0
        )

    def _note(self, entry: Entry, flags: int, checksum: int, size: int, length: int) -> None:
        """An entry's line in the list; `length` is how much of the archive it takes."""
        large = [size, size] if size >= _LIMIT32 else []
        if self._offset >= _LIMIT32:
            large.append(self._offset)
        extra = struct.pack(f"<2H{len(large)}Q", _ZIP64_FIELD, 8 * len(large), *large) if large else b""
        version = _VERSION_64 if large else _VERSION
        self._directory += _CENTRAL.pack(
            b"PK\1\2", _UNIX | version, version, flags, 0, entry.modified,
            checksum, min(size, _LIMIT32), min(size, _LIMIT32), len(entry.name), len(extra), 0, 0, 0,
            (entry.mode & _LIMIT16) << 16, min(self._offset, _LIMIT32),
        )  # fmt: skip
        self._directory += entry.name + extra
        self._count += 1
        self._offset += length


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else _UTF8_NAME
