"""Finds matching lines in a list of files, with ripgrep or without: the outcome is the same."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import os
import sys

from glovebox.box.credentials import Identity
from glovebox.box.files.search import scan
from glovebox.box.files.search.children import ChildFailed, child, lines
from glovebox.box.files.search.hits import FileHits, Lines
from glovebox.box.files.search.patterns import SearchPattern
from glovebox.box.files.search.ripgrep import Report, search_with_ripgrep
from glovebox.box.files.search.walking import Budget
from glovebox.box.threads import Threads
from glovebox.decoding import decode_json

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

    async def run(self, portions: list[list[bytes]]) -> Lines:
        """Search the files of all portions, in their order."""
        found = Lines()
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

    async def _with_ripgrep(self, files: list[bytes], found: Lines) -> bool:
        """Let ripgrep search some files; tell whether it could."""
        if self.ripgrep is None or self.pattern.ripgrep is None:
            return False
        report = Report()
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

    def _collect(self, files: list[bytes], report: Report, unreadable: set[bytes], found: Lines) -> None:
        """Put what ripgrep found into the order of the files."""
        for path in files:
            if path in report.files:
                found.add(report.files[path], self.limit)
            found.unreadable += path in unreadable
            if found.incomplete:
                break

    async def _without(self, files: list[bytes], found: Lines) -> None:
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

    def _take(self, line: bytes, files: list[bytes], found: Lines) -> bool:
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
