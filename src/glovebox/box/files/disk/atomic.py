"""Writing files so that no reader ever sees half of a change.

A file is replaced by a finished temporary file of the same directory (`.glovebox-*.tmp`, removed when
anything goes wrong) that takes its place in one step. A reader, or a crash of this process, finds the old
content or the new. Nothing is flushed to the disk by force: what a power failure leaves of the last seconds
is up to the file system.

* **Mode, owner, group** and extended attributes (access lists among them) of the old file are kept.
* **Symbolic links** are followed: the file a link leads to is replaced, the link stays. Through a dangling
  link its target is created.
* **Where an exact replacement is impossible** the file is overwritten in place instead: its directory is
  not writable, it has an owner whose files we cannot make, it is a mount point, or it is a file of `/proc`
  or `/sys`. If that fails half-way, because the disk is full for instance, the old content is put back.
* **Hard links** stay linked, so a file with several names is overwritten in place too.
* **A file without write permission** is not replaced, even where the directory would allow it.
* **Pipes, sockets and devices** are not written: callers refuse what is not a regular file.

Errors name the path of the caller, never a temporary file.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from glovebox.box.credentials import own_rights

#: Temporary files begin with this, so that leftovers of a killed process can be recognised.
PREFIX = ".glovebox-"

#: Large files are read this much at a time. Other threads wait for as long as it takes to look at it.
CHUNK = 1 << 18

#: Flags of `renameat2`: fail when the target exists, or let the two paths change places.
NOREPLACE, EXCHANGE = 1, 2

_AT_FDCWD = -100
#: PATH_MAX of Linux; other systems have less.
_LONGEST_PATH = 4096
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW

#: Errors after which overwriting the file in place may still work.
NO_REPLACEMENT = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOENT,
        errno.EBUSY,
        errno.ENAMETOOLONG,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
    }
)
#: Errors of systems and file systems on which two paths cannot change places.
NO_EXCHANGE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOENT})
#: Errors of file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def replace(path: str, data: bytes, *, real: str, status: os.stat_result, previous: bytes) -> None:
    """Give the existing regular file `path` new content.

    `real` is its path without links; `status` and `previous` are what was found there.

    Raises:
        OSError: it could not be done, and the file is as it was.
    """
    if not _replaced(path, (data,), real, status):
        _overwrite(path, (data,), (previous,))


def rewrite(
    path: str,
    change: Callable[[int], Iterable[bytes]],
    *,
    real: str,
    status: os.stat_result,
    file: int,
    size: int,
) -> None:
    """The same for a file that need not fit into memory: it is open as `file` and has `size` bytes.

    `change` makes the new content, in pieces, from an open file that has the old one.

    Raises:
        OSError: it could not be done, and the file is as it was.
    """
    if _replaced(path, change(file), real, status):
        return
    with own_rights():  # a file without a name, which no other process sees
        kept = tempfile.TemporaryFile()  # noqa: SIM115  closed below
    with kept:
        for piece in pieces(file, 0, size):
            kept.write(piece)
        kept.flush()
        _overwrite(path, change(kept.fileno()), pieces(kept.fileno(), 0, size))


def _replaced(path: str, content: Iterable[bytes], real: str, status: os.stat_result) -> bool:
    """Let a finished file take the place of `path`; False if that has to be overwritten instead."""
    if status.st_nlink > 1 or not may_write(real):
        return False
    try:
        _swap(real, content, status)
    except OSError as error:
        if error.errno not in NO_REPLACEMENT:
            raise _named(error, path) from None
        return False
    return True


def create(
    path: str, data: bytes, *, real: str, mode: int | None, owner: int | None, exclusive: bool = False
) -> PermissionError | None:
    """Make the file `path`, whose path without links is `real`.

    `mode` is what the file gets, `None` leaves it to the process's umask. With an `owner`, user and group
    become that id; being refused this is not a failure, and the refusal is returned.

    Raises:
        FileExistsError: `exclusive`, and a file has appeared at the path.
        OSError: it could not be made.
    """
    refusal: PermissionError | None = None
    try:
        temporary, fd = _temporary(real, 0o666 if mode is None else 0o600)
        with _removed_on_failure(temporary):
            try:
                write_all(fd, data)
                if owner is not None:
                    try:
                        _give(fd, owner, owner)
                    except PermissionError as error:
                        refusal = PermissionError(error.errno, error.strerror, path)
                if mode is not None:
                    os.fchmod(fd, mode)
            finally:
                os.close(fd)
            if not (exclusive and _link(temporary, real)):
                os.rename(temporary, real)
    except OSError as error:
        raise _named(error, path) from None
    return refusal


def _swap(real: str, content: Iterable[bytes], status: os.stat_result) -> None:
    temporary, fd = _temporary(real, 0o600)
    with _removed_on_failure(temporary):
        try:
            for piece in content:
                write_all(fd, piece)
            take_after(fd, real, status)
        finally:
            os.close(fd)
        put_in_place(temporary, real)


def put_in_place(temporary: str, real: str, directory: int | None = None) -> None:
    """Let a finished file take the place of another, in one step; paths may start at an open directory.

    The two change places and the old one is removed: renaming over a file makes ext4 write the new one to
    the disk at once, which takes several times as long as all the rest.
    """
    exchange = renameat2()
    if exchange is not None:
        try:
            exchange(temporary, real, EXCHANGE, directory)
        except OSError as error:
            if error.errno not in NO_EXCHANGE:
                raise
        else:
            os.unlink(temporary, dir_fd=directory)
            return
    os.rename(temporary, real, src_dir_fd=directory, dst_dir_fd=directory)


def _overwrite(path: str, content: Iterable[bytes], previous: Iterable[bytes]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        try:
            _fill(fd, content)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.lseek(fd, 0, os.SEEK_SET)
                _fill(fd, previous)
            raise _named(error, path) from None
    finally:
        os.close(fd)


def _fill(fd: int, content: Iterable[bytes]) -> None:
    """Have an open file hold this and nothing else."""
    size = 0
    for piece in content:
        write_all(fd, piece)
        size += len(piece)
    if size < os.fstat(fd).st_size:
        os.ftruncate(fd, size)


def _temporary(real: str, mode: int) -> tuple[str, int]:
    """A new file beside `real`, open for writing."""
    while True:
        path = os.path.join(os.path.dirname(real), f"{PREFIX}{secrets.token_hex(8)}.tmp")
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, _NEW, mode)


@contextlib.contextmanager
def _removed_on_failure(temporary: str) -> Iterator[None]:
    succeeded = False
    try:
        yield
        succeeded = True
    finally:
        if not succeeded:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_all(fd: int, data: bytes) -> None:
    """Write until nothing is left: the system may take less than it is given."""
    written = os.write(fd, data)
    if written < len(data):
        rest = memoryview(data)
        while written < len(data):
            written += os.write(fd, rest[written:])


def take_after(fd: int, real: str, status: os.stat_result) -> None:
    """Give a temporary file what the file it replaces has beside its content."""
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        _give(fd, status.st_uid, status.st_gid)
    if stat.S_IMODE(made.st_mode) != stat.S_IMODE(status.st_mode):
        os.fchmod(fd, stat.S_IMODE(status.st_mode))
    if sys.platform == "linux":
        wanted, present = _attributes(real), _attributes(fd)
        # A directory's default access list gives its new files more than the old one may have had.
        for name in present - wanted:
            os.removexattr(fd, name)
        for name in wanted:
            os.setxattr(fd, name, os.getxattr(real, name))


def _give(fd: int, user: int, group: int) -> None:
    """Let a file that was just made belong to a user and a group."""
    try:
        os.fchown(fd, user, group)
    except PermissionError:
        if os.fstat(fd).st_uid != user:
            raise
        # A group that the sandbox user is not in, which a file of its own may have all the same.
        with own_rights():
            os.fchown(fd, -1, group)


def _attributes(file: int | str) -> set[str]:
    """The extended attributes to keep; the security system labels files itself."""
    try:
        names = os.listxattr(file)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return set()
        raise
    return {name for name in names if not name.startswith("security.")}


def _link(temporary: str, real: str) -> bool:
    """Let a finished file appear at its path unless something is there; `False` where links are unknown."""
    try:
        os.link(temporary, real)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    os.unlink(temporary)
    return True


def may_write(path: str) -> bool:
    """Whether the calling thread may write the file."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _named(error: OSError, path: str) -> OSError:
    """The same error about the path the caller knows."""
    return OSError(error.errno, error.strerror, path)


def pieces(file: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of an open file from `start` to `end`, or to where it ends by now."""
    while start < end and (piece := os.pread(file, min(end - start, CHUNK), start)):
        yield piece
        start += len(piece)


class RenameCall(Protocol):
    """Renames with one of the flags above; relative paths start at `directory`, if that is given."""

    def __call__(self, source: str, target: str, flag: int, directory: int | None = None) -> None: ...


@functools.cache
def renameat2() -> RenameCall | None:
    """The system call; None where the C library does not have it."""
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]

    def rename(source: str, target: str, flag: int, directory: int | None = None) -> None:
        start = _AT_FDCWD if directory is None else directory
        if call(start, os.fsencode(source), start, os.fsencode(target), flag):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), source, None, target)

    return rename


def real_path(path: str) -> str:
    """The path without links, as `os.path.realpath` says; the C library is faster where the path exists."""
    import ctypes

    buffer = ctypes.create_string_buffer(_LONGEST_PATH)
    if "\0" not in path and _realpath()(os.fsencode(path), buffer):
        return os.fsdecode(buffer.value)
    return os.path.realpath(path)


@functools.cache
def _realpath() -> Callable[[bytes, object], int | None]:
    import ctypes

    call = ctypes.CDLL(None).realpath
    call.argtypes, call.restype = [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_void_p
    return call
