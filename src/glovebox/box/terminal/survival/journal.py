"""The journal of a session, from which a restarted server restores it: one line per event."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Annotated

import msgspec

from glovebox.box.terminal.commands import KEEP
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.threads import Threads
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.protocol.terminal import Bill, Limits
from glovebox.state_files import LineFile, decode_lines, read_file, read_lines

#: A larger journal is rewritten without the commands that are no longer kept.
COMPACT_BYTES = 4_000_000
#: Longer commands are cut in the journal; the shell has its own copy.
_LONGEST_COMMAND = 10_000

#: An offset in a log.
Offset = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
#: Rows or columns of a terminal.
Cells = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class JournalEntry(Message, tag_field="what"):
    """An event of a session."""


class Opened(JournalEntry, tag="opened"):
    """The session was opened."""

    name: str
    created: float
    cwd: str
    rows: Cells
    columns: Cells
    limits: Limits = Limits()
    #: The session ends with its command.
    static: bool = False


class Resized(JournalEntry, tag="resized"):
    """The size of the terminal was changed."""

    rows: Cells
    columns: Cells


class ShellIdentity(Message):
    """What the next server needs to use a shell."""

    #: The terminal's number.
    number: int
    session_token: str
    start_token: str
    #: The directory with the command file.
    directory: str
    #: Where in the log it begins.
    position: int
    #: Whether its end marks can be distinguished from those of other programs.
    signs: bool = True


class ShellStarted(JournalEntry, tag="shell"):
    """The session has a new shell."""

    identity: ShellIdentity


class Began(JournalEntry, tag="began"):
    """A command is about to be typed, as the input of that number."""

    id: str
    token: str
    input_number: int
    position: Offset
    command: str
    started: float


class Sent(JournalEntry, tag="sent"):
    """An action is about to give input to the running command."""

    action_id: str
    input_number: int


class Reported(JournalEntry, tag="reported"):
    """An action was answered with output up to `size` while the command ran on."""

    id: str
    action_id: str
    before: Offset
    size: Offset


class Ended(JournalEntry, tag="ended"):
    """A command ended."""

    id: str
    #: The output in the log: offsets and lengths.
    extents: list[tuple[Offset, Offset]]
    ended: float
    #: None if the shell itself ended.
    report: EndReport | None
    #: The status of a shell that ended.
    status: int | None
    bill: Bill
    limit: str | None = None
    oom: str | None = None


class Answered(JournalEntry, tag="answered"):
    """An action was answered with the end of a command."""

    id: str
    action_id: str


Entry = Opened | Resized | ShellStarted | Began | Sent | Reported | Ended | Answered

_encoder = msgspec.json.Encoder()
_decode = json_decoder(Entry).decode


class Journal:
    """Appends to a file, or nowhere. `append` returns when the kernel has the line."""

    def __init__(self, path: str | None) -> None:
        self._file = LineFile(path) if path is not None else None
        #: Lines that were appended during a rewrite.
        self._late: list[bytes] | None = None

    @property
    def overgrown(self) -> bool:
        return self._file is not None and self._file.size > COMPACT_BYTES and self._late is None

    def append(self, entry: Entry) -> None:
        """Add a line. On a full disk it is lost, which matters after a restart only."""
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
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.replace(map(_encode, entries))

    async def compact(self, summarize: Callable[[list[Entry]], list[Entry]], threads: Threads) -> None:
        """Rewrite it as `summarize` says, while others go on appending."""
        if self._file is None or self._late is not None:
            return
        file, size, self._late = self._file, self._file.size, []

        def prepare() -> LineFile:
            entries, _ = decode_lines(read_file(file.path)[:size], _decode)
            return file.prepare(map(_encode, summarize(entries)))

        try:
            file.become(await threads.run(prepare), self._late)
        except OSError:  # it stays as it is
            pass
        finally:
            self._late = None

    def close(self) -> None:
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


class Story(msgspec.Struct):
    """The history of a session, read from its journal."""

    opened: Opened
    identity: ShellIdentity | None = None
    began: dict[str, Began] = msgspec.field(default_factory=dict)
    ended: dict[str, Ended] = msgspec.field(default_factory=dict)
    #: By command, the action that was answered with its end.
    answered: dict[str, str] = msgspec.field(default_factory=dict)
    #: By command, the last partial report.
    reported: dict[str, Reported] = msgspec.field(default_factory=dict)
    sent: list[Sent] = msgspec.field(default_factory=list)
    #: The last command that the present shell was given.
    last: Began | None = None

    @property
    def cwd(self) -> str:
        reports = [entry.report for entry in self.ended.values() if entry.report]
        return next(
            (report.working_dir for report in reversed(reports) if report.working_dir), self.opened.cwd
        )

    @property
    def log_end(self) -> int:
        ends = [start + length for entry in self.ended.values() for start, length in entry.extents]
        shells = [self.identity.position] if self.identity else []
        return max([0, *ends, *shells, *(entry.position for entry in self.began.values())])

    def entries(self, keep: int) -> list[Entry]:
        """The shortest journal of this history, with the newest `keep` commands."""
        entries: list[Entry] = [self.opened]
        if self.identity is not None:
            entries.append(ShellStarted(identity=self.identity))
        for began in list(self.began.values())[-keep:]:
            entries.append(began)
            if began.id in self.reported:
                entries.append(self.reported[began.id])
            if began.id in self.ended:
                entries.append(self.ended[began.id])
            if began.id in self.answered:
                entries.append(Answered(id=began.id, action_id=self.answered[began.id]))
        return entries + list(self.sent)


def read_story(entries: list[Entry]) -> Story | None:
    """The history of a session; None for a journal that does not begin with its opening."""
    if not entries or not isinstance(entries[0], Opened):
        return None
    story = Story(entries[0])
    for entry in entries[1:]:
        match entry:
            case ShellStarted():
                story.identity, story.last = entry.identity, None
            case Began():
                story.began[entry.id] = story.last = entry
                story.sent.clear()
            case Sent():
                story.sent.append(entry)
            case Reported():
                story.reported[entry.id] = entry
            case Ended():
                story.ended[entry.id] = entry
            case Answered():
                story.answered[entry.id] = entry.action_id
            case Resized():
                story.opened = msgspec.structs.replace(story.opened, rows=entry.rows, columns=entry.columns)
            case Opened():
                story.opened = entry
    return story


def summarize(entries: list[Entry]) -> list[Entry]:
    """The shortest journal with the commands that are kept."""
    story = read_story(entries)
    return story.entries(KEEP) if story else entries
