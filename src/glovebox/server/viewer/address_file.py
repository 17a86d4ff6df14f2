"""The file from which programs in the box learn the address of the file viewer.

The first live server of a machine has the well-known one, and a lock beside it for as long as it lives. A
later server, or one that finds something there that is not its own, writes a file of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import stat
import tempfile

log = logging.getLogger(__name__)

_NAME = "viewer-url"
_TRIES = 10
_LONGEST_PID = 9  # digits
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Unusable(Exception):
    """The well-known file cannot be this server's; the text says why."""


class AddressFile:
    """That file, readable by one user only. Everything blocks, and has the rights of the calling thread."""

    def __init__(self, path: str, *, user_id: int, state_dir: str = "") -> None:
        """`user_id`: whose files those are that this thread makes."""
        self._path = path
        self._user_id = user_id
        self._state_dir = state_dir
        self._lock: int | None = None
        #: The file that was written, and its identity: another file may take its path.
        self._written: tuple[str, os.stat_result] | None = None
        self._directory = ""

    def write(self, url: str) -> None:
        """Write an address, to a file of this server's own if need be; if even that fails, it is logged."""
        try:
            if _is_device(self._path):  # /dev/null, for example: the address is not wanted
                return
            self._claim()
            self._replace(self._path, url)
        except (OSError, _Unusable) as error:
            self._unlock()
            try:
                own = self._write_own(url)
            except OSError as problem:
                log.warning("The file viewer's address cannot be written: %s; %s", error, problem)
            else:
                log.warning("The file viewer's address is in %s, not in %s: %s", own, self._path, error)

    def remove(self) -> None:
        """Remove what was written, if it is still there, and let another server have the name."""
        if self._written is not None:
            path, status = self._written
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(path), status):
                    os.unlink(path)
        if self._directory:
            with contextlib.suppress(OSError):
                os.rmdir(self._directory)
        self._unlock()

    def _claim(self) -> None:
        """Take the lock, and check that the file at the path is not another user's."""
        if not any(self._try_lock() for _ in range(_TRIES)):
            raise _Unusable("its lock is replaced all the time")
        with contextlib.suppress(FileNotFoundError):
            self._check("it", os.lstat(self._path), links=True)

    def _try_lock(self) -> bool:
        """Whether the lock is held now; if not, its file was replaced meanwhile and has to be tried again.

        Raises:
            _Unusable: another server has it.
        """
        path = self._lock_path
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            self._check("its lock", os.fstat(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"%d" % os.getpid())
            if _is_at(path, descriptor):
                self._lock, descriptor = descriptor, -1
            return self._lock is not None
        except BlockingIOError:
            owner = os.pread(descriptor, _LONGEST_PID, 0).decode("ascii", "replace")
            if owner.isdecimal() and not _is_alive(int(owner)):
                # The process that has the lock inherited it from a server that was killed.
                if _is_at(path, descriptor):
                    os.unlink(path)
                return False
            raise _Unusable(f"a box that runs already has it (process {owner})") from None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def _lock_path(self) -> str:
        return f"{self._path}.lock"

    def _unlock(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                if _is_at(self._lock_path, self._lock):
                    os.unlink(self._lock_path)
            os.close(self._lock)
            self._lock = None

    def _check(self, what: str, status: os.stat_result, *, links: bool = False) -> None:
        """Trust a file of the own user only: anybody can put something into a directory such as /tmp."""
        if status.st_uid != self._user_id:
            raise _Unusable(f"{what} belongs to another user ({status.st_uid})")
        if not (stat.S_ISREG(status.st_mode) or (links and stat.S_ISLNK(status.st_mode))):
            raise _Unusable(f"{what} is no file")

    def _write_own(self, url: str) -> str:
        """A file that no other server has: in the state directory, if its user may go there."""
        if self._state_dir:
            path = os.path.abspath(os.path.join(self._state_dir, _NAME))
            with contextlib.suppress(OSError):
                self._replace(path, url)
                return path
        self._directory = tempfile.mkdtemp(prefix="glovebox-viewer-")
        path = os.path.join(self._directory, _NAME)
        self._replace(path, url)
        return path

    def _replace(self, path: str, url: str) -> None:
        """Write a file anew; what is at the path is replaced, and never followed or written to."""
        part = f"{path}.{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(part, _NEW_FILE, 0o600), "w") as file:
                file.write(url)
                file.flush()
                status = os.fstat(file.fileno())
            os.replace(part, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        self._written = path, status


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_at(path: str, descriptor: int) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
