"""A directory of the host as a zip archive that is made while it is sent. Everything here blocks.

Entries are stored: the box takes them as fast as they are read, and nothing is held in memory.
"""

from __future__ import annotations

import io
import logging
import os
import stat
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from glovebox.errors import TransferError

log = logging.getLogger(__name__)

_PIECE = 1 << 20
#: The dates that an archive can tell.
_FIRST_YEAR, _LAST_YEAR = 1980, 2107


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
        """Bytes of its content."""
        return 0 if self.is_directory else self.status.st_size

    @property
    def identity(self) -> tuple[int, int]:
        """What only it has."""
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
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for item in items:
            entry = _entry(item)
            if item.is_directory:
                archive.writestr(entry, b"")
                continue
            with archive.open(entry, "w") as into:
                for piece, size in pieces(item):
                    into.write(piece)
                    yield sink.taken(), size
    yield sink.taken(), 0


def pieces(item: Item) -> Iterator[tuple[bytes, int]]:
    """The content of a file, as much as it had when it was found: one that grows meanwhile does no harm.

    Raises:
        TransferError: it cannot be read.
    """
    try:
        with open(item.path, "rb", buffering=0, opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TransferError(f"{item.path} is no regular file.")
            left = item.size
            while left and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield piece, len(piece)
    except OSError as error:
        raise TransferError(f"{item.path} cannot be read: {error.strerror or error}") from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; should a pipe have taken its place, not wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _entry(item: Item) -> zipfile.ZipInfo:
    moment = time.localtime(item.status.st_mtime)[:6]
    if not _FIRST_YEAR <= moment[0] <= _LAST_YEAR:
        moment = (_FIRST_YEAR, 1, 1, 0, 0, 0)
    name = item.name + "/" if item.is_directory else item.name
    try:
        name.encode()
    except UnicodeEncodeError:
        raise TransferError(f"{item.path!r} has a name that is not UTF-8 and cannot be sent") from None
    entry = zipfile.ZipInfo(name, moment)
    entry.external_attr = (item.status.st_mode & 0xFFFF) << 16
    entry.file_size = item.size  # tells whether it needs the form for large files
    return entry


class _Sink(io.RawIOBase):
    """Holds what an archive has written until it is taken. It cannot be gone back in."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self._pieces.append(bytes(data))
        self.size += len(data)
        return len(data)

    def taken(self) -> bytes:
        """Everything written since it was last taken."""
        pieces, self._pieces, self.size = self._pieces, [], 0
        return b"".join(pieces)
