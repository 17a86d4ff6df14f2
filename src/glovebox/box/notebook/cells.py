"""Cells: their outputs and states, and the newest of them in bounded memory."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from glovebox.box.executor import Call
from glovebox.box.notebook.messages import ObservedOutput, is_rich, size_of
from glovebox.errors import NoSuchCell
from glovebox.protocol.events import ActionDisplay, CellState
from glovebox.protocol.notebook import CellInfo, CellOutput, CellRecord, CellStateName, CellStatus

#: Longer text is published in pieces, so that readers of events can keep up.
PIECE = 256_000


class Cell:
    """A cell, from its acceptance on; it takes late output too."""

    def __init__(self, call: Call, kernel: str, records: CellLogs, cwd: str = "") -> None:
        """`cwd`: the directory that the kernel follows, if it is not that of the main shell."""
        self.id = call.id
        self.kernel = kernel
        self.cwd = cwd
        #: Notes about the kernel, shown below the output.
        self.notes: list[str] = []
        #: It was interrupted, by a caller or by its time limit.
        self.interrupted = False
        #: Its action was answered: further output is late.
        self.answered = False
        #: Done when the kernel has sent all its messages.
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status: CellStatus | None = None
        self._call = call
        self._output = ObservedOutput()
        self._records = records
        self._state: CellStateName = "waiting"
        self._error: str | None = None
        self._message: str | None = None
        self._accepted = time.time()
        self._started: float | None = None
        self._ended: float | None = None
        self._bytes = 0
        records.begin(self.id, self.info)

    def info(self) -> CellInfo:
        return CellInfo(
            id=self.id,
            kernel=self.kernel,
            state=self._state,
            status=self.status,
            error=self._error,
            message=self._message,
            accepted=self._accepted,
            started=self._started,
            ended=self._ended,
            output_bytes=self._bytes,
        )

    @property
    def started(self) -> bool:
        """Whether the kernel has got it."""
        return self._started is not None

    def waits(self) -> None:
        """It has to wait for its turn."""
        self._publish()

    def starts(self) -> None:
        self._state, self._started = "running", time.time()
        self._publish()

    def ends(self, status: CellStatus, error: str | None = None, message: str | None = None) -> None:
        """It ended; only the first call counts."""
        if self._state != "ended":
            self._state, self._ended = "ended", time.time()
            self.status, self._error, self._message = status, error, message
            self._publish()

    def answer(self) -> ObservedOutput:
        """The output so far; what follows is late."""
        output, self._output = self._output, ObservedOutput()
        self.answered = True
        return output

    async def take(self, output: CellOutput) -> None:
        self._records.add(self.id, output)
        if not self.answered:
            self._output.add(output)
        ascii_only = output.text.isascii()
        self._bytes += len(output.text if ascii_only else output.text.encode("utf-8", "replace"))
        for begin in range(0, len(output.text), PIECE):
            if begin:
                await asyncio.sleep(0)
            self._call.output(output.text[begin : begin + PIECE])
        if is_rich(output):
            self._call.tell(
                ActionDisplay,
                kind=output.kind,
                data=output.data,
                metadata=output.metadata,
                display_id=output.display_id,
            )

    def _publish(self) -> None:
        self._call.tell(CellState, cell=self.info())


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
        """Keep an output, if there is room; returns its size."""
        size = size_of(output)
        if self.size + size > MOST_BYTES_OF_ONE:
            self.dropped += size
            return 0
        self.outputs.append(output)
        self.size += size
        return size

    def record(self) -> CellRecord:
        return CellRecord(cell=self._info(), outputs=list(self.outputs), dropped_bytes=self.dropped)


class CellLogs:
    """The newest cells of all kernels."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, CellLog] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """About how many bytes are in memory."""
        return self._size

    def begin(self, cell_id: str, info: Callable[[], CellInfo]) -> None:
        """Keep the outputs of a new cell."""
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
        cell = self._records.get(cell_id)
        record = cell.record() if cell else None
        if record is None or record.cell.kernel != kernel:
            raise NoSuchCell(
                f"Kernel {kernel!r} has no cell {cell_id!r}, or it is so old that it is forgotten."
            )
        return record

    def _shrink(self) -> None:
        while len(self._records) > MOST_CELLS or (self._size > MOST_BYTES and len(self._records) > 1):
            self._forget(next(iter(self._records)))

    def _forget(self, cell_id: str) -> None:
        if record := self._records.pop(cell_id, None):
            self._size -= record.size
