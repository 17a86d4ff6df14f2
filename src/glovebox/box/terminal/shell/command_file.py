"""The directory that the server and a shell share: its startup files, and the command to run next."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

from glovebox.box.terminal.shell import integration

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
#: What a bash has read by the time it waits for `enter`. It reads the user's startup files afterwards.
_READ_AHEAD = ("/etc/bash.bashrc", "/etc/bash/bashrc", "/etc/passwd")
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Delivery:
    """A private directory. Everything but `put` and `put_shown` may block.

    It belongs to the server. A shell of another user reads it through `group` and cannot change it. It may be
    removed, by what cleans up /tmp, and others may put something in its place: links are not followed, and a
    directory of another user is not used.

    A command goes through a file because a terminal takes at most 4096 bytes per line, and tabs, line
    ends and quotes would mean something to the line editor.
    """

    def __init__(
        self,
        *,
        session: str,
        token: str,
        group: int | None,
        path: str | None = None,
        ahead: bool = False,
        inherited: str = "",
    ) -> None:
        """Make one, or use the one at `path` that an earlier server made; a command in it stays.

        With `ahead`, the shell waits for `enter`.
        """
        self._tokens = {"session": session, "token": token}
        self._group = group
        self._ahead = ahead
        self._inherited = inherited
        self._place = -1
        #: What the shell reads before it waits.
        self._read = _read_ahead() if ahead else ()
        self.path = path or tempfile.mkdtemp(prefix="glovebox-")
        #: Whether it is not where the shell expects it, because another user has put something there.
        self.moved = False
        self._descriptor = -1
        self._size = 0
        self._write()

    @property
    def command(self) -> str:
        """The file with the command to run next."""
        return f"{self.path}/{integration.COMMAND_FILE}"

    @property
    def startup(self) -> str:
        """The rc file that begins with the user's own."""
        return f"{self.path}/{integration.STARTUP_FILE}"

    @property
    def hooks(self) -> str:
        """The rc file without the user's own."""
        return f"{self.path}/{integration.HOOKS_FILE}"

    @property
    def lost(self) -> bool:
        """Whether someone removed the files, as cleaning up /tmp does."""
        return os.fstat(self._descriptor).st_nlink == 0

    def put(self, command: bytes) -> None:
        """Leave a command for the shell to find. Takes microseconds: the file stays open and in memory."""
        self._replace(0, command)

    def put_shown(self, command: bytes, shown: bytes) -> None:
        """Leave, after the command that was put, what people who watch are shown of it."""
        self._replace(len(command) + 1, shown)

    def _replace(self, offset: int, text: bytes) -> None:
        end = offset + len(text) + 1
        os.pwrite(self._descriptor, text + b"\0", offset)
        if self._size > end:
            os.ftruncate(self._descriptor, end)
        self._size = end

    def enter(self, directory: str) -> None:
        """Send a shell that was started ahead to its directory. Never blocks."""
        os.write(self._place, os.fsencode(directory) + b"\0")

    def is_fresh(self) -> bool:
        """Whether a shell that was started ahead has read nothing that has changed since."""
        return self._read == _read_ahead()

    def entered(self) -> None:
        """The shell has read its directory."""
        if self._place >= 0:
            os.close(self._place)
            self._place = -1

    def restore(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        self._write()

    def close(self) -> None:
        self.entered()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        shutil.rmtree(self.path, ignore_errors=True)

    def _write(self) -> None:
        directory = self._open()
        try:
            for name, text in self._texts():
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                with open(self._create(name, directory), "wb", buffering=0) as file:
                    file.write(text.encode())
            try:
                self._descriptor = os.open(integration.COMMAND_FILE, _OPEN, dir_fd=directory)
            except FileNotFoundError:
                self._descriptor = self._create(integration.COMMAND_FILE, directory)
            self._size = os.fstat(self._descriptor).st_size
            if self._ahead:
                self._make_place(directory)
            self._share(directory, 0o750)
        finally:
            os.close(directory)

    def _texts(self) -> list[tuple[str, str]]:
        path, ahead = self.path, self._ahead
        hooks = integration.hooks(directory=path, ahead=ahead, **self._tokens)
        startup = integration.startup(directory=path, ahead=ahead, inherited=self._inherited)
        functions = [(integration.FUNCTIONS_FILE, integration.parts()[0])] if ahead else []
        return [(integration.HOOKS_FILE, hooks), (integration.STARTUP_FILE, startup), *functions]

    def _make_place(self, directory: int) -> None:
        """A named pipe that is open at both ends: neither the shell nor the server waits to open it."""
        self._ahead = False
        os.mkfifo(integration.PLACE_FILE, 0o600, dir_fd=directory)
        self._place = os.open(integration.PLACE_FILE, _OPEN | os.O_NONBLOCK, dir_fd=directory)
        self._share(self._place, 0o640)

    def _open(self) -> int:
        """The directory, made if it is gone; another one if what is there is not ours alone."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        try:
            directory = os.open(self.path, _OPEN_DIRECTORY)
        except OSError:  # a link, or a file
            directory = -1
        if directory >= 0 and _is_ours(os.fstat(directory)):
            return directory
        if directory >= 0:
            os.close(directory)
        self.path = tempfile.mkdtemp(prefix="glovebox-")
        self.moved = True
        return os.open(self.path, _OPEN_DIRECTORY)

    def _create(self, name: str, directory: int) -> int:
        descriptor = os.open(name, _OPEN | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
        self._share(descriptor, 0o640)
        return descriptor

    def _share(self, descriptor: int, mode: int) -> None:
        if self._group is not None:
            os.fchown(descriptor, -1, self._group)
            os.fchmod(descriptor, mode)


def _read_ahead() -> tuple[object, ...]:
    found: list[object] = [os.uname().nodename]
    for path in _READ_AHEAD:
        try:
            seen = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns))
    return tuple(found)


def _is_ours(seen: os.stat_result) -> bool:
    return seen.st_uid == os.geteuid() and not seen.st_mode & 0o022
