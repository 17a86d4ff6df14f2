"""An archive that is written one entry after the other, as files are read."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from glovebox.protocol.zip_records import (
    CHECKSUM_FOLLOWS,
    UTF8_NAME,
    end_records,
    known_header,
    listing,
    streamed_header,
    trailer,
)


class Entry(NamedTuple):
    """What an archive says of a file or directory. The name of a directory ends with a slash."""

    name: bytes
    mode: int
    #: See `dos_time`.
    modified: int


class Archive:
    """An archive in the making: what is next to be sent, and the list of entries that ends it."""

    def __init__(self) -> None:
        self._offset = 0
        self._count = 0
        self._list = bytearray()

    def whole(self, entry: Entry, content: bytes) -> bytes:
        """What precedes the content of an entry that is there as a whole."""
        flags, size, checksum = _flags(entry.name), len(content), zlib.crc32(content)
        head = known_header(entry.name, flags, entry.modified, checksum, size)
        self._note(entry, flags, checksum, size, len(head) + size)
        return head

    def begun(self, entry: Entry, *, large: bool) -> bytes:
        """What precedes the content of an entry that comes in pieces; `large` if it may need 64 bits."""
        return streamed_header(entry.name, _flags(entry.name) | CHECKSUM_FOLLOWS, entry.modified, large=large)

    def ended(self, entry: Entry, checksum: int, size: int, *, large: bool) -> bytes:
        """What follows that content."""
        last = trailer(checksum, size, large=large)
        length = len(self.begun(entry, large=large)) + size + len(last)
        self._note(entry, _flags(entry.name) | CHECKSUM_FOLLOWS, checksum, size, length)
        return last

    def closed(self) -> bytes:
        """What ends the archive."""
        return bytes(self._list) + end_records(self._count, len(self._list), self._offset)

    def _note(self, entry: Entry, flags: int, checksum: int, size: int, length: int) -> None:
        """Put an entry on the list; `length` is how much of the archive it takes."""
        self._list += listing(entry.name, flags, entry.modified, entry.mode, checksum, size, self._offset)
        self._count += 1
        self._offset += length


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else UTF8_NAME
