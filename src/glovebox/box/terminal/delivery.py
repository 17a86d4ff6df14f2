"""The directory that the server and a shell share: its startup files, and the command to run next."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from glovebox.box.terminal import integration


class Delivery:
    """A private directory. Everything but `put` may block.

    It belongs to the server. A shell of another user reads it through `group` and cannot change it, so what
    the server writes there, perhaps as root, always goes where it should.

    A command goes through a file because a terminal takes at most 4096 bytes per line, and tabs, line
    ends and quotes would mean something to the line editor.
    """

    def __init__(self, *, session: str, token: str, group: int | None, path: str | None = None) -> None:
        """Make one, or use the one at `path` that an earlier server made; a command in it stays."""
        self._group = group
        self.path = path or tempfile.mkdtemp(prefix="glovebox-")
        self._files = {
            integration.HOOKS_FILE: integration.hooks(directory=self.path, session=session, token=token),
            integration.STARTUP_FILE: integration.startup(directory=self.path),
        }
        self._descriptor = -1
        self._size = 0
        self._write()

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
        data = command + b"\0"
        os.pwrite(self._descriptor, data, 0)
        if self._size > len(data):
            os.ftruncate(self._descriptor, len(data))
        self._size = len(data)

    def restore(self) -> None:
        """Create the files again."""
        os.close(self._descriptor)
        self._descriptor = -1
        self._write()

    def close(self) -> None:
        """Remove everything."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        shutil.rmtree(self.path, ignore_errors=True)

    def _write(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        for name, text in self._files.items():
            Path(self.path, name).write_text(text, encoding="utf-8")
        command = f"{self.path}/{integration.COMMAND_FILE}"
        self._descriptor = os.open(command, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        if self._group is not None:
            for path in (self.startup, self.hooks, command, self.path):
                os.chown(path, -1, self._group)
                os.chmod(path, 0o750 if path == self.path else 0o640)
