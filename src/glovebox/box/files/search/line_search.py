"""Finds matching lines in a list of files, with ripgrep or without: the outcome is the same."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import errno
import json
import os
import sys
from collections.abc import Sequence

import msgspec

from glovebox.box.credentials import Identity
from glovebox.box.files.search import scan
from glovebox.box.files.search.children import ChildFailed, child, lines
from glovebox.box.files.search.hits import FileHits, MatchedLines
from glovebox.box.files.search.patterns import SearchPattern
from glovebox.box.files.search.walk import Budget
from glovebox.box.threads import Threads
from glovebox.json_codec import decode_json, json_decoder

#: The longest line of JSON, which holds a line of the file searched and may spell each byte with six.
_RIPGREP_LONGEST_LINE = 16 << 20
_ERROR_STATUS = 2

#: No line ending, encoding, binary file or ignored path may be treated in a way of ripgrep's own. Memory maps
#: are off since a file that shrinks under one ends the process, and since they find NULs by other rules.
_OPTIONS = (
    "--no-config",
    "--json",
    "--no-messages",
    "--no-ignore",
    "--no-mmap",
    "--encoding=none",
    "--case-sensitive",
    "--file=-",
    "--",
)


class _Text(msgspec.Struct):
    text: str | None = None
    bytes: str | None = None


class _Place(msgspec.Struct):
    path: _Text
    binary_offset: int | None = None


class _Submatch(msgspec.Struct):
    start: int
    end: int


class _Line(msgspec.Struct):
    line_number: int
    absolute_offset: int
    submatches: list[_Submatch]


class _Begin(msgspec.Struct, tag="begin"):
    data: _Place


class _Match(msgspec.Struct, tag="match"):
    data: _Line


class _End(msgspec.Struct, tag="end"):
    data: _Place


class _Summary(msgspec.Struct, tag="summary"):
    pass


class RipgrepOutput:
    """What ripgrep's messages tell, gathered as they come: those about one file follow each other."""

    def __init__(self) -> None:
        #: The files it is through with that match.
        self.files: dict[bytes, FileHits] = {}
        self.lines = 0
        #: Whether it came to its end.
        self.finished = False
        self._file = FileHits(b"")
        self._decoder = json_decoder(_Begin | _Match | _End | _Summary)

    def feed(self, line: bytes) -> None:
        """Take one line of output.

        Raises:
            ChildFailed: it is not what ripgrep prints.
        """
        try:
            message = self._decoder.decode(line)
        except msgspec.DecodeError as error:
            raise ChildFailed(f"not a message of ripgrep: {error}") from error
        if isinstance(message, _Match):
            self.lines += 1
            found = message.data
            self._file.hits.append((found.line_number, found.absolute_offset, _column(found.submatches)))
        elif isinstance(message, _Begin):
            self._file = FileHits(_path(message.data.path))
        elif isinstance(message, _End):
            self._file.binary = message.data.binary_offset is not None
            self.files[self._file.path] = self._file
        else:
            self.finished = True


def _path(text: _Text) -> bytes:
    return text.text.encode() if text.text is not None else base64.b64decode(text.bytes or "")


def _column(matches: list[_Submatch]) -> int:
    """Where in its line a match is. An empty one is everywhere and nowhere; some are not told at all."""
    return matches[0].start if matches and matches[0].end > matches[0].start else 0


async def search_with_ripgrep(
    program: str,
    pattern: str,
    files: Sequence[bytes],
    report: RipgrepOutput,
    *,
    most_lines: int,
    identity: Identity | None = None,
) -> bool:
    """Search files as a user, filling the report; tell whether all could be read.

    Raises:
        ChildFailed: ripgrep is broken, does not take the pattern, or finds too much.
    """
    command: list[str | bytes] = [program, *_OPTIONS, *files]
    # Without its newline an empty pattern would be none at all.
    async with child(command, pattern.encode() + b"\n", identity) as process:
        async for batch in lines(process, longest=_RIPGREP_LONGEST_LINE):
            for line in batch:
                report.feed(line)
            if report.lines > most_lines:
                raise ChildFailed("more lines match than are wanted")
        status = await process.wait()
    if not report.finished or status not in (0, 1, _ERROR_STATUS):
        raise ChildFailed(f"ripgrep ended with status {status}")
    return status != _ERROR_STATUS


#: How many bytes of a command line the names of files may take. The system allows more, but the event loop
#: waits while a process is started, and that takes longer the more there is to hand over.
_MAX_ARGUMENTS = 1 << 18
_POINTER = 8
#: A line of the stand-in's output has all hits of one file.
_LONGEST_LINE = 64 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class LineSearch:
    """One pattern and the means to look for it."""

    pattern: SearchPattern
    #: The path of ripgrep, `None` to do without.
    ripgrep: str | None
    #: Stop after so many lines.
    limit: int
    budget: Budget
    threads: Threads
    #: The user that programs search files as, if that is not the server's.
    identity: Identity | None = None

    async def run(self, portions: list[list[bytes]]) -> MatchedLines:
        """Search the files of all portions, in their order."""
        found = MatchedLines()
        if self.ripgrep is None or self.pattern.ripgrep is None:
            # Our own program is not told by command line, so there is no need to start it more than once.
            portions = [[path for portion in portions for path in portion]]
        try:
            async with asyncio.timeout(self.budget.left):
                for portion in portions:
                    if not await self._with_ripgrep(portion, found):
                        await self._without(portion, found)
                    if found.incomplete:
                        break
        except TimeoutError:
            found.incomplete = True
        return found

    async def _with_ripgrep(self, files: list[bytes], found: MatchedLines) -> bool:
        """Let ripgrep search some files; tell whether it could."""
        if self.ripgrep is None or self.pattern.ripgrep is None:
            return False
        report = RipgrepOutput()
        most = 2 * (self.limit - found.total) + 1000
        try:
            all_read = await search_with_ripgrep(
                self.ripgrep, self.pattern.ripgrep, files, report, most_lines=most, identity=self.identity
            )
        except ChildFailed:
            return False
        except asyncio.CancelledError:
            # Perhaps the time is up: what was found until then is still an answer.
            self._collect(files, report, set(), found)
            raise
        unreadable = set() if all_read else await self.threads.run(_unreadable, files)
        self._collect(files, report, unreadable, found)
        return True

    def _collect(
        self, files: list[bytes], report: RipgrepOutput, unreadable: set[bytes], found: MatchedLines
    ) -> None:
        """Put what ripgrep found into the order of the files."""
        for path in files:
            if path in report.files:
                found.add(report.files[path], self.limit)
            found.unreadable += path in unreadable
            if found.incomplete:
                break

    async def _without(self, files: list[bytes], found: MatchedLines) -> None:
        """Let our own program search some files."""
        given = await self.threads.run(
            _instructions, self.pattern, files, self.limit - found.total, self.identity
        )
        # Isolated from the user's Python settings, and without what site-packages would load.
        command = [sys.executable, "-I", "-S", scan.__file__]
        done = False
        try:
            async with child(command, given) as process:
                async for batch in lines(process, longest=_LONGEST_LINE):
                    for line in batch:
                        done = self._take(line, files, found) or done
        except ChildFailed:
            pass
        if not done:
            found.incomplete = True

    def _take(self, line: bytes, files: list[bytes], found: MatchedLines) -> bool:
        """Take one line of our program's output; tell whether it was the last."""
        message = decode_json(line)
        if message == "done":
            return True
        index, status, hits = message
        if status == scan.UNREADABLE:
            found.unreadable += 1
        else:
            lines_hit = [(line, offset, column) for line, offset, column in hits]
            found.add(FileHits(files[index], status == scan.BINARY, lines_hit), self.limit)
        return False


def _instructions(pattern: SearchPattern, files: list[bytes], limit: int, identity: Identity | None) -> bytes:
    names = [os.fsdecode(path) for path in files]
    given = {**dataclasses.asdict(pattern), "files": names, "limit": limit, "identity": identity}
    return json.dumps(given).encode()  # unlike msgspec's, it writes file names that are not UTF-8


def portioned(files: list[bytes]) -> list[list[bytes]]:
    """Portions of the files that fit on a command line."""
    portions: list[list[bytes]] = []
    size = _MAX_ARGUMENTS
    for path in files:
        size += len(path) + 1 + _POINTER
        if size > _MAX_ARGUMENTS:
            portions.append([])
            size = len(path) + 1 + _POINTER
        portions[-1].append(path)
    return portions


def _unreadable(files: list[bytes]) -> set[bytes]:
    """The files that are there and cannot be opened."""
    found: set[bytes] = set()
    for path in files:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                found.add(path)
    return found
