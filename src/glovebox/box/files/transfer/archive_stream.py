"""A directory or file of the box as an archive that is read by threads, one piece at a time."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from typing import Any

from glovebox.archives.tree import TreeItem, walk_tree
from glovebox.archives.zip_writer import PIECE, archive_size, pack
from glovebox.box.credentials import own_rights
from glovebox.box.threads import Releasable, Threads
from glovebox.errors import TransferError

log = logging.getLogger(__name__)

_EFFECTIVE = os.access in os.supports_effective_ids


def open_zip(path: str, *, directories: bool = False) -> ArchiveStream:
    """A zip archive of the regular files below a directory, or of the one file that `path` is.

    Links to files count as files; links to directories, to nothing and to what may not be read are left out,
    and so are special files and directories that may not be read; with `directories`, others are entries.

    Raises:
        OSError: the path is missing, or a file may not be read.
        TransferError: the path is neither a directory nor a regular file.
    """
    walk = _walk(path, refuse_link=_refuse_link)
    items = [item for item in walk if directories or not item.is_directory]
    _check_readable(items)
    size = archive_size((os.fsencode(item.name), item.size) for item in items)
    return ArchiveStream(pack(items, exact=True), size)


def open_tar(path: str) -> ArchiveStream:
    """The same as a tar archive, with directories, and links as links. Its size is not known.

    Raises:
        OSError: the path is missing, or a file may not be read.
        TransferError: the path is neither a directory nor a regular file.
    """
    with own_rights():  # only loaded when it is needed
        from glovebox.archives.tar_writer import pack_tar

    _check_readable(_walk(path, keep_links=True))
    return ArchiveStream(pack_tar(_walk(path, keep_links=True)), None)


def _walk(path: str, **options: Any) -> Iterator[TreeItem]:
    status = os.stat(path)
    if stat.S_ISREG(status.st_mode):
        return iter([TreeItem(path, os.path.basename(path), status)])
    if not stat.S_ISDIR(status.st_mode):
        raise TransferError(f"{path} is neither a directory nor a regular file")
    return walk_tree(path, unreadable=_leave_out, **options)


def _check_readable(items: Iterable[TreeItem]) -> None:
    for item in items:
        if not item.is_link and not _readable(item.path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), item.path)


def _refuse_link(entry: os.DirEntry[str], status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "a link to a directory"
    return "" if _readable(entry.path) else os.strerror(errno.EACCES)


def _leave_out(directory: str, error: OSError) -> None:
    log.warning("%s is left out of an archive: %s", directory, error)


def _readable(path: str) -> bool:
    return os.access(path, os.R_OK, effective_ids=_EFFECTIVE)


class ArchiveStream(Releasable):
    """An archive to be read from beginning to end, once; `size` is None if that is not known.

    It holds one open file at most.
    """

    def __init__(self, pieces: Generator[tuple[bytes, int], None, None], size: int | None) -> None:
        super().__init__()
        self.size = size
        self._pieces = pieces

    def read(self) -> bytes:
        """The next megabyte or so, empty at the end. Blocks.

        Raises:
            TransferError: a file has become shorter or something else, or cannot be read any more.
        """
        pieces: list[bytes] = []
        size = 0
        with self.in_use():
            while not self.is_closed and size < PIECE:
                piece, _ = next(self._pieces, (b"", 0))
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)

    def _release(self) -> None:
        self._pieces.close()


async def archive_pieces(archive: ArchiveStream, threads: Threads) -> AsyncGenerator[bytes, None]:
    """The pieces of an archive; between two of them no thread is held."""
    try:
        while piece := await threads.run(archive.read):
            yield piece
    finally:
        archive.close()
