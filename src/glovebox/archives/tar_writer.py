"""Tar archives that are made while they are sent, in the format of POSIX (pax)."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Generator, Iterable, Iterator

from glovebox.archives.tree import TreeItem
from glovebox.archives.zip_writer import batched, read_file
from glovebox.errors import TransferError

_END = bytes(2 * tarfile.BLOCKSIZE)


def pack_tar(items: Iterable[TreeItem]) -> Generator[tuple[bytes, int], None, None]:
    """The archive piece by piece, each with how many bytes of files are in it. Blocks.

    Raises:
        TransferError: a file cannot be read, or has become shorter than it was.
    """
    return batched(_records(items))


def _records(items: Iterable[TreeItem]) -> Iterator[tuple[bytes, int]]:
    for item in items:
        yield _header(item), 0
        size = 0
        for piece in read_file(item) if item.size else ():
            size += len(piece)
            yield piece, len(piece)
        if size < item.size:
            raise TransferError(f"{item.path} became shorter while it was archived")
        yield bytes(-size % tarfile.BLOCKSIZE), 0
    yield _END, 0


def _header(item: TreeItem) -> bytes:
    status = item.status
    entry = tarfile.TarInfo(item.name.rstrip("/"))
    entry.mode, entry.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    entry.uid, entry.gid = status.st_uid, status.st_gid
    if item.is_link:
        entry.type, entry.linkname = tarfile.SYMTYPE, _target(item)
    elif item.is_directory:
        entry.type = tarfile.DIRTYPE
    else:
        entry.size = item.size
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _target(item: TreeItem) -> str:
    try:
        return os.readlink(item.path)
    except OSError as error:
        raise TransferError(f"{item.path} cannot be read: {error.strerror or error}") from error
