"""Puts files below a directory and nowhere else.

Every name is taken relative to the directory. It is walked with directory descriptors that do not follow
symbolic links, so neither a name nor a link, planted before or swapped in meanwhile, leads outside. A link
to a place inside is followed. A file appears under its name complete or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable
from types import TracebackType
from typing import BinaryIO, Self

from glovebox.errors import TransferError

#: Starts the name of a file that is still being written.
PART_PREFIX = ".glovebox-part-"

# A path descriptor needs no read permission on the directory; other systems have to do with a plain one.
_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def named(error: OSError, path: str) -> OSError:
    """The same error with the path that the caller knows."""
    code = error.errno or errno.EIO
    return OSError(code, os.strerror(code), path)


class SafeDirectory:
    """A directory that files are put into; it is made if it is missing.

    With `inherit`, a file that replaces another gets its owner and mode.
    """

    def __init__(self, path: str, *, inherit: bool = True) -> None:
        self.path = path
        self._inherit = inherit
        if "\0" in path:
            raise TransferError(f"Destination must not contain NUL: {path!r}")
        if not os.path.exists(path):
            os.makedirs(path)
        self._root = os.open(path, _DIRECTORY)
        self._real = os.path.realpath(path)
        self._token = secrets.token_hex(8)
        # Archives list file after file of the same directory.
        self._last: tuple[tuple[str, ...], int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._forget()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def file(
        self, parts: tuple[str, ...], *, executable: bool = False, make_directories: bool = False
    ) -> Draft:
        """Begin a file; its directory must exist, or is made with `make_directories`.

        Raises:
            OSError: as the system says, with the path of the file.
            TransferError: the way to it leads outside, or something that is no file is there.
        """
        path = self.path_of(parts)
        try:
            directory = os.dup(self._directory(parts[:-1], make_directories))
        except OSError as error:
            raise named(error, path) from error
        try:
            return Draft(directory, parts[-1], path, executable=executable, inherit=self._inherit)
        except (OSError, TransferError):
            os.close(directory)
            raise

    def put(self, parts: tuple[str, ...], content: bytes, *, executable: bool = False) -> None:
        """Write a whole file; missing directories above it are made.

        Raises:
            OSError: as the system says, with the path of the file.
            TransferError: the way to it leads outside, or something that is no file is there.
        """
        try:
            directory = self._directory(parts[:-1], make=True)
            old = _found(directory, parts[-1])
            if old is not None:
                _check(old, self.path_of(parts))
            self._write(directory, parts[-1], content, old, executable)
        except OSError as error:
            raise named(error, self.path_of(parts)) from error

    def _write(
        self, directory: int, name: str, content: bytes, old: os.stat_result | None, executable: bool
    ) -> None:
        part = f"{PART_PREFIX}{self._token}"  # there is but one at a time
        descriptor = _open_new(directory, part, executable)
        placed = False
        try:
            try:
                rest = memoryview(content)
                while rest:  # the system may take less than it is given
                    rest = rest[os.write(descriptor, rest) :]
                if old is not None and self._inherit:
                    _inherit(descriptor, old)
            finally:
                os.close(descriptor)
            os.replace(part, name, src_dir_fd=directory, dst_dir_fd=directory)
            placed = True
        finally:
            if not placed:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=directory)

    def directory(self, parts: tuple[str, ...]) -> None:
        """Make a directory and those above it, where missing."""
        try:
            self._directory(parts, make=True)
        except OSError as error:
            raise named(error, self.path_of(parts)) from error

    def link(self, parts: tuple[str, ...], leads_to: str) -> bool:
        """Make a symbolic link; False if it would lead outside.

        Raises:
            OSError: as the system says, with the path of the link.
            TransferError: the way to it leads outside, or something that is no file is there.
        """
        try:
            directory = self._directory(parts[:-1], make=True)
            # `..` leads up from the real directory; behind another name, that might be a link.
            above = os.path.relpath(os.path.realpath(os.path.join(self._real, *parts[:-1])), self._real)
            steps = [step for step in leads_to.split("/") if step not in ("", ".")]
            up = next((index for index, step in enumerate(steps) if step != ".."), len(steps))
            depth = 0 if above == os.curdir else above.count(os.sep) + 1
            if leads_to.startswith("/") or not steps or up > depth or ".." in steps[up:]:
                return False
            self._appear(directory, parts, lambda part: os.symlink(leads_to, part, dir_fd=directory))
        except OSError as error:
            raise named(error, self.path_of(parts)) from error
        return True

    def hard_link(self, parts: tuple[str, ...], source: tuple[str, ...]) -> bool:
        """Give a file in this directory another name; False if there is no such file.

        Raises:
            OSError: as the system says, with the path of the new name.
            TransferError: the way to one of them leads outside, or something that is no file is there.
        """
        try:
            origin = os.dup(self._directory(source[:-1], make=False))
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            old = _found(origin, source[-1])
            if old is None or not stat.S_ISREG(old.st_mode):
                return False
            directory = self._directory(parts[:-1], make=True)

            def make(part: str) -> None:
                os.link(source[-1], part, src_dir_fd=origin, dst_dir_fd=directory, follow_symlinks=False)

            self._appear(directory, parts, make)
        except OSError as error:
            raise named(error, self.path_of(parts)) from error
        finally:
            os.close(origin)
        return True

    def _appear(self, directory: int, parts: tuple[str, ...], make: Callable[[str], None]) -> None:
        """Make something under another name, and let it take the place of what is there."""
        old = _found(directory, parts[-1])
        if old is not None:
            _check(old, self.path_of(parts))
        part = f"{PART_PREFIX}{self._token}"
        make(part)
        try:
            os.replace(part, parts[-1], src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            with contextlib.suppress(FileNotFoundError):  # of two names of a file, a rename leaves both
                os.unlink(part, dir_fd=directory)

    def path_of(self, parts: tuple[str, ...]) -> str:
        """The path as a caller knows it."""
        return os.path.join(self.path, *parts)

    def _forget(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def _directory(self, parts: tuple[str, ...], make: bool) -> int:
        """A descriptor that the caller must not close."""
        if not parts:
            return self._root
        if self._last is None or self._last[0] != parts:
            self._forget()
            self._last = (parts, self._open(parts, make))
        return self._last[1]

    def _open(self, parts: tuple[str, ...], make: bool) -> int:
        try:
            return self._walk(parts, make)
        except NotADirectoryError:
            # A file on the way, or a link. A link's real target is walked again, without links.
            real = os.path.realpath(os.path.join(self._real, *parts))
            below = os.path.relpath(real, self._real)
            if below == os.pardir or below.startswith(os.pardir + os.sep):
                raise TransferError(f"{self.path_of(parts)} leads outside {self.path}") from None
            resolved = () if below == os.curdir else tuple(below.split(os.sep))
            if resolved == parts:
                raise
            return self._walk(resolved, make)

    def _walk(self, parts: tuple[str, ...], make: bool) -> int:
        current = os.dup(self._root)
        for part in parts:
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=current)
                below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
            finally:
                os.close(current)
            current = below
        return current


class Draft:
    """A file in the making, invisible under its name until it is committed."""

    def __init__(self, directory: int, name: str, path: str, *, executable: bool, inherit: bool) -> None:
        self.path = path
        self._inherit = inherit
        self._name = name
        self._part = PART_PREFIX + secrets.token_hex(8)
        try:
            old = _found(directory, name)
            if old is not None:
                _check(old, path)
            descriptor = _open_new(directory, self._part, executable)
        except OSError as error:
            raise named(error, path) from error
        self.file: BinaryIO = os.fdopen(descriptor, "w+b")
        self._directory = directory

    def commit(self) -> None:
        """Put the file in its place, over what is there."""
        try:
            self.file.flush()
            old = _found(self._directory, self._name)
            if old is not None and self._inherit:
                _inherit(self.file.fileno(), old)
            self.file.close()
            os.replace(self._part, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError as error:
            self.discard()
            raise named(error, self.path) from error
        self._close()

    def discard(self) -> None:
        if self._directory < 0:
            return
        with contextlib.suppress(OSError):  # what could not be written need not be written now
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._part, dir_fd=self._directory)
        self._close()

    def _close(self) -> None:
        os.close(self._directory)
        self._directory = -1


def _open_new(directory: int, name: str, executable: bool) -> int:
    # The umask applies, as to any file that is created.
    return os.open(name, _NEW, 0o777 if executable else 0o666, dir_fd=directory)


def _found(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check(old: os.stat_result, path: str) -> None:
    """Refuse what could not be replaced, or must not: a device is not a file's old version."""
    if stat.S_ISREG(old.st_mode) or stat.S_ISLNK(old.st_mode):
        return
    if stat.S_ISDIR(old.st_mode):
        raise named(IsADirectoryError(errno.EISDIR, ""), path)
    raise TransferError(f"{path} exists and is not a regular file")


def _inherit(descriptor: int, old: os.stat_result) -> None:
    """Keep the owner and mode of the file that is replaced: its user must stay able to use it."""
    if not stat.S_ISREG(old.st_mode):
        return
    with contextlib.suppress(PermissionError):  # only root may give files away
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o777)
