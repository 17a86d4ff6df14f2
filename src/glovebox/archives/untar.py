"""Unpacks tar archives, plain or gzipped, into a directory without trusting them. Blocks.

What must not be unpacked is left out: entries with an absolute name or `..` in it, links that lead outside,
pipes and devices. Sizes are counted while reading. The executable bit is restored, other modes and owners
are not. Other compressions are not read: their decoders cannot be held to little memory.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zlib
from collections.abc import Callable
from typing import IO, Any, BinaryIO, cast

from glovebox.archives.safe_directory import SafeDirectory
from glovebox.archives.zip_records import UnpackCounter, UnpackLimits
from glovebox.errors import BadArchive

_PIECE = 1 << 20
#: The standard library reads the extended header of an entry as a whole.
_LONGEST_HEADER = 1 << 20
_MOST_GLOBAL_HEADERS = 1_000
_GZIP = b"\x1f\x8b"
#: What the standard library raises on archives that are damaged or made to harm.
_BROKEN = (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, RecursionError)


def unpack_tar(
    file: BinaryIO,
    target: SafeDirectory,
    limits: UnpackLimits,
    *,
    left_out: Callable[[str], None] = lambda name: None,
    abandoned: Callable[[], bool] = lambda: False,
) -> int:
    """Unpack an archive and return how many files and links it had; entries that came before a failure stay.

    `left_out` is called with the name of an entry that is not unpacked, and `abandoned` now and then to ask
    whether to give up.

    Raises:
        BadArchive: it is damaged, or becomes too large.
        TransferError: an entry's place is outside, by a link that was there before.
        OSError: a file could not be written.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    is_gzip = file.read(2) == _GZIP
    file.seek(0)
    source = _Bounded(cast("IO[bytes]", gzip.GzipFile(fileobj=file) if is_gzip else file))
    unpacking = _Unpacking(target, limits, size, left_out, abandoned)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r:", errors="surrogateescape") as archive:
            while (entry := archive.next()) is not None:
                cast("Any", archive).members.clear()  # it would remember all of them
                if len(archive.pax_headers) > _MOST_GLOBAL_HEADERS:
                    raise BadArchive(f"The archive has more than {_MOST_GLOBAL_HEADERS} global headers")
                unpacking.take(archive, entry)
    except _BROKEN as error:
        raise BadArchive(f"The archive is damaged, or not a tar archive: {error}") from error
    return unpacking.files


class _Bounded:
    """An archive of which nothing large is read at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise BadArchive(f"The archive has a header of more than {_LONGEST_HEADER} bytes")
        return self._file.read(size)

    def close(self) -> None:
        pass


class _Unpacking:
    """One archive on its way to the disk."""

    def __init__(
        self,
        target: SafeDirectory,
        limits: UnpackLimits,
        size: int,
        left_out: Callable[[str], None],
        abandoned: Callable[[], bool],
    ) -> None:
        self._target = target
        self._limits = limits
        self._counter = UnpackCounter(limits, size, abandoned)
        self._left_out = left_out
        self._entries = 0
        self.files = 0

    def take(self, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        self._entries += 1
        if self._entries > self._limits.max_entries:
            raise BadArchive(f"The archive has more than {self._limits.max_entries} entries")
        self._counter.add(0)
        parts = _parts(entry.name)
        if parts == () and entry.isdir():
            return  # the directory itself, as `tar c .` has it
        if not parts or not self._place(archive, entry, parts):
            self._left_out(entry.name)
        elif not entry.isdir():
            self.files += 1

    def _place(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, parts: tuple[str, ...]) -> bool:
        if entry.isdir():
            self._target.directory(parts)
        elif entry.issym():
            return self._target.link(parts, entry.linkname)
        elif entry.islnk():
            source = _parts(entry.linkname)
            return bool(source) and self._target.hard_link(parts, cast("tuple[str, ...]", source))
        elif entry.isreg():
            self._write(archive, entry, parts)
        else:
            return False
        return True

    def _write(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        if self._counter.total + entry.size > self._limits.max_bytes:
            self._counter.add(entry.size)
        executable = bool(entry.mode & stat.S_IXUSR)
        source = archive.extractfile(entry)
        assert source is not None
        if entry.size <= _PIECE:
            self._counter.add(entry.size)
            self._target.put(parts, source.read(), executable=executable)
            return
        draft = self._target.file(parts, executable=executable, make_directories=True)
        try:
            while piece := source.read(_PIECE):
                self._counter.add(len(piece))
                draft.file.write(piece)
            draft.commit()
        finally:
            draft.discard()


def _parts(name: str) -> tuple[str, ...] | None:
    """The components of an entry's name, or None if it must not be unpacked."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\0" in name:
        return None
    return tuple(part for part in parts if part not in ("", "."))
