"""What a hub leaves on disk: its key, its address for programs of the same user, and the windows it knows.

Everything here blocks, and nothing here can be read by other users.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
from pathlib import Path

import msgspec

from glovebox.decoding import decode_json
from glovebox.errors import StartupError
from glovebox.hub.registry import Remembered
from glovebox.protocol.base import Message

log = logging.getLogger(__name__)


class Announced(Message):
    """Where a hub is, and what opens it."""

    url: str
    key: str
    pid: int


class StateDir:
    """A directory of one hub at a time."""

    def __init__(self, path: str) -> None:
        """Take it.

        Raises:
            StartupError: it cannot be used, or another hub uses it.
        """
        self._path = Path(path)
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartupError(f"The hub cannot keep its state in {path}: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StartupError(self._taken()) from None

    @property
    def address_file(self) -> Path:
        """Where the hub says where it is."""
        return self._path / "address.json"

    def close(self) -> None:
        """Let another hub have it."""
        os.close(self._lock)

    def key(self) -> str:
        """The key of this directory, made up when it is first needed.

        Raises:
            StartupError: it cannot be written.
        """
        path = self._path / "key"
        with contextlib.suppress(OSError, UnicodeDecodeError):
            kept = path.read_text(encoding="ascii").strip()
            if kept:
                return kept
        made = secrets.token_hex(32)
        try:
            _write(path, f"{made}\n".encode())
        except OSError as error:
            raise StartupError(f"The hub cannot keep its key in {path}: {error.strerror}.") from error
        return made

    def announce(self, url: str, key: str) -> None:
        """Say where the hub is.

        Raises:
            StartupError: it cannot be written.
        """
        try:
            _write(self.address_file, msgspec.json.encode(Announced(url=url, key=key, pid=os.getpid())))
        except OSError as error:
            raise StartupError(f"The hub cannot write {self.address_file}: {error.strerror}.") from error

    def withdraw(self) -> None:
        """Say so no more, unless it is another hub that does."""
        announced = self._announced()
        if announced is not None and announced.pid == os.getpid():
            with contextlib.suppress(OSError):
                self.address_file.unlink()

    def windows(self) -> list[Remembered]:
        """The windows that an earlier hub knew."""
        path = self._path / "windows.json"
        try:
            return decode_json(path.read_bytes(), list[Remembered])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("The windows of before are forgotten; %s cannot be read: %s", path, error)
            return []

    def keep(self, windows: list[Remembered]) -> None:
        """Have the next hub know these windows."""
        path = self._path / "windows.json"
        try:
            _write(path, msgspec.json.encode(windows))
        except OSError as error:
            log.warning("The next hub will not know the windows; %s cannot be written: %s", path, error)

    def _announced(self) -> Announced | None:
        try:
            return decode_json(self.address_file.read_bytes(), Announced)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _taken(self) -> str:
        other = self._announced()
        where = f" (process {other.pid}, {other.url})" if other else ""
        return (
            f"Another hub keeps its state in {self._path}{where}. One is enough for all windows; give another"
            " --state-dir to have a second one."
        )


def _write(path: Path, data: bytes) -> None:
    """Have a file hold this, for its owner only, all of it or nothing."""
    part = path.with_name(f"{path.name}.part")
    with contextlib.suppress(FileNotFoundError):
        part.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(part, flags, 0o600), "wb") as file:
        file.write(data)
    os.replace(part, path)
