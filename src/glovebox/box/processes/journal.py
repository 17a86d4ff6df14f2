"""Which idempotency keys have started which processes: the next server knows, even without the holder."""

from __future__ import annotations

import asyncio
import logging
import os
import time

import msgspec

from glovebox.box.processes.request import ProcessRecord
from glovebox.box.services import ProgramResult
from glovebox.errors import OutputGone, ProcessEnded
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.state_files import LineFile, read_lines

log = logging.getLogger(__name__)

#: The name of the file in the state directory.
FILE = "processes"
#: A larger file is written anew, without what is forgotten.
_LARGEST = 8 << 20
_LOST = "The box was restarted, and the process is gone."


class JournalLine(Message, omit_defaults=True):
    """A process with a key is about to start, has ended, or is forgotten."""

    record: ProcessRecord
    result: ProgramResult | None = None
    #: What it had printed to each stream.
    sizes: tuple[int, int] = (0, 0)
    forgotten: bool = False


_decode = json_decoder(JournalLine).decode


class ProcessJournal:
    """A line for every change of a process that has an idempotency key. Without a path, there is no file."""

    def __init__(self, path: str | None) -> None:
        self._file = LineFile(path) if path else None
        self._lines: dict[str, JournalLine] = {}

    def load(self) -> list[JournalLine]:
        """What an earlier server wrote of processes that are not forgotten. Blocks."""
        if self._file is None:
            return []
        for line in read_lines(self._file.path, os.path.dirname(self._file.path), _decode):
            self._remember(line)
        if self._lines:
            self._rewrite(self._file)
        return list(self._lines.values())

    def write(self, line: JournalLine) -> None:
        """Add a line, unless the process has no key."""
        if self._file is None or not line.record.key:
            return
        self._remember(line)
        try:
            self._file.append(msgspec.json.encode(line))
        except OSError as error:
            log.warning("A process will not be known after a restart: %s", error)
        if self._file.size > _LARGEST:
            self._rewrite(self._file)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _remember(self, line: JournalLine) -> None:
        if line.forgotten:
            self._lines.pop(line.record.id, None)
        else:
            self._lines[line.record.id] = line

    def _rewrite(self, file: LineFile) -> None:
        try:
            file.replace(msgspec.json.encode(line) for line in self._lines.values())
        except OSError as error:
            log.warning("The journal of processes cannot be written: %s", error)


class PastProgram:
    """A program of which nothing is left but its line in the journal."""

    def __init__(self, line: JournalLine) -> None:
        self.label = ""
        self.pid = 0
        self.sizes = line.sizes
        self.result: ProgramResult | None = line.result or ProgramResult(
            code=None, signal=0, reason="lost", detail=_LOST, ended=time.time(), cpu_seconds=None,
            peak_memory=None,
        )  # fmt: skip
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended.set_result(None)
        self.stdin_taken = self.stdin_waiting = 0
        self.stdin_open = False

    async def changed(self) -> None:
        """Return at once: it has ended."""

    async def read(self, stream: int, offset: int, limit: int) -> bytes:
        raise OutputGone("The output of this process was lost with the process that held it.")

    def oldest(self, stream: int) -> int:
        return self.sizes[stream]

    def following(self, stream: int, offset: int) -> int:
        return self.sizes[stream]

    def write(self, data: bytes) -> None:
        raise ProcessEnded("The process has ended.")

    def close_stdin(self) -> None: ...

    def signal(self, number: int, reason: str = "", detail: str = "") -> None: ...

    def resize(self, rows: int, columns: int) -> None: ...

    async def close(self) -> None: ...

    def forget(self) -> None: ...
