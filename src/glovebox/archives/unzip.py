"""Unpacks zip archives into a directory without trusting them. Blocks.

Entries with an absolute name or `..` in it are left out or refused, as are symbolic links and other special
files. Sizes are counted while inflating. Only stored and deflated entries are taken: the decoders of other
methods cannot be made to return a bounded piece. The executable bit is restored, other modes are not.
"""

from __future__ import annotations

import codecs
import logging
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from glovebox.archives.safe_directory import SafeDirectory
from glovebox.archives.zip_reader import BROKEN, checked_listing, headers, portions
from glovebox.archives.zip_records import CHECKSUM_FOLLOWS, UTF8_NAME, UnpackCounter, UnpackLimits
from glovebox.errors import BadArchive

log = logging.getLogger(__name__)

codecs.lookup("cp437")  # of names that are not UTF-8; the sandbox user need not be able to read that module

_PIECE = 1 << 20
_ENCRYPTED = 0x1
#: Of an entry in the list: flags, method, size, and how long its name is.
_HEADER = struct.Struct("<8x2H12xLH")
_NAME_AT = 46
_UNIX = 3


def is_archive(file: BinaryIO) -> bool:
    """Whether the file can be a zip archive."""
    try:
        return zipfile.is_zipfile(file)
    except BROKEN:
        return False


def unpack(
    file: BinaryIO,
    target: SafeDirectory,
    limits: UnpackLimits,
    *,
    strict: bool = False,
    on_file: Callable[[tuple[str, ...]], None] = lambda parts: None,
    left_out: Callable[[str], None] = lambda name: None,
    abandoned: Callable[[], bool] = lambda: False,
) -> int:
    """Unpack a zip archive and return how many files it had; entries that came before a failure stay.

    With `strict`, entries that must not be unpacked are an error, else they are left out, and `left_out` is
    called with their names. `on_file` is called for each file with the components of its name, and
    `abandoned` now and then to ask whether to give up.

    Raises:
        BadArchive: it is damaged, encrypted, or becomes too large.
        TransferError: an entry's place is outside, by a link that was there before.
        OSError: a file could not be written.
    """
    unpacking = _Unpacking(target, limits, file.seek(0, 2), strict, on_file, left_out, abandoned)
    try:
        listing = checked_listing(file, limits.max_entries, limits.max_listed)
        _check(headers(file, listing), limits)
        for archive in portions(file, listing):
            with archive:
                unpacking.take_all(file, archive)
    except BROKEN as error:
        raise BadArchive(f"The archive is damaged: {error}") from error
    if unpacking.skipped:
        log.warning("%d entries of an archive were left out (outside, or links)", unpacking.skipped)
    return unpacking.files


def _parts(entry: zipfile.ZipInfo, mode: int) -> tuple[str, ...] | None:
    """The components of an entry's name, or None if it must not be unpacked."""
    parts = entry.filename.split("/")
    if entry.filename.startswith("/") or ".." in parts:
        return None
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
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
        self,
        target: SafeDirectory,
        limits: UnpackLimits,
        size: int,
        strict: bool,
        on_file: Callable[[tuple[str, ...]], None],
        left_out: Callable[[str], None],
        abandoned: Callable[[], bool],
    ) -> None:
        self._target = target
        self._counter = UnpackCounter(limits, size, abandoned)
        self._strict = strict
        self._on_file = on_file
        self._left_out = left_out
        self.files = 0
        self.skipped = 0

    def take_all(self, file: BinaryIO, archive: zipfile.ZipFile) -> None:
        """Unpack all entries of an archive, or of a portion of it."""
        entries = archive.infolist()
        self._archive = archive
        self._small = _SmallEntries(file, entries, archive.start_dir)
        for entry in entries:
            self._take(entry)

    def _take(self, entry: zipfile.ZipInfo) -> None:
        self._counter.add(0)
        mode = entry.external_attr >> 16 if entry.create_system == _UNIX else 0
        parts = _parts(entry, mode)
        if parts is None:
            if self._strict:
                raise BadArchive(f"{entry.filename!r} in the archive must not be unpacked")
            self.skipped += 1
            self._left_out(entry.filename)
        elif entry.is_dir():
            self._target.directory(parts)
        else:
            self._put(entry, parts, executable=bool(mode & stat.S_IXUSR))
            self.files += 1
            self._on_file(parts)

    def _put(self, entry: zipfile.ZipInfo, parts: tuple[str, ...], *, executable: bool) -> None:
        content = self._small.content(entry)
        if content is None:
            self._inflate(entry, parts, executable=executable)
        else:
            self._counter.add(len(content))
            self._target.put(parts, content, executable=executable)

    def _inflate(self, entry: zipfile.ZipInfo, parts: tuple[str, ...], *, executable: bool) -> None:
        with self._archive.open(entry) as source:
            draft = self._target.file(parts, executable=executable, make_directories=True)
            try:
                while piece := source.read(_PIECE):
                    self._counter.add(len(piece))
                    draft.file.write(piece)
                draft.commit()
            finally:
                draft.discard()


#: Entries up to this size, packed and unpacked, are read many at a time.
SMALL = 256 << 10

_WINDOW = 1 << 20
_LOCAL = struct.Struct("<4s2xH18x2H")
#: How hard it was compressed, that sizes follow the data, that the name is UTF-8: they change nothing here.
_USUAL_FLAGS = 0x0006 | CHECKSUM_FOLLOWS | UTF8_NAME


class _SmallEntries:
    """Reads forward through an archive, in steps that hold many entries."""

    def __init__(self, file: BinaryIO, entries: Iterable[zipfile.ZipInfo], end: int) -> None:
        """`end`: where the entries end, and the list of them begins."""
        self._file = file
        self._window = b""
        self._start = 0
        #: Where each entry that begins at an offset has to end: `ZipFile` refuses those that overlap.
        self._ends: dict[int, int] = {}
        for offset in sorted((entry.header_offset for entry in entries), reverse=True):
            self._ends[offset] = end
            end = offset

    def content(self, entry: zipfile.ZipInfo) -> bytes | None:
        """The content of an entry, checked; None if `ZipFile` has to read it, or to say what is wrong."""
        offset, length, size = entry.header_offset, entry.compress_size, entry.file_size
        if length > SMALL or size > SMALL or entry.flag_bits & ~_USUAL_FLAGS:
            return None
        head = self._read(offset, _LOCAL.size)
        if len(head) < _LOCAL.size:
            return None
        magic, flags, name_length, extra_length = _LOCAL.unpack(head)
        name = self._read(offset + _LOCAL.size, name_length)
        if magic != b"PK\3\4" or name != _small_name(entry, flags):
            return None
        start = offset + _LOCAL.size + name_length + extra_length
        if start + length > self._ends[offset]:
            return None
        content = _opened(entry, self._read(start, length))
        if content is None or len(content) != size or zlib.crc32(content) != entry.CRC:
            return None
        return content

    def _read(self, offset: int, size: int) -> bytes:
        """Bytes of the archive, fewer only at its end."""
        place = offset - self._start
        if place < 0 or place + size > len(self._window):
            self._file.seek(offset)
            self._window = self._file.read(_WINDOW)
            self._start, place = offset, 0
        return self._window[place : place + size]


def _small_name(entry: zipfile.ZipInfo, flags: int) -> bytes | None:
    """The name that an entry with these flags has in the header before its data."""
    try:
        return entry.orig_filename.encode("utf-8" if flags & UTF8_NAME else "cp437")
    except UnicodeEncodeError:
        return None


def _opened(entry: zipfile.ZipInfo, data: bytes) -> bytes | None:
    if entry.compress_type == zipfile.ZIP_STORED:
        return data
    if entry.compress_type != zipfile.ZIP_DEFLATED:
        return None
    try:
        # One byte more shows that there is too much; no limit would be no limit at all.
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, entry.file_size + 1)
    except zlib.error:
        return None
