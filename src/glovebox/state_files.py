"""Files that outlive a process: lines with checksums, and a place for damaged files. Everything blocks.

A line is `CRC32 NUMBER JSON`. The checksum, eight hexadecimal digits, covers number and JSON. Lines are
numbered from 1, so one that is missing, repeated or out of place is noticed too. Lines of former versions,
which are JSON only, are still read.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

T = TypeVar("T")

log = logging.getLogger(__name__)

#: The directory for damaged files, in the state directory.
DAMAGED = "damaged"
#: How many damaged files are kept, and how many bytes; the oldest are removed.
MOST_DAMAGED = 100
MOST_DAMAGED_BYTES = 256 << 20
#: No file that is read is larger.
LARGEST = 256 << 20
#: Non-blocking means nothing for a file: writing in the event loop is meant, and no pipe is waited for.
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def encode_line(number: int, body: bytes) -> bytes:
    """A line of a file. `body` is JSON, so there is no line end in it."""
    numbered = b"%d %b" % (number, body)
    return b"%08x %b\n" % (zlib.crc32(numbered), numbered)


class LineFile:
    """A file that is written line by line, after what an earlier process left in it or in place of that."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self._number = 0
        self._descriptor = -1
        #: The last line is not whole: the disk was full, say.
        self._torn = False

    def append(self, body: bytes) -> None:
        """Add a line, which survives the end of this process. Takes microseconds: the disk is not waited for.

        Raises:
            OSError: it could not be written.
        """
        if self._descriptor < 0:
            self._open()
        line = encode_line(self._number + 1, body)
        if self._torn:
            line = b"\n" + line
        written = os.write(self._descriptor, line)
        self.size += written
        self._torn = written < len(line)
        if not self._torn:
            self._number += 1

    def replace(self, bodies: Iterable[bytes]) -> None:
        """Have these lines and no others; a reader sees the new file or the old one.

        Raises:
            OSError: they could not be written; what was there stays.
        """
        self.become(self.prepare(bodies))

    def prepare(self, bodies: Iterable[bytes]) -> LineFile:
        """A new file with these lines, beside this one.

        Raises:
            OSError: they could not be written.
        """
        fresh = LineFile(f"{self.path}.new")
        lines = [encode_line(number, body) for number, body in enumerate(bodies, 1)]
        fresh._number, fresh.size = len(lines), sum(map(len, lines))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | _OPEN
        fresh._descriptor = os.open(fresh.path, flags, 0o600)
        with fresh._closed_on_error(), open(fresh._descriptor, "wb", closefd=False) as file:
            file.writelines(lines)
        return fresh

    def become(self, fresh: LineFile, late: Iterable[bytes] = ()) -> None:
        """Put a prepared file in this one's place, with some more lines, and go on with it.

        Raises:
            OSError: that is not possible; this one stays.
        """
        with fresh._closed_on_error():
            for body in late:
                fresh.append(body)
            os.replace(fresh.path, self.path)
        self.close()
        self._descriptor, self._number, self._torn = fresh._descriptor, fresh._number, fresh._torn
        self.size = fresh.size

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _OPEN, 0o600)
        self.size = os.fstat(self._descriptor).st_size
        if self.size:  # rare: most files are new, or were replaced
            with self._closed_on_error():
                data = read_file(self.path)
            self._number = max(_find(data, bytes)[0], default=0)
            self._torn = not data.endswith(b"\n")

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.close()
            raise


def write_document(path: str, body: bytes) -> None:
    """Have a file hold one JSON value, all of it or what was there before.

    Raises:
        OSError: it could not be written.
    """
    file = LineFile(path)
    file.replace([body])
    file.close()


def decode_lines(data: bytes, decode: Callable[[bytes], T]) -> tuple[list[T], str]:
    """The lines that are intact, in order, and what is wrong with the others; nothing if all is well.

    `decode` raises msgspec.DecodeError or ValueError. A last line without an end is ignored unless it is
    intact: that is what a crash leaves.
    """
    found, damaged = _find(data, decode)
    missing = max(found, default=0) - len(found)
    wrong = [f"{damaged} damaged" if damaged else "", f"{missing} missing" if missing else ""]
    return [found[number] for number in sorted(found)], " and ".join(filter(None, wrong))


def _find(data: bytes, decode: Callable[[bytes], T]) -> tuple[dict[int, T], int]:
    """The intact lines by number, and how many are damaged."""
    *lines, last = data.split(b"\n")
    found: dict[int, T] = {}
    damaged = 0
    for line in lines:
        damaged += bool(line) and not _take(line, decode, found)
    _take(last, decode, found)
    return found, damaged


def _take(line: bytes, decode: Callable[[bytes], T], found: dict[int, T]) -> bool:
    """Add a line to those that were found; whether it is intact."""
    try:
        if line.startswith((b"{", b"[")):  # of a former version
            number, body = next(reversed(found), 0) + 1, line
        else:
            checksum, _, numbered = line.partition(b" ")
            if checksum != b"%08x" % zlib.crc32(numbered):
                return False
            text, _, body = numbered.partition(b" ")
            number = int(text)
        if number in found:
            return False
        found[number] = decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def read_file(path: str) -> bytes:
    """The bytes of a regular file, never through a link.

    Raises:
        OSError: it is missing, cannot be read, is too large, or is no regular file.
    """
    with open(os.open(path, os.O_RDONLY | _OPEN), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"it is {_kind(status)}")
        if status.st_size > LARGEST:
            raise OSError(f"it has {status.st_size:,} bytes")
        return file.read(LARGEST)


def read_lines(path: str, root: str, decode: Callable[[bytes], T]) -> list[T]:
    """The intact lines of a file; none if there is no such file.

    A file with damage is moved to the damaged files of the state directory `root`.
    """
    found: list[T] = []
    try:
        data = read_file(path)
        found, wrong = decode_lines(data, decode)
        wrong = f"lines: {wrong}" if wrong else ""
        if data and not found:
            wrong = "nothing in it is intact"
    except FileNotFoundError:
        return []
    except OSError as error:
        wrong = error.strerror or str(error)
    if wrong:
        set_aside(path, root, wrong)
    return found


def read_document(path: str, root: str, decode: Callable[[bytes], T]) -> T | None:
    """What `write_document` wrote, or None. A damaged file is moved to the damaged files of `root`."""
    found = read_lines(path, root, decode)
    return found[0] if found else None


def set_aside(path: str, root: str, why: str) -> None:
    """Move a file or directory to the damaged files of the state directory `root`, and say so."""
    directory = os.path.join(root, DAMAGED)
    name = _NOT_IN_NAMES.sub("_", os.path.relpath(path, root))[-150:]
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{rest:09d}"
    target = os.path.join(directory, f"{stamp}-{name}")
    try:
        if path == directory or not os.path.isdir(directory) or os.path.islink(directory):
            _make_damaged(directory, stamp)
        if path != directory:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                os.chmod(path, 0o700)  # else only root could move it
            os.rename(path, target)
        _prune(directory)
    except OSError as error:
        log.error("%s is damaged (%s), and cannot be moved: %s", path, why, error)
        return
    log.warning("%s is damaged (%s). It is in %s now; what is intact is used.", path, why, target)


def _make_damaged(directory: str, stamp: str) -> None:
    """Have a directory for damaged files, whatever has its name now."""
    there = os.path.lexists(directory)
    if there:
        os.rename(directory, f"{directory}-{stamp}")
    os.mkdir(directory, 0o700)
    if there:
        os.rename(f"{directory}-{stamp}", os.path.join(directory, f"{stamp}-{DAMAGED}"))


def damaged_files(root: str) -> list[str]:
    """The names of the damaged files of a state directory, the oldest first."""
    try:
        return sorted(os.listdir(os.path.join(root, DAMAGED)))
    except OSError:
        return []


def lock_directory(root: str) -> int:
    """Take a state directory for this process; closing the descriptor gives it up.

    Raises:
        BlockingIOError: another process has it.
        OSError: it cannot be taken.
    """
    inspect_directory(root, root, {"lock": stat.S_IFREG})
    descriptor = os.open(os.path.join(root, "lock"), os.O_RDWR | os.O_CREAT | _OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def inspect_directory(path: str, root: str, kinds: Mapping[str, int]) -> None:
    """Move what cannot be what its name says to the damaged files of `root`.

    `kinds` are the names to look at, with S_IFREG and the like. Everything else is left alone.
    """
    for entry in [one for one in os.scandir(path) if one.name in kinds]:
        status = entry.stat(follow_symlinks=False)
        private = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        if wrong := problem_of(status, kind=kinds[entry.name]):
            set_aside(entry.path, root, wrong)
        elif status.st_mode & private != private:
            os.chmod(entry.path, private)


def problem_of(status: os.stat_result, *, kind: int) -> str:
    """Why a file cannot be what it should be, of a kind such as S_IFREG and ours; empty if it can."""
    if stat.S_IFMT(status.st_mode) != kind:
        return f"it is {_kind(status)}"
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}"
    return ""


def _kind(status: os.stat_result) -> str:
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(status.st_mode), "a device")


def _prune(directory: str) -> None:
    """Remove the oldest of the damaged files beyond the limits."""
    names = sorted(os.listdir(directory), reverse=True)
    total = 0
    for kept, name in enumerate(names, 1):
        path = os.path.join(directory, name)
        total += _size(path)
        if kept > MOST_DAMAGED or total > MOST_DAMAGED_BYTES:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)


def _size(path: str) -> int:
    """The bytes on disk of a file, or of everything below a directory."""
    tree = () if os.path.islink(path) else os.walk(path)
    paths = [path, *(os.path.join(parent, name) for parent, _, names in tree for name in names)]
    total = 0
    for one in paths:
        with contextlib.suppress(OSError):
            total += os.lstat(one).st_blocks * 512
    return total
