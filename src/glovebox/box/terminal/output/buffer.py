"""How much of a command's output is kept in memory while it runs, and shown in the contract's answer."""

from __future__ import annotations

from collections import deque

import msgspec

#: The contract's terminal: lines above the screen, lines and columns on it.
HISTORY = 10_000
ROWS = 1_000
COLUMNS = 1_000
#: Lines its prompt takes before the output of a command (with the typed command) and after it.
_LINES_BEFORE = 12
_LINES_AFTER = 11

_KEEP_LINES = HISTORY + ROWS
_KEEP_BYTES = 4_000_000
_KEEP_HEAD = 65_536
_PIECE = 65_536


class RetainedOutput(msgspec.Struct, frozen=True):
    """The newest bytes of an output, and figures of those before them."""

    data: bytes
    #: The very first bytes, if they are not part of `data`.
    head: bytes = b""
    dropped_bytes: int = 0
    dropped_lines: int = 0


class OutputBuffer:
    """The output of a command in bounded memory: as many lines as the contract's terminal could show.

    Of longer lines fewer are kept. The beginning of the output is always kept.
    """

    def __init__(self, keep_lines: int = _KEEP_LINES, keep_bytes: int = _KEEP_BYTES) -> None:
        self._keep_lines = keep_lines
        self._keep_bytes = keep_bytes
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._open = bytearray()
        self._lines = 0
        self._bytes = 0
        self._head = b""
        self._dropped_bytes = 0
        self._dropped_lines = 0

    def __len__(self) -> int:
        return self._bytes

    def append(self, data: bytes) -> None:
        """Add output; the oldest is dropped if necessary."""
        self._open += data
        self._bytes += len(data)
        if len(self._open) < _PIECE:
            return
        piece = bytes(self._open)
        lines = piece.count(b"\n")
        self._open.clear()
        self._pieces.append((piece, lines))
        self._lines += lines
        while len(self._pieces) > 1 and (
            self._lines - self._pieces[0][1] > self._keep_lines or self._bytes > self._keep_bytes
        ):
            self._drop()

    def peek(self) -> bytes:
        return b"".join([*(piece for piece, _ in self._pieces), self._open])

    def take(self) -> RetainedOutput:
        """Return everything that is kept, and start over."""
        kept = RetainedOutput(self.peek(), self._head, self._dropped_bytes, self._dropped_lines)
        self._pieces.clear()
        self._open.clear()
        self._head = b""
        self._lines = self._bytes = self._dropped_bytes = self._dropped_lines = 0
        return kept

    def put_back(self, data: bytes) -> None:
        """Put the end of taken output before everything that came since."""
        newer = self.take()
        self.append(data + newer.data)

    def _drop(self) -> None:
        oldest, lines = self._pieces.popleft()
        self._bytes -= len(oldest)
        self._lines -= lines
        if not lines and b"\r" in oldest:
            return  # a line that is overwritten again and again: nothing of this piece is visible
        if not self._dropped_bytes:
            self._head = oldest[:_KEEP_HEAD]
        self._dropped_bytes += len(oldest)
        self._dropped_lines += lines


def surviving(lines: list[str], rows_before: int, *, completed: bool) -> list[str] | None:
    """The lines that the contract's terminal would still have, or `None` if it has all of them.

    It keeps 10,000 lines above the screen and, when these are full, forgets the oldest 1,000 at once.
    `rows_before` were printed before `lines`.
    """
    heights = [max(1, -(-len(line) // COLUMNS)) for line in lines]
    total = _LINES_BEFORE + rows_before + sum(heights) + (_LINES_AFTER if completed else 0)
    scrolled = total - ROWS
    if scrolled <= HISTORY:
        return None
    batch = HISTORY // 10
    above = HISTORY - batch + 1 + (scrolled - HISTORY - 1) % batch
    excess = scrolled - above - _LINES_BEFORE - rows_before
    index = 0
    while index < len(lines) - 1 and excess >= heights[index]:
        excess -= heights[index]
        index += 1
    if excess > 0:
        return [lines[index][excess * COLUMNS :], *lines[index + 1 :]]
    return lines[index:]
