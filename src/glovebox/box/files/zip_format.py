"""An archive whose entries end in their checksums: its length is known before the first byte of it.

An entry's size is known before, its checksum only after.
"""

from __future__ import annotations

from typing import NamedTuple

from glovebox.protocol.zip_records import (
    CHECKSUM_FOLLOWS,
    LIMIT32,
    UTF8_NAME,
    end_records,
    listing,
    listing_length,
    streamed_header,
    streamed_length,
    trailer,
)


class Entry(NamedTuple):
    """A file to be archived, as it was when it was found."""

    name: bytes
    size: int
    #: See `dos_time`.
    modified: int
    mode: int


def local_header(entry: Entry) -> bytes:
    """What precedes an entry's data."""
    return streamed_header(entry.name, _flags(entry.name), entry.modified, large=entry.size >= LIMIT32)


def descriptor(entry: Entry, checksum: int) -> bytes:
    """What follows an entry's data."""
    return trailer(checksum, entry.size, large=entry.size >= LIMIT32)


def central_header(entry: Entry, checksum: int, offset: int) -> bytes:
    """An entry's line in the list at the end."""
    return listing(entry.name, _flags(entry.name), entry.modified, entry.mode, checksum, entry.size, offset)


def total_size(entries: list[Entry]) -> int:
    """How long an archive of these entries is."""
    offset = listed = 0
    for entry in entries:
        listed += listing_length(entry.name, entry.size, offset)
        offset += streamed_length(entry.name, entry.size)
    return offset + listed + len(end_records(len(entries), listed, offset))


def _flags(name: bytes) -> int:
    """Names are bytes: said to be UTF-8 if they are, and left as they are if not."""
    if name.isascii():
        return CHECKSUM_FOLLOWS
    try:
        name.decode()
    except UnicodeDecodeError:
        return CHECKSUM_FOLLOWS
    return CHECKSUM_FOLLOWS | UTF8_NAME
