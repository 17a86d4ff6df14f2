"""Everything a terminal printed, on disk, at absolute offsets."""

from __future__ import annotations

import os
import stat

#: How many files a log consists of at most; the oldest is removed.
_PARTS = 8
#: When the disk is full, the log continues in memory, with at most so much.
_MEMORY_SEGMENT = 1 << 20
_MEMORY_SEGMENTS = 4
_LARGEST_OFFSET = 1 << 62


def segment_name(offset: int) -> str:
    """The name of the file whose first byte is at that offset."""
    return f"{offset:020d}"


def find_segments(directory: str) -> list[tuple[int, str, int]]:
    """Offset, path and size of each file of a log, in order; other files are ignored."""
    found: list[tuple[int, str, int]] = []
    for name in sorted(os.listdir(directory)):
        if not (name.isascii() and name.isdigit() and name == segment_name(int(name))):
            continue
        path = os.path.join(directory, name)
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode) and int(name) + status.st_size < _LARGEST_OFFSET:
            found.append((int(name), path, status.st_size))
    return found


class Log:
    """Appends to files that are named by the offset of their first byte, and removes the oldest.

    It continues the log of an earlier shell of the same session. A full or broken disk must not stop the
    shell, with which a user may want to clean up: the log then continues in memory, in files without a name
    that the server opens through this process.
    """

    def __init__(self, directory: str, keep: int, *, continued: bool = True) -> None:
        """Without `continued`, the directory is made with the first byte."""
        self.directory = directory
        self._segment_size = max(1 << 16, keep // _PARTS)
        #: Offset and path of each file, the oldest first.
        self.segments: list[tuple[int, str]] = []
        self.end = 0
        self._descriptor = -1
        self._in_memory: list[int] = []
        if not continued:
            return
        os.makedirs(directory, 0o700, exist_ok=True)
        for start, path, size in find_segments(directory):
            self.segments.append((start, path))
            self.end = start + size

    def append(self, data: bytes | memoryview) -> list[tuple[int, str]]:
        """Add bytes; returns the new files."""
        view = memoryview(data)
        before = self.segments[-1][0] if self.segments else -1
        while view:
            if self._descriptor < 0 or self._room() <= 0:
                self._begin()
            try:
                written = os.write(self._descriptor, view[: self._room()])
            except OSError:
                if self._descriptor in self._in_memory:
                    written = len(view)  # lost, as there is no memory either
                    self.end += written
                    self._begin(in_memory=True)
                    break
                self._begin(in_memory=True)
                continue
            self.end += written
            view = view[written:]
        return [segment for segment in self.segments if segment[0] > before]

    def check(self) -> None:
        """Begin a new file if the current one was changed or moved by another program."""
        if self._descriptor < 0 or self._descriptor in self._in_memory:
            return
        start, path = self.segments[-1]
        try:
            named = os.lstat(path).st_ino
        except OSError:
            named = -1
        status = os.fstat(self._descriptor)
        if (named, self.end - start) != (status.st_ino, status.st_size):
            self._begin()

    @property
    def closable(self) -> bool:
        """Whether everything can be read when it is closed: memory is freed then."""
        return not self._in_memory

    def close(self) -> None:
        for descriptor in {*self._in_memory, self._descriptor} - {-1}:
            os.close(descriptor)
        self._descriptor, self._in_memory = -1, []

    def _room(self) -> int:
        limit = _MEMORY_SEGMENT if self._descriptor in self._in_memory else self._segment_size
        return self.segments[-1][0] + limit - self.end

    def _begin(self, *, in_memory: bool = False) -> None:
        if self._descriptor >= 0 and self._descriptor not in self._in_memory:
            os.close(self._descriptor)
        if self.segments and self.segments[-1][0] == self.end:
            _unlink(self.segments.pop()[1])  # it stayed empty
        path = os.path.join(self.directory, segment_name(self.end))
        if not in_memory:
            try:
                if not self.segments:
                    os.makedirs(self.directory, 0o700, exist_ok=True)
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            except OSError:
                in_memory = True
        if in_memory:
            self._descriptor = os.memfd_create("glovebox-log")
            self._in_memory.append(self._descriptor)
            path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        self.segments.append((self.end, path))
        while len(self.segments) > _PARTS:
            _unlink(self.segments.pop(0)[1])
        while len(self._in_memory) > _MEMORY_SEGMENTS:
            os.close(self._in_memory.pop(0))


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # gone already, or a file in memory, which has no name
        pass
