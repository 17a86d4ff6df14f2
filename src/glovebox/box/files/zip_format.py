"""The records of a zip archive whose entries are stored and whose checksums follow the data.

Data in, bytes out. An entry's size is known before, its checksum only after: so each entry ends in a
data descriptor, and the length of the whole archive is known before the first byte of it.

Written here because the libraries that stream archives give up when a file grows meanwhile (a log in a
workspace does), or lose its mode and time, and take only names that are UTF-8.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

_LIMIT32 = 0xFFFFFFFF
_LIMIT16 = 0xFFFF
_DESCRIPTOR_FOLLOWS = 0x0008
_UTF8_NAME = 0x0800
_VERSION = 20
_VERSION_64 = 45
_UNIX = 3 << 8
_ZIP64_FIELD = 1

_LOCAL = struct.Struct("<4s3H4L2H")
_CENTRAL = struct.Struct("<4s4H4L5H2L")
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")

# The dates a DOS time stamp can hold.
_FIRST_MOMENT = (1980, 1, 1, 0, 0, 0)
_LAST_MOMENT = (2107, 12, 31, 23, 59, 58)
_FIRST_SECOND = 0
_LAST_SECOND = 4_354_819_200


class Entry(NamedTuple):
    """A file to be archived, as it was when it was found."""

    name: bytes
    size: int
    #: See `dos_time`.
    modified: int
    mode: int


def dos_time(seconds: float) -> int:
    """A time as archives tell it: from 1980 to 2107, in steps of two seconds, local."""
    moment = time.localtime(min(max(seconds, _FIRST_SECOND), _LAST_SECOND))[:6]
    year, month, day, hour, minute, second = min(max(moment, _FIRST_MOMENT), _LAST_MOMENT)
    return (year - 1980) << 25 | month << 21 | day << 16 | hour << 11 | minute << 5 | second // 2


def local_header(entry: Entry) -> bytes:
    """What precedes an entry's data."""
    large = entry.size >= _LIMIT32
    extra = struct.pack("<2H2Q", _ZIP64_FIELD, 16, 0, 0) if large else b""
    size = _LIMIT32 if large else 0
    version = _VERSION_64 if large else _VERSION
    head = _LOCAL.pack(
        b"PK\3\4", version, _flags(entry.name), 0, entry.modified,
        0, size, size, len(entry.name), len(extra),
    )  # fmt: skip
    return head + entry.name + extra


def descriptor(entry: Entry, checksum: int) -> bytes:
    """What follows an entry's data."""
    form = "<4sL2Q" if entry.size >= _LIMIT32 else "<4s3L"
    return struct.pack(form, b"PK\7\10", checksum, entry.size, entry.size)


def central_header(entry: Entry, checksum: int, offset: int) -> bytes:
    """An entry's line in the directory at the end."""
    large = [entry.size, entry.size] if entry.size >= _LIMIT32 else []
    if offset >= _LIMIT32:
        large.append(offset)
    extra = struct.pack(f"<2H{len(large)}Q", _ZIP64_FIELD, 8 * len(large), *large) if large else b""
    version = _VERSION_64 if large else _VERSION
    size = min(entry.size, _LIMIT32)
    head = _CENTRAL.pack(
        b"PK\1\2", _UNIX | version, version, _flags(entry.name), 0, entry.modified,
        checksum, size, size, len(entry.name), len(extra), 0, 0, 0,
        (entry.mode & _LIMIT16) << 16, min(offset, _LIMIT32),
    )  # fmt: skip
    return head + entry.name + extra


def end_records(count: int, size: int, offset: int) -> bytes:
    """What closes an archive of `count` entries whose directory of `size` bytes begins at `offset`."""
    records = b""
    if count >= _LIMIT16 or size >= _LIMIT32 or offset >= _LIMIT32:
        records = _END_64.pack(
            b"PK\6\6", _END_64.size - 12, _UNIX | _VERSION_64, _VERSION_64, 0, 0, count, count, size, offset
        ) + _LOCATOR_64.pack(b"PK\6\7", 0, offset + size, 1)
    few = min(count, _LIMIT16)
    return records + _END.pack(b"PK\5\6", 0, 0, few, few, min(size, _LIMIT32), min(offset, _LIMIT32), 0)


def total_size(entries: list[Entry]) -> int:
    """How long an archive of these entries is."""
    offset = directory = 0
    for entry in entries:
        large = entry.size >= _LIMIT32
        fields = (2 if large else 0) + (1 if offset >= _LIMIT32 else 0)
        directory += _CENTRAL.size + len(entry.name) + (4 + 8 * fields if fields else 0)
        offset += _LOCAL.size + len(entry.name) + entry.size + (20 + 24 if large else 16)
    return offset + directory + len(end_records(len(entries), directory, offset))


def _flags(name: bytes) -> int:
    """Names are bytes: said to be UTF-8 if they are, and left as they are if not."""
    if name.isascii():
        return _DESCRIPTOR_FOLLOWS
    try:
        name.decode()
    except UnicodeDecodeError:
        return _DESCRIPTOR_FOLLOWS
    return _DESCRIPTOR_FOLLOWS | _UTF8_NAME
