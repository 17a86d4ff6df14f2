"""A file that is written as it arrives, and takes its place in one step when it is complete.

Until then it is a file `.glovebox-*.tmp` of the same directory, which is held open: where that directory
goes meanwhile does not matter for removing it. What `atomic` says about links, modes and files that
cannot be replaced holds here too; the latter are collected elsewhere and then overwritten in place.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from glovebox.box.credentials import own_rights
from glovebox.box.files.disk import atomic
from glovebox.box.files.disk.local_files import PathLocks
from glovebox.box.files.disk.metadata import Accounts, described
from glovebox.box.files.disk.path_errors import shown
from glovebox.box.threads import Releasable
from glovebox.errors import FileError, IsADirectory, NoSuchFile, NotAFile
from glovebox.protocol.file_info import FileInfo

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)

#: Decides by what is at the path whether it may be replaced; raises FileChanged.
Condition = Callable[[os.stat_result | None], None]


class Owner(NamedTuple):
    """Whom a file is given to; -1 leaves the user or the group as it is."""

    user: int = -1
    group: int = -1


class Replacement(Releasable):
    """The new content of `path`. Its methods block. If it is closed before its end, nothing is left of it."""

    def __init__(
        self,
        path: str,
        *,
        locks: PathLocks,
        condition: Condition,
        mode: int | None,
        owner: Owner,
        parents: bool,
    ) -> None:
        """Begin.

        Raises:
            FileChanged: the condition is not met.
            FileError: something that is no file is there, or the directory is missing.
            OSError: as the system says.
        """
        super().__init__()
        self.path = path
        self._locks = locks
        self._condition = condition
        self._mode = mode
        self._owner = owner
        self._directory = self._fd = -1
        self._name = ""
        self._real = atomic.real_path(path)
        old = self._checked()
        if parents:
            os.makedirs(os.path.dirname(self._real), exist_ok=True)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._open(old)
            undo.pop_all()

    def write(self, pieces: Iterable[bytes]) -> None:
        """Append what has arrived.

        Raises:
            OSError: as the system says.
        """
        with self.in_use():
            for piece in pieces:
                if self.is_closed:
                    break
                atomic.write_all(self._fd, piece)

    def finish(self) -> tuple[FileInfo, bool]:
        """Put the content in its place, if the condition is still met; returns whether it is a new file, too.

        Raises:
            FileChanged: the condition is not met.
            FileError: something that is no file is there, or the directory is gone.
            OSError: as the system says; the old file is as it was.
        """
        try:
            with self.in_use(), self._locks.hold(self._real):
                if self.is_closed:
                    raise FileError(f"{shown(self.path)} was not written.")  # the request is over
                status, made = self._commit()
        finally:
            self.close()
        return described(self.path, status, None, Accounts()), made

    def _checked(self) -> os.stat_result | None:
        """What is at the path, if that may be replaced."""
        try:
            old: os.stat_result | None = os.stat(self._real, follow_symlinks=False)
        except FileNotFoundError:
            old = None
        if old is not None:
            if stat.S_ISDIR(old.st_mode):
                raise IsADirectory(f"{shown(self.path)} is a directory.")
            if stat.S_ISLNK(old.st_mode):
                os.stat(self._real)  # raises: its links lead in a circle
            if not stat.S_ISREG(old.st_mode):
                raise NotAFile(f"{shown(self.path)} is a pipe, a socket or a device, and no file.")
        self._condition(old)
        if old is not None and not atomic.may_write(self._real):
            os.close(os.open(self._real, os.O_WRONLY | os.O_CLOEXEC))  # raises: it says why
        return old

    def _open(self, old: os.stat_result | None) -> None:
        try:
            self._directory = os.open(os.path.dirname(self._real), _DIRECTORY)
        except FileNotFoundError:
            parent = os.path.dirname(self._real)
            raise NoSuchFile(
                f"The directory {shown(parent)} does not exist. Make it, or set parents."
            ) from None
        if old is None or old.st_nlink == 1:
            try:
                self._name = f"{atomic.PREFIX}{secrets.token_hex(8)}.tmp"
                mode = 0o666 if old is None and self._mode is None else 0o600
                self._fd = os.open(self._name, _NEW, mode, dir_fd=self._directory)
                return
            except OSError as error:
                self._name = ""
                if old is None or error.errno not in atomic.NO_REPLACEMENT:
                    raise
        with own_rights():  # a file without a name, which no other process sees
            descriptor, unnamed = tempfile.mkstemp()
            os.unlink(unnamed)
        self._fd = descriptor

    def _commit(self) -> tuple[os.stat_result, bool]:
        while True:
            old = self._checked()
            if not self._name:
                return self._overwrite(old), False
            self._check_directory()
            if old is None:
                self._set_attributes()
                if self._appears():
                    break
                continue  # another file was faster: look again
            try:
                atomic.take_after(self._fd, self._real, old)
                self._set_attributes()
                atomic.put_in_place(self._name, os.path.basename(self._real), self._directory)
                break
            except OSError as error:
                if error.errno not in atomic.NO_REPLACEMENT or self._owner != (-1, -1):
                    raise
                return self._overwrite(old), False
        self._name = ""
        return os.fstat(self._fd), old is None

    def _set_attributes(self) -> None:
        if self._owner != (-1, -1):
            os.fchown(self._fd, *self._owner)
        if self._mode is not None:
            os.fchmod(self._fd, self._mode)
        # The system's clock ticks every few milliseconds: two writes within a tick would look the same.
        now = time.time_ns()
        os.utime(self._fd, ns=(now, now))

    def _check_directory(self) -> None:
        """The directory must still be where it was: clients look for the file there."""
        parent = os.path.dirname(self._real)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(parent), os.fstat(self._directory)):
                return
        raise NoSuchFile(f"The directory {shown(parent)} was removed or moved during the upload.")

    def _appears(self) -> bool:
        """Put a new file in its place, unless something has appeared there."""
        name, rename = os.path.basename(self._real), atomic.renameat2()
        try:
            if rename is not None:
                rename(self._name, name, atomic.NOREPLACE, self._directory)
                return True
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in atomic.NO_EXCHANGE:
                raise
        os.rename(self._name, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        return True

    def _overwrite(self, old: os.stat_result | None) -> os.stat_result:
        """Give the file in its place the new content: it cannot be replaced."""
        if old is None:
            raise NoSuchFile(f"{shown(self.path)} was removed during the upload.")
        new, size = self._fd, os.fstat(self._fd).st_size
        self._fd = os.open(self._real, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._mode is not None or self._owner != (-1, -1):
                self._set_attributes()
            atomic.rewrite(
                self.path,
                lambda _: atomic.pieces(new, 0, size),
                real=self._real,
                status=old,
                file=self._fd,
                size=old.st_size,
            )
        finally:
            os.close(new)
        return os.stat(self._real)

    def _release(self) -> None:
        if self._name:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)
            self._name = ""
        for descriptor in (self._fd, self._directory):
            if descriptor >= 0:
                os.close(descriptor)
        self._fd = self._directory = -1
