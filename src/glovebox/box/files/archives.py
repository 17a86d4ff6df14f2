"""Unpacking a zip archive into a directory without believing what it says.

Entries with an absolute name or `..` in it are left out, as are symbolic links and other special files.
Sizes are counted while inflating. Only stored and deflated entries are taken: the decoders of other
methods cannot be asked for a bounded piece. The executable bit is restored, other modes are not.
"""

from __future__ import annotations

import codecs
import logging
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from glovebox.box.files.landing import Landing, UnpackLimits
from glovebox.box.files.small_entries import SmallEntries
from glovebox.errors import BadArchive
from glovebox.protocol.zip_reading import checked_listing, headers, portions
from glovebox.protocol.zip_records import UTF8_NAME

log = logging.getLogger(__name__)

codecs.lookup("cp437")  # of names that are not UTF-8; the sandbox user need not be able to read that module

_PIECE = 1 << 20
_ENCRYPTED = 0x1
#: Of an entry in the list: flags, method, size, and how long its name is.
_HEADER = struct.Struct("<8x2H12xLH")
_NAME_AT = 46
_UNIX = 3
#: What the standard library raises on archives that are damaged or made to harm.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError)


def is_archive(file: BinaryIO) -> bool:
    """Whether the file can be a zip archive."""
    try:
        return zipfile.is_zipfile(file)
    except _BROKEN:
        return False


def unpack(
    file: BinaryIO, landing: Landing, limits: UnpackLimits, *, abandoned: Callable[[], bool] = lambda: False
) -> int:
    """Unpack a zip archive and return how many files it had; entries that came before a failure stay.

    `abandoned` is asked every now and then whether anybody still wants it.

    Raises:
        BadArchive: it is damaged, encrypted, or becomes too large.
        TransferError: an entry's place is outside, by a link that was there before.
        OSError: a file could not be written.
    """
    unpacking = _Unpacking(landing, limits, file.seek(0, 2), abandoned)
    try:
        listing = checked_listing(file, limits.max_entries, limits.max_listed)
        _check(headers(file, listing), limits)
        for archive in portions(file, listing):
            with archive:
                unpacking.take_all(file, archive)
    except _BROKEN as error:
        raise BadArchive(f"The archive is damaged: {error}") from error
    if unpacking.skipped:
        log.warning("%d entries of an archive were left out (outside, or links)", unpacking.skipped)
    return unpacking.files


def entry_parts(name: str) -> tuple[str, ...] | None:
    """The components of an entry's name, or None if it must not be unpacked."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        return None
    return tuple(part for part in parts if part not in ("", ".")) or None


def _check(headers: Iterator[bytes], limits: UnpackLimits) -> None:
    """Refuse before anything is written what the archive itself admits."""
    total = 0
    for header in headers:
        flags, method, size, length = _HEADER.unpack_from(header)
        total += size
        if total > limits.max_bytes:
            raise BadArchive(f"The archive unpacks to more than {limits.max_bytes} bytes")
        if flags & _ENCRYPTED:
            raise BadArchive(f"{_name(header, flags, length)} in the archive is encrypted")
        if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadArchive(
                f"{_name(header, flags, length)} in the archive is compressed with method {method}; "
                "only stored and deflated entries are supported"
            )


def _name(header: bytes, flags: int, length: int) -> str:
    return header[_NAME_AT : _NAME_AT + length].decode("utf-8" if flags & UTF8_NAME else "cp437", "replace")


class _Unpacking:
    """One archive on its way to the disk."""

    def __init__(
        self, landing: Landing, limits: UnpackLimits, size: int, abandoned: Callable[[], bool]
    ) -> None:
        self._abandoned = abandoned
        self._landing = landing
        self._limits = limits
        self._suspicious = max(limits.unsuspicious_bytes, size * limits.max_ratio)
        self._bytes = 0
        self.files = 0
        self.skipped = 0

    def take_all(self, file: BinaryIO, archive: zipfile.ZipFile) -> None:
        """Unpack all entries of an archive, or of a portion of it."""
        entries = archive.infolist()
        self._archive = archive
        self._small = SmallEntries(file, entries, archive.start_dir)
        for entry in entries:
            self._take(entry)

    def _take(self, entry: zipfile.ZipInfo) -> None:
        self._count(0)
        parts = entry_parts(entry.filename)
        mode = entry.external_attr >> 16 if entry.create_system == _UNIX else 0
        if parts is None or stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            self.skipped += 1
        elif entry.is_dir():
            self._landing.directory(parts)
        else:
            self._put(entry, parts, executable=bool(mode & stat.S_IXUSR))
            self.files += 1

    def _put(self, entry: zipfile.ZipInfo, parts: tuple[str, ...], *, executable: bool) -> None:
        content = self._small.content(entry)
        if content is None:
            self._inflate(entry, parts, executable=executable)
        else:
            self._count(len(content))
            self._landing.put(parts, content, executable=executable)

    def _inflate(self, entry: zipfile.ZipInfo, parts: tuple[str, ...], *, executable: bool) -> None:
        with self._archive.open(entry) as source:
            draft = self._landing.file(parts, executable=executable, make_directories=True)
            try:
                while piece := source.read(_PIECE):
                    self._count(len(piece))
                    draft.file.write(piece)
                draft.commit()
            finally:
                draft.discard()

    def _count(self, size: int) -> None:
        if self._abandoned():
            raise BadArchive("Unpacking was broken off")
        self._bytes += size
        if self._bytes > self._limits.max_bytes:
            raise BadArchive(f"The archive unpacks to more than {self._limits.max_bytes} bytes")
        if self._bytes > self._suspicious:
            raise BadArchive(f"The archive unpacks to more than {self._limits.max_ratio} times its size")
