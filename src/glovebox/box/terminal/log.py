"""Reading what the holder wrote: the raw output of a session, by absolute offset."""

from __future__ import annotations

import os

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
        #: Where a shell that comes next goes on.
        self.end = 0

    @classmethod
    def found(cls, directory: str) -> LogFiles:
        """The log of a session whose shell is gone. Blocks."""
        log = cls(directory)
        if os.path.isdir(directory):
            for name in sorted(os.listdir(directory)):
                path = os.path.join(directory, name)
                log.begin_segment(int(name), path)
                log.end = int(name) + os.path.getsize(path)
        return log

    def begin_segment(self, start: int, path: str, oldest: int = 0) -> None:
        """From here on the log is in this file; what is before `oldest` is not kept any more."""
        self._segments = [one for one in self._segments if oldest <= one[0] < start]
        self._segments.append((start, path))
        self._close_newest()

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
        """The same for any number of readers, in any thread. Blocks.

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
                    return os.pread(descriptor, limit, offset - start)
                finally:
                    os.close(descriptor)
        if not segments:
            return b""
        raise OutputGone(_GONE)

    @property
    def begin(self) -> int:
        """The first offset that is kept."""
        return self._segments[0][0] if self._segments else 0

    def close(self) -> None:
        """Let go of the newest file."""
        self._close_newest()

    def _close_newest(self) -> None:
        if self._newest >= 0:
            os.close(self._newest)
            self._newest = -1


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise OutputGone(_GONE) from error
