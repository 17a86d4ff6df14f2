"""The files of this machine. Everything here blocks: its coroutines never wait."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from glovebox.box.files.disk import atomic, paths
from glovebox.box.files.disk.atomic import pieces
from glovebox.box.files.disk.encoding import SAMPLE_SIZE
from glovebox.box.files.disk.lines import LineIndex, cut_range, splice_range, with_line_end
from glovebox.box.files.disk.path_errors import (
    FileActionError,
    no_parent,
    not_free,
    refusal,
    resolved,
    shown,
    too_large,
)
from glovebox.box.machine import FileHandle, PathKind, Tree, complete

if TYPE_CHECKING:  # the editor is also used in kernels, whose Python need not have what messages are made of
    from glovebox.box.threads import Threads
    from glovebox.protocol.files import FileType, StatObservation

P = ParamSpec("P")
T = TypeVar("T")

#: Files up to this size are read in one go; larger ones are not held in memory where that can be avoided.
SMALL = 65_536
#: The mode of a file that `write` makes.
NEW_FILE_MODE = 0o664
#: `O_NONBLOCK` matters for pipes only: opening one would else wait for a writer that may never come.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

#: After so many failures in a row it is no use: not every system and file system can tell what is in memory.
_TRIES = 16

_TYPES: dict[int, FileType] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block_device",
    stat.S_IFCHR: "character_device",
}


class LocalFile:
    """An open file, read once: first a sample, then all of it, or parts of it by lines.

    Opening never waits, but reading could if the file is not regular.
    """

    __slots__ = ("_head", "data", "fd", "is_regular", "path", "size", "small", "status")

    def __init__(self, path: str, fd: int | None = None) -> None:
        self.path = path
        self.fd = os.open(path, _READ) if fd is None else fd
        self.status = os.fstat(self.fd)
        self.size = self.status.st_size
        self.is_regular = stat.S_ISREG(self.status.st_mode)
        self.small = SMALL
        self._head: bytes | None = None
        #: What `content` read.
        self.data: bytes | None = None

    @classmethod
    def from_memory(cls, path: str) -> Self:
        """A small file, opened and read without waiting for a disk or a network.

        Raises:
            OSError: not all of it is in memory, or the file system cannot tell; or it cannot be opened.
        """
        from glovebox.linux.openat2 import CACHED, openat2

        file = cls(path, openat2(path, _READ, CACHED))
        head = bytearray(min(file.size, SMALL))
        try:
            if not (head and file.is_regular and os.preadv(file.fd, [head], 0, os.RWF_NOWAIT) == file.size):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        except OSError:
            os.close(file.fd)
            raise
        file._head = bytes(head)
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def sample(self) -> bytes:
        return self._beginning()[:SAMPLE_SIZE]

    async def content(self, most: int) -> bytes | None:
        self.data = self._read(most)
        return self.data

    async def lines(self, start: int, end: int, most: int) -> str:
        # Lines are counted, and text that is not UTF-8 is refused, whichever part is read.
        index = LineIndex(self.fd)
        first, last = cut_range(index.lines, start, end)
        begin, stop = index.offset(first), index.offset(last)
        if stop - begin > most:
            raise too_large(self.path, stop - begin, most)
        return b"".join(pieces(self.fd, begin, stop)).decode()

    def _beginning(self) -> bytes:
        if self._head is None:
            self._head = os.read(self.fd, min(self.size, SMALL) or SMALL)  # files of /proc have size 0
        return self._head

    def _read(self, most: int) -> bytes | None:
        if self.size > most:
            return None
        head = self._beginning()
        if len(head) == self.size != 0:
            return head
        if self.size and len(data := os.pread(self.fd, self.size, 0)) == self.size:
            return data
        parts = [head]
        got = len(head)
        while part := os.read(self.fd, max(self.size - got, SMALL)):
            parts.append(part)
            got += len(part)
            if got > most:
                return None
        return head if len(parts) == 1 else b"".join(parts)


class LocalFiles:
    """Files of this machine, changed with the rights of the calling thread.

    `owner` gets the files that are made, user and group alike. Without `threads`, use `complete`. With
    `reads_memory`, for which the threads must have the rights of the event loop, that reads small files of
    the page cache by itself.
    """

    def __init__(
        self, threads: Threads | None = None, *, owner: int | None = None, reads_memory: bool = False
    ) -> None:
        self._threads = threads
        self._owner = owner
        #: Other code that changes a file holds the lock of its real path.
        self.locks = PathLocks()
        #: The real paths of those that are locked.
        self._real: dict[str, str] = {}
        #: How often the event loop still tries to read a file by itself, which fails where it would wait.
        self._tries_left = _TRIES if reads_memory and sys.platform == "linux" else 0
        self._loop_thread = 0

    async def run(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        assert self._threads is not None
        return await self._threads.run(lambda: complete(work, *args, **kwargs))

    async def look(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._tries_left:
            self._loop_thread = threading.get_ident()
            try:
                result = complete(work, *args, **kwargs)
                self._tries_left = _TRIES
                return result
            except FileNotFoundError:
                raise
            except OSError:
                self._tries_left -= 1
        return await self.run(work, *args, **kwargs)

    async def compute(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return call(*args, **kwargs)

    @contextlib.asynccontextmanager
    async def lock(self, path: str) -> AsyncIterator[None]:
        real = atomic.real_path(path)
        with self.locks.hold(real):
            self._real[path] = real
            try:
                yield
            finally:
                self._real.pop(path, None)

    async def stat(self, path: str, *, follow: bool = True) -> PathKind:
        mode = os.stat(path, follow_symlinks=follow).st_mode
        return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"

    async def describe(self, path: str, *, follow: bool) -> StatObservation:
        import grp
        import pwd

        from glovebox.box.files.disk.metadata import account_name
        from glovebox.protocol.files import StatObservation

        try:
            status = os.stat(path, follow_symlinks=follow)
            target = shown(os.readlink(path)) if stat.S_ISLNK(status.st_mode) else None
        except FileNotFoundError as error:
            if os.path.islink(path):
                raise FileActionError(
                    "not_found",
                    f"{shown(path)} is a link to {shown(os.readlink(path))}, which does not exist. "
                    "Set follow_symlinks to false to look at the link.",
                ) from error
            raise refusal(error, path) from error
        except OSError as error:
            raise refusal(error, path) from error
        kind = _TYPES.get(stat.S_IFMT(status.st_mode), "file")
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        owner = account_name(pwd.getpwuid, status.st_uid)
        group = account_name(grp.getgrgid, status.st_gid)
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(status.st_mtime))
        leads = f" to {target}" if target is not None else ""
        return StatObservation(
            content=f"{shown(path)}: {kind.replace('_', ' ')}{leads}, {status.st_size} bytes, mode {mode}, "
            f"owner {owner or status.st_uid}:{group or status.st_gid}, modified {when}",
            path=shown(path),
            type=kind,
            size=status.st_size,
            mode=mode,
            uid=status.st_uid,
            gid=status.st_gid,
            owner=owner,
            group=group,
            modified=status.st_mtime,
            target=target,
        )

    async def open(self, path: str) -> LocalFile:
        if threading.get_ident() == self._loop_thread:
            return LocalFile.from_memory(path)
        file = LocalFile(path)
        if stat.S_ISDIR(file.status.st_mode):
            os.close(file.fd)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return file

    async def replace(self, file: FileHandle, data: bytes) -> None:
        assert isinstance(file, LocalFile)
        assert file.data is not None
        real = self._real_path(file.path)
        atomic.replace(file.path, data, real=real, status=file.status, previous=file.data)

    async def splice(self, file: FileHandle, content: str, start: int | None, end: int | None) -> None:
        assert isinstance(file, LocalFile)
        index = LineIndex(file.fd)
        kept, resumed = (index.offset(line) for line in splice_range(index.lines, start, end))
        everything = start == 0 and end == -1
        new = with_line_end(content + "\n", "\n" if everything else index.line_end).encode()

        def change(old: int) -> Iterator[bytes]:
            yield from pieces(old, 0, kept)
            yield new
            yield from pieces(old, resumed, index.size)

        real = self._real_path(file.path)
        atomic.rewrite(file.path, change, real=real, status=file.status, file=file.fd, size=index.size)

    async def create(self, path: str, data: bytes, *, exclusive: bool) -> None:
        real = self._real_path(path)
        if exclusive:
            if os.path.exists(path):  # some file systems cannot make this certain
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if os.path.islink(real):
                os.stat(path)  # raises: its links lead in a circle
            owner = self._owner if os.geteuid() == 0 else None
            atomic.create(path, data, real=real, mode=None, owner=owner, exclusive=True)
            return
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            with contextlib.suppress(FileExistsError):  # another write was faster, or it is a link
                os.makedirs(directory)
        try:
            problem = atomic.create(path, data, real=real, mode=NEW_FILE_MODE, owner=self._owner)
        except FileNotFoundError:
            # A link that leads into a directory that is not there.
            raise FileActionError("", f"File not found: {path}") from None
        if problem is not None:
            reason = f"written, but failed to change ownership and permissions: {problem}"
            raise FileActionError("", f"File {path} {reason}")

    async def tree(self, path: str) -> Tree:
        return paths.list_tree(path)

    async def absolute(self, cwd: str, path: str) -> str:
        return resolved(cwd, path)

    async def real(self, path: str) -> str:
        return os.path.realpath(path)

    async def move(self, source: str, target: str, *, overwrite: bool) -> None:
        paths.move(source, target, overwrite=overwrite)

    async def delete(self, path: str, cwd: str, *, recursive: bool) -> int:
        return paths.delete(path, cwd, recursive=recursive)

    async def make_directory(self, path: str, *, parents: bool) -> bool:
        # Upwards to the first directory that can be made, then down again; no check can be outrun.
        missing = [path]
        while missing:
            try:
                os.mkdir(missing[-1])
            except FileNotFoundError as error:
                parent = os.path.dirname(missing[-1])
                if not parents or parent == missing[-1]:
                    raise no_parent(parent) from error
                missing.append(parent)
            except FileExistsError as error:
                if not os.path.isdir(missing[-1]):
                    raise not_free(missing[-1]) from error
                if missing.pop() == path:
                    return False
            except OSError as error:
                raise refusal(error, missing[-1]) from error
            else:
                missing.pop()
        return True

    def _real_path(self, path: str) -> str:
        return self._real.get(path) or os.path.realpath(path)


class PathLocks:
    """Lets one thread at a time change a file. The table holds only paths in use."""

    def __init__(self) -> None:
        self._table: dict[str, tuple[threading.Lock, int]] = {}
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Keep every other holder of the same (real) path waiting."""
        with self._guard:
            lock, wanted = self._table.get(path) or (threading.Lock(), 0)
            self._table[path] = (lock, wanted + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                wanted = self._table[path][1] - 1
                if wanted:
                    self._table[path] = (lock, wanted)
                else:
                    del self._table[path]

    def __len__(self) -> int:
        return len(self._table)
