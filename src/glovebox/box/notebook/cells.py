"""One cell: what it gives out, whom that is told, and how it ends."""

from __future__ import annotations

import asyncio
import time

from glovebox.box.executor import Call
from glovebox.box.notebook.messages import Gathered, is_rich
from glovebox.box.notebook.records import CellLogs
from glovebox.protocol.events import ActionDisplay, CellState
from glovebox.protocol.notebook import CellInfo, CellOutput, CellStateName, CellStatus

#: Longer text is told in pieces, so that whoever listens can keep up.
PIECE = 256_000


class Cell:
    """A cell, from its acceptance on; late output finds it here too."""

    def __init__(self, call: Call, kernel: str, records: CellLogs) -> None:
        self.id = call.id
        self.kernel = kernel
        #: What to say of the kernel, below what the cell gave out.
        self.notes: list[str] = []
        #: Somebody wants it to stop.
        self.interrupted = False
        #: Nobody waits for it any more: what comes is late.
        self.answered = False
        #: Everything it caused has been told by the kernel.
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status: CellStatus | None = None
        self._call = call
        self._gathered = Gathered()
        self._records = records
        self._state: CellStateName = "waiting"
        self._error: str | None = None
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
        self._tell()

    def starts(self) -> None:
        self._state, self._started = "running", time.time()
        self._tell()

    def ends(self, status: CellStatus, error: str | None = None) -> None:
        """It came to an end; the first one counts."""
        if self._state != "ended":
            self._state, self._ended = "ended", time.time()
            self.status, self._error = status, error
            self._tell()

    def answer(self) -> Gathered:
        """What it gave out up to now; whatever follows is late."""
        gathered, self._gathered = self._gathered, Gathered()
        self.answered = True
        return gathered

    async def take(self, output: CellOutput) -> None:
        self._records.add(self.id, output)
        if not self.answered:
            self._gathered.add(output)
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

    def _tell(self) -> None:
        self._call.tell(CellState, cell=self.info())
