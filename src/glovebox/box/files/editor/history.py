"""What files were before their last edits, kept on disk."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
from collections import deque

from glovebox.box.credentials import own_rights

log = logging.getLogger(__name__)

#: How many edits of one path can be undone.
DEPTH = 10
#: How much is kept for all paths together; the path that was edited longest ago is forgotten first.
KEEP_BYTES = 512 * 1024 * 1024


class History:
    """Earlier contents by path, newest last, in a private directory of the server that `close` removes."""

    def __init__(self, depth: int = DEPTH, keep_bytes: int = KEEP_BYTES) -> None:
        self._depth = depth
        self._keep_bytes = keep_bytes
        self._entries: dict[str, deque[tuple[str, int]]] = {}  # least recently edited path first
        self._bytes = 0
        self._named = 0
        self._directory: str | None = None
        self._lock = threading.Lock()

    def push(self, path: str, content: bytes) -> None:
        """Remember what the file was."""
        with self._lock, own_rights():
            try:
                entry = self._save(content)
            except OSError as error:
                # An undo that skips a step would be worse than none.
                log.warning("the edit of %s cannot be undone: %s", path, error)
                self._forget(path)
                return
            entries = self._entries.pop(path, None) or deque()
            self._entries[path] = entries
            entries.append((entry, len(content)))
            self._bytes += len(content)
            if len(entries) > self._depth:
                self._drop(entries.popleft())
            while self._bytes > self._keep_bytes and len(self._entries) > 1:
                self._forget(next(iter(self._entries)))

    def last(self, path: str) -> bytes | None:
        """What the file was before its last edit, if that is known."""
        with self._lock, own_rights():
            entries = self._entries.get(path)
            if not entries:
                return None
            try:
                with open(entries[-1][0], "rb") as file:
                    return file.read()
            except OSError as error:
                log.warning("the history of %s is lost: %s", path, error)
                self._forget(path)
                return None

    def drop_last(self, path: str) -> None:
        """Forget the newest content, after it has been restored."""
        with self._lock, own_rights():
            entries = self._entries.get(path)
            if entries:
                self._drop(entries.pop())
                if not entries:
                    del self._entries[path]

    def close(self) -> None:
        with self._lock, own_rights():
            self._entries.clear()
            self._bytes = 0
            if self._directory is not None:
                shutil.rmtree(self._directory, ignore_errors=True)
                self._directory = None

    def _save(self, content: bytes) -> str:
        if self._directory is None or not os.path.isdir(self._directory):
            self._directory = tempfile.mkdtemp(prefix="glovebox-history-")
        self._named += 1
        entry = os.path.join(self._directory, str(self._named))
        try:
            with open(entry, "wb") as file:
                file.write(content)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(entry)
            raise
        return entry

    def _forget(self, path: str) -> None:
        for entry in self._entries.pop(path, ()):
            self._drop(entry)

    def _drop(self, entry: tuple[str, int]) -> None:
        name, size = entry
        self._bytes -= size
        with contextlib.suppress(OSError):
            os.unlink(name)
