"""What a session has to remember over a restart of the server: one line per thing that happened."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from glovebox.box.terminal.identity import Identity
from glovebox.box.terminal.integration import Report
from glovebox.box.threads import Threads
from glovebox.decoding import json_decoder
from glovebox.protocol.base import Message
from glovebox.protocol.terminal import Bill, Limits

#: A journal that has grown beyond this is written anew, without what is forgotten.
COMPACT_BYTES = 4_000_000
#: Longer commands are not repeated in the journal; the shell has its own copy.
_LONGEST_COMMAND = 10_000
#: Non-blocking means nothing for a file; it says that writing in the event loop is meant.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class Record(Message, tag_field="what"):
    """Something that happened."""


class Opened(Record, tag="opened"):
    """The session was opened."""

    name: str
    created: float
    cwd: str
    rows: int
    columns: int
    limits: Limits = Limits()
    #: It ends with its command.
    static: bool = False


class Resized(Record, tag="resized"):
    """The terminal has another size."""

    rows: int
    columns: int


class ShellStarted(Record, tag="shell"):
    """The session has a new shell."""

    identity: Identity


class Began(Record, tag="began"):
    """A command is about to be typed, as the input of that number."""

    id: str
    token: str
    input_number: int
    position: int
    command: str
    started: float


class Sent(Record, tag="sent"):
    """An action is about to give input to the running command."""

    action_id: str
    input_number: int


class Reported(Record, tag="reported"):
    """An action was answered with output up to `size` while the command ran on."""

    id: str
    action_id: str
    before: int
    size: int


class Ended(Record, tag="ended"):
    """A command ended."""

    id: str
    #: Places in the log: offset and length.
    extents: list[tuple[int, int]]
    ended: float
    #: None if the shell itself ended.
    report: Report | None
    #: The status of a shell that ended.
    status: int | None
    bill: Bill
    limit: str | None = None
    oom: str | None = None


class Answered(Record, tag="answered"):
    """An action was answered with the end of a command."""

    id: str
    action_id: str


Entry = Opened | Resized | ShellStarted | Began | Sent | Reported | Ended | Answered


class Journal:
    """Appends to a file, or nowhere. A line is in the hands of the system before `append` returns."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._descriptor = -1
        self._size = 0
        self._encoder = msgspec.json.Encoder()
        #: What is appended while the file is written anew.
        self._late: list[bytes] | None = None

    @property
    def overgrown(self) -> bool:
        """Whether it is time to write it anew."""
        return self._size > COMPACT_BYTES and self._late is None

    def append(self, entry: Entry) -> None:
        """Add a line. A full disk loses what a restart would need, and nothing else."""
        if self._path is None:
            return
        if isinstance(entry, Began) and len(entry.command) > _LONGEST_COMMAND:
            entry = msgspec.structs.replace(entry, command=entry.command[:_LONGEST_COMMAND])
        with contextlib.suppress(OSError):
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, _FLAGS | os.O_CREAT, 0o600)
            line = self._line(entry)
            self._size += os.write(self._descriptor, line)
            if self._late is not None:
                self._late.append(line)

    def rewrite(self, entries: list[Entry]) -> None:
        """Replace everything. Blocks."""
        if self._path is not None and self._prepare(entries):
            self._replace()

    async def compact(self, summarize: Callable[[list[Entry]], list[Entry]], threads: Threads) -> None:
        """Write it anew without what is forgotten, while others go on appending."""
        if self._path is None or self._late is not None:
            return
        self._late = []
        try:
            path = self._path
            if await threads.run(lambda: self._prepare(summarize(load(path)))):
                self._replace()
        finally:
            self._late = None

    def _prepare(self, entries: list[Entry]) -> bool:
        try:
            Path(f"{self._path}.new").write_bytes(b"".join(map(self._line, entries)))
        except OSError:
            return False
        return True

    def _replace(self) -> None:
        """Take the new file, with what came while it was written."""
        assert self._path is not None
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{self._path}.new", _FLAGS)
            os.write(descriptor, b"".join(self._late or []))
            os.replace(f"{self._path}.new", self._path)
            self.close()
            self._descriptor = descriptor
            self._size = os.fstat(descriptor).st_size

    def _line(self, entry: Entry) -> bytes:
        try:
            return self._encoder.encode(entry) + b"\n"
        except UnicodeEncodeError:  # a directory whose name is no text
            assert isinstance(entry, Ended)
            assert entry.report is not None
            report = msgspec.structs.replace(entry.report, working_dir="", python="")
            return self._encoder.encode(msgspec.structs.replace(entry, report=report)) + b"\n"

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def load(path: str) -> list[Entry]:
    """The lines of a journal, in order; empty if there is none. Blocks."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError:
        return []
    decoder = json_decoder(Entry)
    entries: list[Entry] = []
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):  # the last one may be torn
            entries.append(decoder.decode(line))
    return entries
