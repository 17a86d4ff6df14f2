"""An archive whose entries end in their checksums: its length is known before the first byte of it.

An entry's size is known before, its checksum only after.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
import zlib
from collections.abc import Generator, Iterator
from typing import NamedTuple

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


class ZipEntry(NamedTuple):
    """A file to be archived, as it was when it was found."""

    name: bytes
    size: int
    #: See `dos_time`.
    modified: int
    mode: int


def local_header(entry: ZipEntry) -> bytes:
    """What precedes an entry's data."""
    return streamed_header(entry.name, _flags(entry.name), entry.modified, large=entry.size >= LIMIT32)


def descriptor(entry: ZipEntry, checksum: int) -> bytes:
    """What follows an entry's data."""
    return trailer(checksum, entry.size, large=entry.size >= LIMIT32)


def central_header(entry: ZipEntry, checksum: int, offset: int) -> bytes:
    """An entry's line in the list at the end."""
    return listing(entry.name, _flags(entry.name), entry.modified, entry.mode, checksum, entry.size, offset)


def total_size(entries: list[ZipEntry]) -> int:
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


log = logging.getLogger(__name__)

_PIECE = 1 << 20
_EFFECTIVE = os.access in os.supports_effective_ids


def open_archive(path: str) -> ZipStream:
    """An archive of the regular files below a directory, or of the one file that `path` is.

    Links to files count as files; links to directories, to nothing and to what may not be read are left out,
    and so are special files and directories that may not be read.

    Raises:
        OSError: the path is missing, or a file may not be read.
        TransferError: the path is neither a directory nor a regular file.
    """
    status = os.stat(path)
    if stat.S_ISREG(status.st_mode):
        directory, name = os.path.split(path)
        return ZipStream(directory, [_entry(name, path, status)])
    if not stat.S_ISDIR(status.st_mode):
        raise TransferError(f"{path} is neither a directory nor a regular file")
    return ZipStream(path, _collect(path))


def _collect(path: str) -> list[ZipEntry]:
    entries: list[ZipEntry] = []
    prefix = len(os.path.join(path, ""))
    directories = [path]
    while directories:
        found = _list(directories.pop())
        for item in found:
            if item.is_dir(follow_symlinks=False):
                continue
            try:
                status = item.stat()
            except OSError:  # vanished, dangling, or a link that leads round in a circle
                continue
            if stat.S_ISREG(status.st_mode) and not (item.is_symlink() and not _readable(item.path)):
                entries.append(_entry(item.path[prefix:], item.path, status))
        directories += [item.path for item in reversed(found) if item.is_dir(follow_symlinks=False)]
    return entries


def _list(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as items:
            return sorted(items, key=lambda item: item.name)
    except OSError as error:
        log.warning("%s is left out of an archive: %s", directory, error)
        return []


def _entry(name: str, path: str, status: os.stat_result) -> ZipEntry:
    if not _readable(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return ZipEntry(os.fsencode(name), status.st_size, dos_time(status.st_mtime), status.st_mode)


def _readable(path: str) -> bool:
    return os.access(path, os.R_OK, effective_ids=_EFFECTIVE)


class ZipStream:
    """An archive to be read from beginning to end, once.

    It holds one open file at most. `read` blocks; `close` never does, whatever a reading thread is at.
    """

    def __init__(self, directory: str, entries: list[ZipEntry]) -> None:
        self.size = total_size(entries)
        self._pieces = _pieces(directory, entries)
        self._reading = threading.Lock()
        self._closed = False

    def read(self) -> bytes:
        """The next megabyte or so, empty at the end.

        Raises:
            TransferError: a file has become shorter or something else.
            OSError: a file cannot be read any more.
        """
        with self._reading:
            pieces: list[bytes] = []
            size = 0
            while not self._closed and size < _PIECE:
                piece = next(self._pieces, b"")
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
        if self._closed:
            self.close()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Let go of the open file, now or when the thread that reads it is done."""
        self._closed = True
        if self._reading.acquire(blocking=False):
            try:
                self._pieces.close()
            finally:
                self._reading.release()


def _pieces(directory: str, entries: list[ZipEntry]) -> Generator[bytes, None, None]:
    offset = 0
    index = bytearray()
    for entry in entries:
        header = local_header(entry)
        yield header
        checksum = 0
        for piece in _content(os.path.join(directory, os.fsdecode(entry.name)), entry.size):
            checksum = zlib.crc32(piece, checksum)
            yield piece
        trailer = descriptor(entry, checksum)
        yield trailer
        index += central_header(entry, checksum, offset)
        offset += len(header) + entry.size + len(trailer)
    index += end_records(len(entries), len(index), offset)
    yield bytes(index)


def _content(path: str, size: int) -> Iterator[bytes]:
    """As many bytes as the file had when it was found: one that grows meanwhile does no harm."""
    # Should a pipe have taken the file's place, opening it must not wait for a writer.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise TransferError(f"{path} is no regular file any more")
        left = size
        while left:
            piece = os.read(file, min(left, _PIECE))
            if not piece:
                raise TransferError(f"{path} became shorter while it was archived")
            left -= len(piece)
            yield piece
    finally:
        os.close(file)
