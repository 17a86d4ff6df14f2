"""Reads the log of a session that the holder writes: raw output by absolute offset."""

from __future__ import annotations

import os
from collections.abc import Iterator

from glovebox.box.terminal.holder.log import find_segments, segment_name
from glovebox.errors import OutputGone

#: How much is read at a time.
PIECE = 262_144
_GONE = "This part of the output is not kept any more; ask for a later offset."


class LogFiles:
    """The files of a session's log. Reading takes microseconds: the newest output is in memory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._segments: list[tuple[int, str]] = []
        self._newest = -1
        self._newest_start = 0
        #: Where the next shell continues.
        self.end = 0

    @classmethod
    def find(cls, directory: str, known: int = 0) -> LogFiles:
        """The log of a session whose shell has ended. Blocks.

        `known` is the last known end of the log. If the files end before that, new output begins there, so
        that it is never taken for the lost output.
        """
        log = cls(directory)
        if os.path.isdir(directory):
            for start, path, size in find_segments(directory):
                log.begin_segment(start, path)
                log.end = start + size
        if log.end < known:
            path = os.path.join(directory, segment_name(known))
            os.makedirs(directory, 0o700, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            log.begin_segment(known, path)
            log.end = known
        return log

    def begin_segment(self, start: int, path: str, oldest: int = 0) -> None:
        """From `start` on the log is in this file; files before `oldest` are removed."""
        self._segments = [one for one in self._segments if oldest <= one[0] < start]
        self._segments.append((start, path))
        self.close()

    def read(self, offset: int, limit: int = PIECE) -> bytes:
        """Bytes from `offset` on, not beyond the file they are in; empty at the end. For one reader only.

        Raises:
            OutputGone: the log does not reach back so far.
        """
        if self._segments and offset >= self._segments[-1][0]:
            if self._newest < 0:
                self._newest_start, path = self._segments[-1]
                self._newest = _open(path)
            return os.pread(self._newest, limit, offset - self._newest_start)
        return self.fetch(offset, limit)

    def fetch(self, offset: int, limit: int = PIECE) -> bytes:
        """Like `read`, for any number of readers, in any thread. Blocks.

        Raises:
            OutputGone: the log does not reach back so far.
        """
        segments = self._segments
        for index in range(len(segments) - 1, -1, -1):
            start, path = segments[index]
            if start <= offset:
                if index + 1 < len(segments):
                    limit = min(limit, segments[index + 1][0] - offset)
                descriptor = _open(path)
                try:
                    data = os.pread(descriptor, limit, offset - start)
                finally:
                    os.close(descriptor)
                if data or index + 1 == len(segments):
                    return data
                break  # the file is shorter than it was
        if not segments:
            return b""
        raise OutputGone(_GONE)

    def pieces(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Everything from `offset` on, with its offsets, without lost parts. Blocks."""
        while True:
            try:
                data = self.fetch(offset)
                if not data:
                    return
                yield data, offset
                offset += len(data)
            except OutputGone:
                following = self.following(offset)
                if following is None:
                    return
                offset = following

    def following(self, offset: int) -> int | None:
        """Where the first file after `offset` begins."""
        return next((start for start, _ in self._segments if start > offset), None)

    @property
    def begin(self) -> int:
        return self._segments[0][0] if self._segments else 0

    def close(self) -> None:
        if self._newest >= 0:
            os.close(self._newest)
            self._newest = -1


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise OutputGone(_GONE) from error
