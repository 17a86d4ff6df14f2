"""What commands of a window have printed, for those who ask later."""

from __future__ import annotations

import threading

from glovebox.box.terminal.output.log import PIECE, LogFiles
from glovebox.errors import OutputGone

#: How much raw output is kept for each session.
KEEP = 16 << 20
#: Room is made for so much at a time.
_SLACK = 1 << 20
_GONE = "This part of the output is not kept any more; ask for a later offset."


class MemoryLog(LogFiles):
    """The newest output in memory, by absolute offset. Any thread may read."""

    def __init__(self, keep: int = KEEP) -> None:
        super().__init__("")
        self._keep = keep
        self._data = bytearray()
        self._begin = 0
        self._guard = threading.Lock()

    @property
    def begin(self) -> int:
        """The first offset that is kept."""
        return self._begin

    def append(self, data: bytes) -> int:
        """Add what was printed; where it is."""
        with self._guard:
            offset = self.end
            self._data += data
            self.end += len(data)
            if len(self._data) > self._keep + _SLACK:
                del self._data[: -self._keep]
                self._begin = self.end - self._keep
        return offset

    def fetch(self, offset: int, limit: int = PIECE) -> bytes:
        """Bytes from `offset` on; empty at the end.

        Raises:
            OutputGone: they are not kept any more.
        """
        with self._guard:
            at = offset - self._begin
            if at < 0:
                raise OutputGone(_GONE)
            return bytes(self._data[at : at + limit])
