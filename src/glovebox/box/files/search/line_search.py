"""Finds matching lines in a list of files by running ripgrep, within limits, leaving no process behind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import errno
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence

import msgspec

from glovebox.box.credentials import Identity
from glovebox.box.files.search.walk import Budget
from glovebox.box.ripgrep import Expression, RipgrepFailed, ripgrep, ripgrep_descriptor
from glovebox.box.threads import Threads
from glovebox.json_codec import json_decoder

#: A search that needs more memory than this has met a file it cannot handle.
_MAX_MEMORY = 4 << 30
_BLOCK = 1 << 16
#: The longest line of JSON, which holds a line of the file searched and may spell each byte with six.
_LONGEST_LINE = 64 << 20
#: How many bytes of a command line the names of files may take. The system allows more, but the event loop
#: waits while a process is started, and that takes longer the more there is to hand over.
_MAX_ARGUMENTS = 1 << 18
_POINTER = 8
_NOTHING = [b"/dev/null"]
_SECONDS_FOR_NOTHING = 5.0
_ERROR_STATUS = 2

#: No line ending, encoding, binary file or ignored path may be treated in a way of ripgrep's own. Memory maps
#: are off since a file that shrinks under one ends the process, and since they find NULs by other rules.
_OPTIONS = ("--no-config", "--json", "--no-messages", "--no-ignore", "--no-mmap", "--encoding=none")

#: A line: its number, its offset in the file and the offset of the match in it, both in bytes.
Hit = tuple[int, int, int]
#: A line in a file.
Place = tuple[bytes, Hit]


@dataclasses.dataclass(slots=True)
class FileHits:
    """The matching lines of one file."""

    path: bytes
    binary: bool = False
    #: Whether a line is too long to be handled.
    too_long: bool = False
    hits: list[Hit] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class MatchedLines:
    """The outcome of searching many files, in the order they were given."""

    files: list[FileHits] = dataclasses.field(default_factory=list)
    #: How many lines match in `files`.
    total: int = 0
    #: Binary files with a match.
    binary: int = 0
    #: Files that could not be searched.
    unreadable: int = 0
    #: Whether time or the limit on lines ended the search early.
    incomplete: bool = False

    def add(self, file: FileHits, limit: int) -> None:
        """Take the lines of the next file, up to `limit` in all."""
        if file.binary or file.too_long:
            self.binary += file.binary
            self.unreadable += file.too_long
            return
        room = limit - self.total
        if len(file.hits) > room:
            self.incomplete = True
            file = FileHits(file.path, hits=file.hits[:room])
        if file.hits:
            self.files.append(file)
            self.total += len(file.hits)

    def page(self, offset: int, limit: int) -> list[Place]:
        """The matching lines from number `offset` on, `limit` at most."""
        chosen: list[Place] = []
        skip = offset
        for file in self.files:
            if len(chosen) == limit:
                break
            if skip >= len(file.hits):
                skip -= len(file.hits)
                continue
            chosen.extend((file.path, hit) for hit in file.hits[skip : skip + limit - len(chosen)])
            skip = 0
        return chosen


@dataclasses.dataclass(frozen=True, slots=True)
class LineSearch:
    """One pattern and the means to look for it."""

    pattern: Expression
    ignore_case: bool
    #: Stop after so many lines.
    limit: int
    budget: Budget
    threads: Threads
    #: The user that ripgrep runs as, if that is not the server's.
    identity: Identity | None = None

    async def run(self, portions: list[list[bytes]]) -> MatchedLines:
        """Search the files of all portions, in their order.

        Raises:
            InvalidPattern: ripgrep does not take the pattern, however few files there are.
            RipgrepFailed: it cannot be run.
        """
        found = MatchedLines()
        searched = False
        try:
            async with asyncio.timeout(self.budget.left):
                for portion in portions:
                    await self._search(portion, found)
                    searched = True
                    if found.incomplete:
                        break
        except TimeoutError:
            found.incomplete = True
        if not searched:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_FOR_NOTHING):
                    await self._search(_NOTHING, MatchedLines())
        return found

    async def _search(self, files: list[bytes], found: MatchedLines) -> None:
        room = self.limit - found.total
        output = _Output(most=2 * room + 1000)
        try:
            status = await self._ripgrep(files, output, room)
            if output.enough and not output.finished:
                # So many lines that the first of them are only known if files are searched one by one.
                output = _Output(most=room)
                status = await self._ripgrep(files, output, room, "--threads=1")
        except asyncio.CancelledError:
            # Perhaps the time is up: what was found until then is still an answer.
            _collect(files, output, set(), found, self.limit)
            raise
        unreadable = await self.threads.run(_unreadable, files) if status == _ERROR_STATUS else set()
        _collect(files, output, unreadable, found, self.limit)
        # A file that needs too much memory ends the process.
        found.incomplete = found.incomplete or not (output.finished or output.enough)

    async def _ripgrep(self, files: list[bytes], output: _Output, room: int, *options: str) -> int:
        """Search files until all are done or the output has enough; the exit status, 0 in the latter case."""
        case = "--ignore-case" if self.ignore_case else "--case-sensitive"
        pattern = ("-e", self.pattern.text, "--")
        command: list[str | bytes] = [*_OPTIONS, case, f"--max-count={room + 1}", *options, *pattern, *files]
        async with _start(command, self.identity) as process:
            async for batch in _lines(process):
                for line in batch:
                    output.feed(line)
                if output.enough:
                    return 0
            assert process.stderr is not None
            messages = await process.stderr.read()
            status = await process.wait()
        if status == _ERROR_STATUS and not output.finished:
            raise self.pattern.error(messages.decode("utf-8", "replace"))
        return status


def _collect(
    files: list[bytes], output: _Output, unreadable: set[bytes], found: MatchedLines, limit: int
) -> None:
    """Put what ripgrep found into the order of the files."""
    for path in files:
        if path in output.files:
            found.add(output.files[path], limit)
        found.unreadable += path in unreadable
        if found.incomplete:
            break


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


# What ripgrep prints.


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


class _Output:
    """Collects the messages of ripgrep; those about one file follow each other."""

    def __init__(self, *, most: int) -> None:
        #: The files that match, of those that have been searched to their end.
        self.files: dict[bytes, FileHits] = {}
        #: Whether ripgrep came to its end.
        self.finished = False
        self._room = most
        self._file = FileHits(b"")
        self._decoder = json_decoder(_Begin | _Match | _End | _Summary)

    @property
    def enough(self) -> bool:
        """Whether more lines of text match than are needed."""
        return self._room < 0

    def feed(self, line: bytes) -> None:
        """Take one line of output, or nothing for a line that was too long.

        Raises:
            RipgrepFailed: it is not what ripgrep prints.
        """
        if not line:
            self._file.too_long = True
            return
        try:
            message = self._decoder.decode(line)
        except msgspec.DecodeError as error:
            raise RipgrepFailed(f"ripgrep printed something else than its messages: {error}.") from error
        if isinstance(message, _Match):
            found = message.data
            self._file.hits.append((found.line_number, found.absolute_offset, _column(found.submatches)))
        elif isinstance(message, _Begin):
            self._file = FileHits(_path(message.data.path))
        elif isinstance(message, _End):
            self._file.binary = message.data.binary_offset is not None
            self.files[self._file.path] = self._file
            self._room -= 0 if self._file.binary or self._file.too_long else len(self._file.hits)
        else:
            self.finished = True


def _path(text: _Text) -> bytes:
    return text.text.encode() if text.text is not None else base64.b64decode(text.bytes or "")


def _column(matches: list[_Submatch]) -> int:
    """Where in its line a match is. An empty one is everywhere and nowhere; for some there is no place."""
    return matches[0].start if matches and matches[0].end > matches[0].start else 0


# The process.


@contextlib.asynccontextmanager
async def _start(
    arguments: Sequence[str | bytes], identity: Identity | None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """ripgrep, running as a user; it is dead when the block ends.

    That user could read its environment, so it has none of ours.

    Raises:
        RipgrepFailed: it cannot be started.
    """
    try:
        descriptor = -1 if identity is None else ripgrep_descriptor()
        process = await asyncio.create_subprocess_exec(
            ripgrep() if identity is None else f"/proc/self/fd/{descriptor}",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.defpath},
            pass_fds=() if identity is None else (descriptor,),
            preexec_fn=None if identity is None else functools.partial(_become, identity),
        )
    except (OSError, ValueError) as error:
        raise RipgrepFailed(f"ripgrep cannot be started: {error}.") from error
    try:
        _limit_resources(process.pid)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        # A pipe that is not read to its end can keep the exit from being noticed.
        while await process.stdout.read(_BLOCK):
            pass
        await process.wait()


def _become(identity: Identity) -> None:
    os.setgroups(identity.groups)
    os.setresgid(identity.group, identity.group, identity.group)
    os.setresuid(identity.user, identity.user, identity.user)


def _limit_resources(pid: int) -> None:
    """Bound the memory, and leave no core file."""
    if sys.platform != "linux":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


async def _lines(process: asyncio.subprocess.Process) -> AsyncIterator[list[bytes]]:
    """The output, some whole lines at a time; nothing stands for a line that is too long."""
    assert process.stdout is not None
    held = bytearray()
    skipping = False
    while data := await process.stdout.read(_BLOCK):
        if skipping:
            _, ending, data = data.partition(b"\n")
            skipping = not ending
        end = data.rfind(b"\n") + 1
        if end:
            held += data[:end]
            yield bytes(held).splitlines()
            held.clear()
        held += data[end:]
        if len(held) > _LONGEST_LINE:
            yield [b""]
            held.clear()
            skipping = True
