"""The records of zip archives whose entries are stored as they are. Data in, bytes out.

Client and box send trees of files to each other as such archives. They are written here because the standard
library's writer takes several times as long for a small file as reading the file does, and because the
libraries that stream archives give up when a file grows meanwhile (a log in a workspace does), or lose its
mode and time, and take only names that are UTF-8.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from glovebox.errors import BadArchive

#: What no number of the short form may reach: sizes and offsets, and counts.
LIMIT32 = 0xFFFFFFFF
LIMIT16 = 0xFFFF
#: The most entries that an archive may have, and the most bytes of their list.
MOST_ENTRIES = 1_000_000
MOST_LISTED = 256 << 20
#: Flags of an entry.
CHECKSUM_FOLLOWS = 0x0008
UTF8_NAME = 0x0800

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

# The dates that a time stamp can hold.
_FIRST_MOMENT = (1980, 1, 1, 0, 0, 0)
_LAST_MOMENT = (2107, 12, 31, 23, 59, 58)
_FIRST_SECOND = 0
_LAST_SECOND = 4_354_819_200


class UnpackLimits(NamedTuple):
    """How much an archive may become."""

    max_bytes: int = 16 << 30
    max_entries: int = MOST_ENTRIES
    #: How long the list of its entries may be.
    max_listed: int = MOST_LISTED
    #: An honest archive of this size or less may be compressed as far as it goes.
    unsuspicious_bytes: int = 100 << 20
    max_ratio: int = 1000


class UnpackCounter:
    """Counts what an archive of some size becomes, and refuses what is too much."""

    def __init__(self, limits: UnpackLimits, size: int, abandoned: Callable[[], bool]) -> None:
        self._limits = limits
        self._suspicious = max(limits.unsuspicious_bytes, size * limits.max_ratio)
        self._abandoned = abandoned
        self.total = 0

    def add(self, size: int) -> None:
        """Count bytes.

        Raises:
            BadArchive: they are too many, or the caller has given up.
        """
        if self._abandoned():
            raise BadArchive("Unpacking was broken off")
        self.total += size
        if self.total > self._limits.max_bytes:
            raise BadArchive(f"The archive unpacks to more than {self._limits.max_bytes} bytes")
        if self.total > self._suspicious:
            times = self._limits.max_ratio
            raise BadArchive(f"The archive becomes too large: it unpacks to more than {times} times its size")


def dos_time(seconds: float) -> int:
    """A time in the form of archives: from 1980 to 2107, in steps of two seconds, local."""
    moment = time.localtime(min(max(seconds, _FIRST_SECOND), _LAST_SECOND))[:6]
    year, month, day, hour, minute, second = min(max(moment, _FIRST_MOMENT), _LAST_MOMENT)
    return (year - 1980) << 25 | month << 21 | day << 16 | hour << 11 | minute << 5 | second // 2


def streamed_header(name: bytes, flags: int, modified: int, *, large: bool) -> bytes:
    """The record before content whose checksum follows; `large` if its size needs 64 bits."""
    extra = _LARGE_LATER if large else b""
    size = LIMIT32 if large else 0
    version = _VERSION_64 if large else _VERSION
    head = _LOCAL.pack(b"PK\3\4", version, flags, 0, modified, 0, size, size, len(name), len(extra))
    return head + name + extra


def trailer(checksum: int, size: int, *, large: bool) -> bytes:
    """The record after that content."""
    return struct.pack("<4sL2Q" if large else "<4s3L", b"PK\7\10", checksum, size, size)


def streamed_length(name: bytes, size: int) -> int:
    """How much of an archive an entry takes whose checksum follows its content."""
    large = size >= LIMIT32
    return _LOCAL.size + len(name) + size + (len(_LARGE_LATER) + 24 if large else 16)


def listing(
    name: bytes, flags: int, modified: int, mode: int, checksum: int, size: int, offset: int
) -> bytes:
    """The record of an entry in the list at the end."""
    large = [size, size] if size >= LIMIT32 else []
    if offset >= LIMIT32:
        large.append(offset)
    extra = struct.pack(f"<2H{len(large)}Q", _ZIP64_FIELD, 8 * len(large), *large) if large else b""
    version = _VERSION_64 if large else _VERSION
    size = min(size, LIMIT32)
    head = _CENTRAL.pack(
        b"PK\1\2", _UNIX | version, version, flags, 0, modified,
        checksum, size, size, len(name), len(extra), 0, 0, 0,
        (mode & LIMIT16) << 16, min(offset, LIMIT32),
    )  # fmt: skip
    return head + name + extra


def listing_length(name: bytes, size: int, offset: int) -> int:
    """The length of that record."""
    fields = (2 if size >= LIMIT32 else 0) + (1 if offset >= LIMIT32 else 0)
    return _CENTRAL.size + len(name) + (4 + 8 * fields if fields else 0)


def end_records(count: int, size: int, offset: int) -> bytes:
    """The records that close an archive of `count` entries whose list of `size` bytes begins at `offset`."""
    records = b""
    if count >= LIMIT16 or size >= LIMIT32 or offset >= LIMIT32:
        records = _END_64.pack(
            b"PK\6\6", _END_64.size - 12, _UNIX | _VERSION_64, _VERSION_64, 0, 0, count, count, size, offset
        ) + _LOCATOR_64.pack(b"PK\6\7", 0, offset + size, 1)
    few = min(count, LIMIT16)
    return records + _END.pack(b"PK\5\6", 0, 0, few, few, min(size, LIMIT32), min(offset, LIMIT32), 0)
