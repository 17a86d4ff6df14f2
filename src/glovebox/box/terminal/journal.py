"""What a session has to remember over a restart of the server: one line per thing that happened."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Annotated

import msgspec

from glovebox.box.terminal.identity import Identity
from glovebox.box.terminal.integration import Report
from glovebox.box.threads import Threads
from glovebox.decoding import json_decoder
from glovebox.protocol.base import Message
from glovebox.protocol.terminal import Bill, Limits
from glovebox.state_files import LineFile, decode_lines, read_file, read_lines

#: A journal that has grown beyond this is written anew, without what is forgotten.
COMPACT_BYTES = 4_000_000
#: Longer commands are not repeated in the journal; the shell has its own copy.
_LONGEST_COMMAND = 10_000

#: A place in a log.
Offset = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
#: Rows or columns of a terminal.
Cells = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class Record(Message, tag_field="what"):
    """Something that happened."""


class Opened(Record, tag="opened"):
    """The session was opened."""

    name: str
    created: float
    cwd: str
    rows: Cells
    columns: Cells
    limits: Limits = Limits()
    #: It ends with its command.
    static: bool = False


class Resized(Record, tag="resized"):
    """The terminal has another size."""

    rows: Cells
    columns: Cells


class ShellStarted(Record, tag="shell"):
    """The session has a new shell."""

    identity: Identity


class Began(Record, tag="began"):
    """A command is about to be typed, as the input of that number."""

    id: str
    token: str
    input_number: int
    position: Offset
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
    before: Offset
    size: Offset


class Ended(Record, tag="ended"):
    """A command ended."""

    id: str
    #: Places in the log: offset and length.
    extents: list[tuple[Offset, Offset]]
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

_encoder = msgspec.json.Encoder()
_decode = json_decoder(Entry).decode


class Journal:
    """Appends to a file, or nowhere. A line is in the hands of the system before `append` returns."""

    def __init__(self, path: str | None) -> None:
        self._file = LineFile(path) if path is not None else None
        #: What is appended while the file is written anew.
        self._late: list[bytes] | None = None

    @property
    def overgrown(self) -> bool:
        """Whether it is time to write it anew."""
        return self._file is not None and self._file.size > COMPACT_BYTES and self._late is None

    def append(self, entry: Entry) -> None:
        """Add a line. A full disk loses what a restart would need, and nothing else."""
        if self._file is None:
            return
        if isinstance(entry, Began) and len(entry.command) > _LONGEST_COMMAND:
            entry = msgspec.structs.replace(entry, command=entry.command[:_LONGEST_COMMAND])
        with contextlib.suppress(OSError):
            body = _encode(entry)
            self._file.append(body)
            if self._late is not None:
                self._late.append(body)

    def rewrite(self, entries: list[Entry]) -> None:
        """Replace everything. Blocks."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.replace(map(_encode, entries))

    async def compact(self, summarize: Callable[[list[Entry]], list[Entry]], threads: Threads) -> None:
        """Write it anew without what is forgotten, while others go on appending."""
        if self._file is None or self._late is not None:
            return
        file, size, self._late = self._file, self._file.size, []

        def prepare() -> LineFile:
            entries, _ = decode_lines(read_file(file.path)[:size], _decode)
            return file.prepare(map(_encode, summarize(entries)))

        try:
            file.become(await threads.run(prepare), self._late)
        except OSError:  # it goes on as it is
            pass
        finally:
            self._late = None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


def load(path: str, root: str) -> list[Entry]:
    """The lines of a journal of the state directory `root`, in order; empty if there is none. Blocks."""
    return read_lines(path, root, _decode)


def _encode(entry: Entry) -> bytes:
    try:
        return _encoder.encode(entry)
    except UnicodeEncodeError:  # a directory whose name is no text
        assert isinstance(entry, Ended)
        assert entry.report is not None
        report = msgspec.structs.replace(entry.report, working_dir="", python="")
        return _encoder.encode(msgspec.structs.replace(entry, report=report))
