"""What a hub leaves on disk: its key, its address for programs of the same user, and the windows it knows.

Everything here blocks, and nothing here can be read by other users.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import stat
from pathlib import Path

import msgspec

from glovebox import state_files
from glovebox.errors import StartupError
from glovebox.hub.registry import Remembered
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message

log = logging.getLogger(__name__)

_FILES = ("key", "key.part", "address.json", "address.json.part", "windows.json", "windows.json.new")
_KINDS = dict.fromkeys(_FILES, stat.S_IFREG)
#: What may be a key; anything shorter is what is left of one.
_KEY = re.compile(r"[!-~]{32,}")


class Announced(Message):
    """Where a hub is, and what opens it."""

    url: str
    key: str
    pid: int


_decode_announced = json_decoder(Announced).decode
_decode_windows = json_decoder(list[Remembered]).decode


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
            self._lock = state_files.lock_directory(path)
        except BlockingIOError:
            raise StartupError(self._taken()) from None
        except OSError as error:
            raise StartupError(f"The hub cannot keep its state in {path}: {error.strerror}.") from error
        state_files.inspect_directory(path, path, _KINDS)

    @property
    def address_file(self) -> Path:
        return self._path / "address.json"

    def close(self) -> None:
        os.close(self._lock)

    def key(self) -> str:
        """The key of this directory, made up when it is first needed.

        Raises:
            StartupError: it cannot be written.
        """
        path = self._path / "key"
        if kept := self._kept_key(str(path)):
            return kept
        made = secrets.token_hex(32)
        try:
            _write(path, f"{made}\n".encode())
        except OSError as error:
            raise StartupError(f"The hub cannot keep its key in {path}: {error.strerror}.") from error
        return made

    def _kept_key(self, path: str) -> str | None:
        wrong = "it is no key"
        try:
            kept = state_files.read_file(path).decode("ascii", "replace").strip()
            if _KEY.fullmatch(kept):
                return kept
        except FileNotFoundError:
            return None
        except OSError as error:
            wrong = str(error)
        state_files.set_aside(path, str(self._path), wrong)
        return None

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
        path = str(self._path / "windows.json")
        return state_files.read_document(path, str(self._path), _decode_windows) or []

    def keep(self, windows: list[Remembered]) -> None:
        path = self._path / "windows.json"
        try:
            state_files.write_document(str(path), msgspec.json.encode(windows))
        except OSError as error:
            log.warning("The next hub will not know the windows; %s cannot be written: %s", path, error)

    def _announced(self) -> Announced | None:
        try:
            return _decode_announced(state_files.read_file(str(self.address_file)))
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
