"""Archives of a box, unpacked on the host without believing what they say. Everything here blocks."""

from __future__ import annotations

import contextlib
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from glovebox.archives.zip_reader import checked_listing, portions
from glovebox.errors import BadArchive, TransferError

_PIECE = 1 << 20
_UNIX = 3
#: An archive may become this large, or so many times its own size if that is more: boxes store, they do not
#: compress.
_UNSUSPICIOUS = 1 << 30
_RATIO = 100
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: What the standard library raises on archives that are damaged or made to harm.
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError)


def unpack(archive: Path, destination: Path) -> list[Path]:
    """Put the files of an archive below a directory, over those that are there; their paths.

    No name and no link, in the archive or in the directory, leads outside.

    Raises:
        BadArchive: it is damaged, or made to do harm.
        TransferError: a file cannot be put in its place.
    """
    destination.mkdir(parents=True, exist_ok=True)
    left = max(_UNSUSPICIOUS, archive.stat().st_size * _RATIO)
    written = []
    try:
        with open(archive, "rb") as file:
            for entries in portions(file, checked_listing(file)):
                for entry in entries.infolist():
                    parts = _parts(entry)
                    left = _put(entries, entry, destination, parts, left)
                    if not entry.is_dir():
                        written.append(destination.joinpath(*parts))
    except BROKEN as error:
        raise BadArchive(f"The archive of the box is damaged: {error}") from error
    return written


def _parts(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    parts = entry.filename.removesuffix("/").split("/")
    kind = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == _UNIX else 0
    if any(part in ("", ".", "..") for part in parts) or kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BadArchive(f"{entry.filename!r} in the archive of the box must not be unpacked")
    return tuple(parts)


def _put(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, root: Path, parts: tuple[str, ...], left: int
) -> int:
    """Write one entry; how many bytes may still come."""
    above = parts if entry.is_dir() else parts[:-1]
    try:
        with _directory(root, above) as directory:
            if entry.is_dir():
                return left
            with contextlib.suppress(FileNotFoundError):
                os.unlink(parts[-1], dir_fd=directory)  # a link is replaced, not followed
            # The umask has its say, as for any file that is simply created.
            mode = 0o777 if entry.external_attr >> 16 & stat.S_IXUSR else 0o666
            file = os.fdopen(os.open(parts[-1], _NEW_FILE, mode, dir_fd=directory), "wb")
            with file, archive.open(entry) as source:
                return _copied(source, file, left)
    except OSError as error:
        place = root.joinpath(*parts)
        raise TransferError(f"{place} cannot be written: {error.strerror or error}") from error


def _copied(source: IO[bytes], file: IO[bytes], left: int) -> int:
    while piece := source.read(_PIECE):
        left -= len(piece)
        if left < 0:
            raise BadArchive("The archive of the box becomes too large")
        file.write(piece)
    return left


@contextlib.contextmanager
def _directory(root: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """A directory below the root, made where missing, reached over no link."""
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=current)
            below = os.open(part, _DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)
