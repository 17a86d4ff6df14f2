"""The state directory of a terminal: logs, journals, and the socket and secret of the holder."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Collection

from glovebox import state_files
from glovebox.box.terminal.holder.listener import SECRET, SOCKET
from glovebox.box.terminal.holder.log import find_segments
from glovebox.box.terminal.holder.main import ERROR_LOG, TMUX_SOCKET
from glovebox.errors import StartupError

_SESSIONS = "sessions"
_KEPT = "kept"
_PROGRAMS = "programs"
#: The kinds of known files, here and in the directory of a session or a process. Others are left alone.
_KINDS = {
    **dict.fromkeys(("answers", "answers.old", "answers.new", ERROR_LOG, SECRET), stat.S_IFREG),
    **dict.fromkeys((_SESSIONS, _KEPT, _PROGRAMS, state_files.DAMAGED), stat.S_IFDIR),
    **dict.fromkeys((SOCKET, TMUX_SOCKET), stat.S_IFSOCK),
}
_KINDS_OF_ONE = {
    **dict.fromkeys(("journal", "journal.new", "process.json", "process.json.new"), stat.S_IFREG),
    "log": stat.S_IFDIR,
}
#: Names of sessions, and of processes of other plugins.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class StateDirectory:
    """A private directory that one server uses at a time. Everything here blocks.

    Without a path it is a temporary one that is removed with the box.
    """

    def __init__(self, path: str | None) -> None:
        """Open it. Unusable files in it are moved to the damaged files.

        Raises:
            StartupError: it cannot be made, belongs to another user, or another server uses it.
        """
        self.persistent = path is not None
        try:
            self.path = os.path.abspath(path) if path else tempfile.mkdtemp(prefix="glovebox-state-")
            os.makedirs(self.path, 0o700, exist_ok=True)
            _check_owner(self.path)
            os.chmod(self.path, 0o700)
            self.lock = state_files.lock_directory(self.path)
        except BlockingIOError as error:
            raise StartupError(
                f"Another box uses the state directory {self.path}. Stop it, or choose another --state-dir."
            ) from error
        except OSError as error:
            raise StartupError(f"The state directory {path} cannot be used: {error}") from error
        try:
            self._inspect()
            self._make(_SESSIONS)
        except OSError as error:
            os.close(self.lock)
            raise StartupError(f"The state directory {path} cannot be used: {error}") from error

    @property
    def damaged(self) -> bool:
        """Whether something in it was damaged, now or earlier."""
        return bool(state_files.damaged_files(self.path))

    def session(self, name: str) -> str:
        """The directory of a session, made if missing."""
        return self._make(_SESSIONS, name)

    def sessions(self) -> list[str]:
        try:
            return sorted(os.listdir(os.path.join(self.path, _SESSIONS)))
        except FileNotFoundError:
            return []

    def forget(self, name: str) -> None:
        shutil.rmtree(os.path.join(self.path, _SESSIONS, name), ignore_errors=True)

    def discard(self, name: str, why: str) -> None:
        """Move the directory of a session to the damaged files, or remove it if it is empty."""
        path = os.path.join(self.path, _SESSIONS, name)
        if os.listdir(path):
            state_files.set_aside(path, self.path, why)
        else:
            self.forget(name)

    def kept(self, name: str) -> str:
        """The directory of a process of another plugin, made if missing."""
        return self._make(_KEPT, name)

    @property
    def programs(self) -> str:
        """The directory of the logs of programs without a session; the holder makes it."""
        return os.path.join(self.path, _PROGRAMS)

    def forget_programs(self, but: Collection[str] = ()) -> None:
        """Remove the logs of programs, except some."""
        with contextlib.suppress(FileNotFoundError):
            for name in set(os.listdir(self.programs)) - set(but):
                shutil.rmtree(os.path.join(self.programs, name), ignore_errors=True)

    def _make(self, *names: str) -> str:
        path = os.path.join(self.path, *names)
        os.makedirs(path, 0o700, exist_ok=True)
        return path

    def forget_kept(self, name: str) -> None:
        shutil.rmtree(os.path.join(self.path, _KEPT, name), ignore_errors=True)

    def close(self) -> None:
        """Unlock it; a temporary one is removed."""
        if not self.persistent:
            shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self.lock)

    def _inspect(self) -> None:
        """Move files of the wrong kind or owner to the damaged files."""
        state_files.inspect_directory(self.path, self.path, _KINDS)
        for parent in (_SESSIONS, _KEPT):
            parent = os.path.join(self.path, parent)
            if os.path.isdir(parent):
                self._inspect_owners(parent)

    def _inspect_owners(self, parent: str) -> None:
        for entry in list(os.scandir(parent)):
            wrong = state_files.problem_of(entry.stat(follow_symlinks=False), kind=stat.S_IFDIR)
            if wrong or not _NAME.fullmatch(entry.name):
                state_files.set_aside(entry.path, self.path, wrong or "nothing of ours has such a name")
                continue
            os.chmod(entry.path, 0o700)
            state_files.inspect_directory(entry.path, self.path, _KINDS_OF_ONE)
            log = os.path.join(entry.path, "log")
            if os.path.isdir(log):
                known = {path for _, path, _ in find_segments(log)}
                for stray in {one.path for one in os.scandir(log)} - known:
                    state_files.set_aside(stray, self.path, "it is no part of the log")


def _check_owner(path: str) -> None:
    owner = os.stat(path).st_uid
    if owner != os.geteuid():
        raise StartupError(
            f"The state directory {path} belongs to user {owner}, who could change what servers read there. "
            "Give it to the user of the server (chown), or choose another --state-dir."
        )
