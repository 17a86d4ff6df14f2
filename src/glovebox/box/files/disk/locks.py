"""One lock per path, for as long as somebody holds or wants it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class PathLocks:
    """Lets one thread at a time change a file. The table holds only paths in use."""

    def __init__(self) -> None:
        self._table: dict[str, tuple[threading.Lock, int]] = {}
        self._guard = threading.Lock()

    @contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Keep every other holder of the same (real) path waiting."""
        with self._guard:
            lock, wanted = self._table.get(path) or (threading.Lock(), 0)
            self._table[path] = (lock, wanted + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                wanted = self._table[path][1] - 1
                if wanted:
                    self._table[path] = (lock, wanted)
                else:
                    del self._table[path]

    def __len__(self) -> int:
        return len(self._table)
