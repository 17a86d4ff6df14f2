"""A directory of the host as a zip archive that is made while it is sent. Everything here blocks.

Entries are stored: the box takes them as fast as they are read, and nothing is held in memory.
"""

from __future__ import annotations

import logging
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from glovebox.archives.zip_records import (
    CHECKSUM_FOLLOWS,
    UTF8_NAME,
    dos_time,
    end_records,
    known_header,
    listing,
    streamed_header,
    trailer,
)
from glovebox.errors import TransferError

log = logging.getLogger(__name__)

_PIECE = 1 << 20
#: Up to this size a file is read as a whole, and several are sent as one piece of this size at least.
SMALL = _BATCH = 256 << 10
#: From this size on a file needs the form for large ones.
_LARGE = 0xFFFFFFFF
#: Should a pipe have taken a file's place, opening it must not wait for a writer.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Item(NamedTuple):
    """A file or directory to be sent, and its name in the archive."""

    path: str
    name: str
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        """Whether it has no content of its own."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def size(self) -> int:
        return 0 if self.is_directory else self.status.st_size

    @property
    def identity(self) -> tuple[int, int]:
        return self.status.st_dev, self.status.st_ino


def collect(source: Path, *, recursive: bool, follow_links: bool = False) -> list[Item]:
    """A file, or a directory and everything below it, named from its parent directory on.

    A link is what it leads to, if that is within the directory; one that leads out of it is only followed if
    `follow_links` says so, since a box must not get what a link that was put there points at.

    Raises:
        TransferError: something may not be read, or is a directory although not `recursive`.
    """
    root = os.path.realpath(source)
    top = Item(str(source), Path(os.path.abspath(source)).name, os.stat(source))
    if top.is_directory and not recursive:
        raise TransferError(f"{source} is a directory: it is copied with recursive=True.")
    items: list[Item] = []
    waiting = [(top, frozenset[tuple[int, int]]())]
    while waiting:
        item, above = waiting.pop()
        items.append(item)
        if not item.is_directory:
            continue
        inside = above | {item.identity}
        below = [_looked_at(entry, item, root, follow_links) for entry in _entries(item.path)]
        waiting += [
            (found, inside) for found in reversed(below) if found is not None and found.identity not in inside
        ]
    return items


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise TransferError(f"{directory} cannot be read: {error.strerror or error}") from error


def _looked_at(entry: os.DirEntry[str], parent: Item, root: str, follow_links: bool) -> Item | None:
    """An entry to be sent; None for what cannot or must not be."""
    why = ""
    try:
        status = entry.stat()
    except OSError as error:
        why = error.strerror or str(error)
    else:
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            why = "neither a file nor a directory"
        elif entry.is_symlink() and not follow_links and not _is_within(entry.path, root):
            why = "a link that leads out of the directory"
    if why:
        log.warning("%s is not sent: %s", entry.path, why)
        return None
    return Item(entry.path, f"{parent.name}/{entry.name}", status)


def _is_within(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real == root or real.startswith(os.path.join(root, ""))


def packed(items: list[Item]) -> Iterator[tuple[bytes, int]]:
    """The archive piece by piece, each with how many bytes of files are in it.

    Raises:
        TransferError: a file cannot be read.
    """
    archive = Archive()
    # Small files go together: a piece of its own costs each of them more than all the rest.
    waiting: list[bytes] = []
    size = held = 0
    for item in items:
        entry = _entry(item)
        if item.size > SMALL:
            yield b"".join(waiting), size
            yield from _in_pieces(archive, entry, item)
            waiting, size, held = [], 0, 0
            continue
        content = b"" if item.is_directory else _content(item)
        waiting += archive.whole(entry, content), content
        size += len(content)
        held += len(entry.name) + len(content)
        if held >= _BATCH:
            yield b"".join(waiting), size
            waiting, size, held = [], 0, 0
    yield b"".join(waiting), size
    yield archive.closed(), 0


def _in_pieces(archive: Archive, entry: ZipMember, item: Item) -> Iterator[tuple[bytes, int]]:
    """A file of which only a piece is held at a time."""
    large = item.size >= _LARGE
    yield archive.begun(entry, large=large), 0
    checksum = size = 0
    for piece, length in pieces(item):
        checksum = zlib.crc32(piece, checksum)
        size += length
        yield piece, length
    yield archive.ended(entry, checksum, size, large=large), 0


def _content(item: Item) -> bytes:
    """A small file as a whole."""
    found = [piece for piece, _ in pieces(item)]
    return found[0] if len(found) == 1 else b"".join(found)


def pieces(item: Item) -> Iterator[tuple[bytes, int]]:
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
            while left and (piece := os.read(file, min(left, _PIECE))):
                left -= len(piece)
                yield piece, len(piece)
        finally:
            os.close(file)
    except OSError as error:
        raise TransferError(f"{item.path} cannot be read: {error.strerror or error}") from error


def _entry(item: Item) -> ZipMember:
    try:
        name = (item.name + "/" if item.is_directory else item.name).encode()
    except UnicodeEncodeError:
        raise TransferError(f"{item.path!r} has a name that is not UTF-8 and cannot be sent") from None
    return ZipMember(name, item.status.st_mode, dos_time(item.status.st_mtime))


class ZipMember(NamedTuple):
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

    def whole(self, entry: ZipMember, content: bytes) -> bytes:
        """What precedes the content of an entry that is there as a whole."""
        flags, size, checksum = _flags(entry.name), len(content), zlib.crc32(content)
        head = known_header(entry.name, flags, entry.modified, checksum, size)
        self._note(entry, flags, checksum, size, len(head) + size)
        return head

    def begun(self, entry: ZipMember, *, large: bool) -> bytes:
        """What precedes the content of an entry that comes in pieces; `large` if it may need 64 bits."""
        return streamed_header(entry.name, _flags(entry.name) | CHECKSUM_FOLLOWS, entry.modified, large=large)

    def ended(self, entry: ZipMember, checksum: int, size: int, *, large: bool) -> bytes:
        last = trailer(checksum, size, large=large)
        length = len(self.begun(entry, large=large)) + size + len(last)
        self._note(entry, _flags(entry.name) | CHECKSUM_FOLLOWS, checksum, size, length)
        return last

    def closed(self) -> bytes:
        return bytes(self._list) + end_records(self._count, len(self._list), self._offset)

    def _note(self, entry: ZipMember, flags: int, checksum: int, size: int, length: int) -> None:
        """Put an entry on the list; `length` is how much of the archive it takes."""
        self._list += listing(entry.name, flags, entry.modified, entry.mode, checksum, size, self._offset)
        self._count += 1
        self._offset += length


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else UTF8_NAME
