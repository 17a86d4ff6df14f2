"""The directory in which a terminal keeps what must survive: logs, journals, the way to the holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile

from glovebox.box.terminal.holder.door import LOCK
from glovebox.errors import StartupError

_SESSIONS = "sessions"
_KEPT = "kept"


class StateDirectory:
    """A private directory that one server uses at a time. Everything here blocks.

    Without a path it is a temporary one that goes away with the box.
    """

    def __init__(self, path: str | None) -> None:
        """Open it.

        Raises:
            StartupError: it cannot be made, or another server uses it.
        """
        self.persistent = path is not None
        try:
            self.path = os.path.abspath(path) if path else tempfile.mkdtemp(prefix="glovebox-state-")
            os.makedirs(os.path.join(self.path, _SESSIONS), 0o700, exist_ok=True)
            os.chmod(self.path, 0o700)
            self.lock = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartupError(f"The state directory {path} cannot be used: {error}") from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self.lock)
            raise StartupError(
                f"Another box uses the state directory {self.path}. Stop it, or choose another --state-dir."
            ) from error

    def session(self, name: str) -> str:
        """The directory of a session, made if missing."""
        path = os.path.join(self.path, _SESSIONS, name)
        os.makedirs(path, 0o700, exist_ok=True)
        return path

    def sessions(self) -> list[str]:
        """The names of all sessions that left something."""
        try:
            return sorted(os.listdir(os.path.join(self.path, _SESSIONS)))
        except FileNotFoundError:
            return []

    def forget(self, name: str) -> None:
        """Remove what a session left."""
        shutil.rmtree(os.path.join(self.path, _SESSIONS, name), ignore_errors=True)

    def kept(self, name: str) -> str:
        """The directory of a process beside the shells, made if missing."""
        path = os.path.join(self.path, _KEPT, name)
        os.makedirs(path, 0o700, exist_ok=True)
        return path

    def forget_kept(self, name: str) -> None:
        """Remove what such a process left."""
        shutil.rmtree(os.path.join(self.path, _KEPT, name), ignore_errors=True)

    def close(self) -> None:
        """Let another server have it; a temporary one is removed."""
        if not self.persistent:
            shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self.lock)
