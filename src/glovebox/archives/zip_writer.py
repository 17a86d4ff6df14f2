"""Zip archives that are made while they are sent. Entries are stored, and end in their checksums.

An entry's size is known before its content is read, its checksum only after; so the length of an archive is
known before its first byte, and nothing is held in memory.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from glovebox.archives.tree import TreeItem
from glovebox.archives.zip_records import (
    CHECKSUM_FOLLOWS,
    LIMIT32,
    UTF8_NAME,
    dos_time,
    end_records,
    listing,
    listing_length,
    streamed_header,
    streamed_length,
    trailer,
)
from glovebox.errors import TransferError

PIECE = 1 << 20
#: Small files are sent together, in pieces of this size at least: one for each costs more than all the rest.
BATCH = 256 << 10
#: If a pipe has taken a file's place, opening it does not wait for a writer.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class ZipEntry(NamedTuple):
    """A file or directory in an archive, as it was when it was found."""

    #: That of a directory ends with a slash.
    name: bytes
    size: int
    #: See `dos_time`.
    modified: int
    mode: int


class ZipWriter:
    """Makes the records of an archive, entry by entry: `begin`, then the content, then `end`."""

    def __init__(self) -> None:
        self._offset = 0
        self._count = 0
        self._list = bytearray()

    def begin(self, entry: ZipEntry) -> bytes:
        """The record that precedes the content."""
        self._entry = entry
        self._flags = _flags(entry.name)
        self._large = entry.size >= LIMIT32
        header = streamed_header(entry.name, self._flags, entry.modified, large=self._large)
        self._length = len(header)
        return header

    def end(self, checksum: int, size: int) -> bytes:
        """The record that follows the content, which may have become shorter than announced."""
        entry = self._entry
        last = trailer(checksum, size, large=self._large)
        self._list += listing(
            entry.name, self._flags, entry.modified, entry.mode, checksum, size, self._offset
        )
        self._offset += self._length + size + len(last)
        self._count += 1
        return last

    def close(self) -> bytes:
        """The list of all entries, which ends the archive."""
        return bytes(self._list) + end_records(self._count, len(self._list), self._offset)


def archive_size(entries: Iterable[tuple[bytes, int]]) -> int:
    """How long an archive of entries with these names and sizes is."""
    offset = listed = count = 0
    for name, size in entries:
        listed += listing_length(name, size, offset)
        offset += streamed_length(name, size)
        count += 1
    return offset + listed + len(end_records(count, listed, offset))


def _flags(name: bytes) -> int:
    """Names are bytes, with a flag if they are UTF-8."""
    if name.isascii():
        return CHECKSUM_FOLLOWS
    try:
        name.decode()
    except UnicodeDecodeError:
        return CHECKSUM_FOLLOWS
    return CHECKSUM_FOLLOWS | UTF8_NAME


def _entry(item: TreeItem) -> ZipEntry:
    status = item.status
    return ZipEntry(os.fsencode(item.name), item.size, dos_time(status.st_mtime), status.st_mode)


def pack(items: Iterable[TreeItem], *, exact: bool = False) -> Generator[tuple[bytes, int], None, None]:
    """The archive piece by piece, each with how many bytes of files are in it. Blocks.

    Raises:
        TransferError: a file cannot be read, or with `exact` has become shorter than it was.
    """
    return batched(_records(items, exact))


def batched(records: Iterable[tuple[bytes, int]]) -> Generator[tuple[bytes, int], None, None]:
    """Pieces of an archive, joined until they are large enough to be sent."""
    waiting: list[bytes] = []
    held = content = 0
    for piece, size in records:
        waiting.append(piece)
        held += len(piece)
        content += size
        if held >= BATCH:
            yield b"".join(waiting), content
            waiting, held, content = [], 0, 0
    yield b"".join(waiting), content


def _records(items: Iterable[TreeItem], exact: bool) -> Iterator[tuple[bytes, int]]:
    writer = ZipWriter()
    for item in items:
        yield writer.begin(_entry(item)), 0
        checksum = size = 0
        for piece in () if item.is_directory else read_file(item):
            checksum = zlib.crc32(piece, checksum)
            size += len(piece)
            yield piece, len(piece)
        if exact and size < item.size:
            raise TransferError(f"{item.path} became shorter while it was archived")
        yield writer.end(checksum, size), 0
    yield writer.close(), 0


def read_file(item: TreeItem) -> Iterator[bytes]:
    """The content of a file, as much as it had when it was found: one that grows meanwhile does no harm.

    Raises:
        TransferError: it cannot be read.
    """
    try:
        file = os.open(item.path, _READ)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise TransferError(f"{item.path} is no regular file.")
            left = item.size
            while left and (piece := os.read(file, min(left, PIECE))):
                left -= len(piece)
                yield piece
        finally:
            os.close(file)
    except OSError as error:
        raise TransferError(f"{item.path} cannot be read: {error.strerror or error}") from error
