"""Paths as the contract means them, and files opened so that nothing can make the opener wait."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from types import TracebackType
from typing import Self

#: How much of a file tells whether it is binary.
SAMPLE_SIZE = 1024

#: What is read in one go. Larger files are not held in memory where that can be avoided.
SMALL = 65_536
#: Of those, this much at a time. Other threads wait for as long as it takes to look at it.
CHUNK = 1 << 18
#: `O_NONBLOCK` matters for pipes only: opening one would else wait for a writer that may never come.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class FileError(Exception):
    """A file operation that is answered with an error observation; the text is its content."""

    def __init__(self, content: str, error_id: str = "") -> None:
        super().__init__(content)
        self.error_id = error_id


def normal(path: str) -> str:
    """The path without `.` parts, doubled or trailing slashes; `..` stays, as links may make it matter."""
    if (
        "//" in path
        or "/./" in path
        or path.endswith(("/", "/."))
        or path.startswith("./")
        or path in ("", ".")
    ):
        return str(PurePosixPath(path))
    return path


def resolve(path: str, cwd: str) -> str:
    """The absolute path that `path` means for somebody whose shell is in `cwd`."""
    return normal(path) if path.startswith("/") else normal(f"{cwd.rstrip('/')}/{path}")


class FileSource:
    """An open file to read once: first a sample, then all of it, or parts by its descriptor `fd`.

    Opening never waits, whatever is at the path; look at `status` before reading, since a pipe or a
    device could.
    """

    __slots__ = ("_head", "fd", "status")

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, _READ)
        self.status = os.fstat(self.fd)
        self._head: bytes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def sample(self) -> bytes:
        """The first bytes, enough to judge what kind of file it is."""
        if self._head is None:
            # Files of /proc say they have no size.
            self._head = os.read(self.fd, min(self.status.st_size, SMALL) or SMALL)
        return self._head[:SAMPLE_SIZE]

    def content(self, most: int) -> bytes | None:
        """Everything in the file; None if that is more than `most` bytes."""
        size = self.status.st_size
        if size > most:
            return None
        self.sample()
        assert self._head is not None
        if len(self._head) == size != 0:
            return self._head
        if size and len(data := os.pread(self.fd, size, 0)) == size:
            return data
        parts = [self._head]
        got = len(self._head)
        while part := os.read(self.fd, max(size - got, SMALL)):
            parts.append(part)
            got += len(part)
            if got > most:
                return None
        return parts[0] if len(parts) == 1 else b"".join(parts)


def pieces(file: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of an open file from `start` to `end`, or to where it ends by now."""
    while start < end and (piece := os.pread(file, min(end - start, CHUNK), start)):
        yield piece
        start += len(piece)
