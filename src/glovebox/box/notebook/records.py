"""What the newest cells gave out, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from glovebox.box.notebook.messages import size_of
from glovebox.errors import NoSuchCell
from glovebox.protocol.notebook import CellInfo, CellOutput, CellRecord

MOST_CELLS = 200
MOST_BYTES = 8_000_000
#: One cell must not push out all others.
MOST_BYTES_OF_ONE = 2_000_000


class CellLog:
    """The outputs of one cell."""

    def __init__(self, info: Callable[[], CellInfo]) -> None:
        self._info = info
        self.outputs: list[CellOutput] = []
        self.size = 0
        self.dropped = 0

    def add(self, output: CellOutput) -> int:
        """Keep an output, if there is room; how much it takes."""
        size = size_of(output)
        if self.size + size > MOST_BYTES_OF_ONE:
            self.dropped += size
            return 0
        self.outputs.append(output)
        self.size += size
        return size

    def told(self) -> CellRecord:
        """The cell as it is now."""
        return CellRecord(cell=self._info(), outputs=list(self.outputs), dropped_bytes=self.dropped)


class CellLogs:
    """The newest cells of all kernels."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, CellLog] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """About how many bytes are kept."""
        return self._size

    def begin(self, cell_id: str, info: Callable[[], CellInfo]) -> None:
        """Keep what a cell will give out."""
        self._forget(cell_id)
        self._records[cell_id] = CellLog(info)
        self._shrink()

    def add(self, cell_id: str, output: CellOutput) -> None:
        """Keep an output, unless its cell is forgotten."""
        if record := self._records.get(cell_id):
            self._size += record.add(output)
            self._shrink()

    def get(self, kernel: str, cell_id: str) -> CellRecord:
        """A cell.

        Raises:
            NoSuchCell: there is none of that id, or it is forgotten.
        """
        record = self._records.get(cell_id)
        told = record.told() if record else None
        if told is None or told.cell.kernel != kernel:
            raise NoSuchCell(
                f"Kernel {kernel!r} has no cell {cell_id!r}, or it is so old that it is forgotten."
            )
        return told

    def _shrink(self) -> None:
        while len(self._records) > MOST_CELLS or (self._size > MOST_BYTES and len(self._records) > 1):
            self._forget(next(iter(self._records)))

    def _forget(self, cell_id: str) -> None:
        if record := self._records.pop(cell_id, None):
            self._size -= record.size
