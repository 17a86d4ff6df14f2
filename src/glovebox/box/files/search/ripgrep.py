"""Searches files with ripgrep: the command line, and what its JSON says."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from glovebox.box.credentials import Identity
from glovebox.box.files.search.children import ChildFailed, child, lines
from glovebox.box.files.search.hits import FileHits
from glovebox.decoding import json_decoder

#: The longest line of JSON, which holds a line of the file searched and may spell each byte with six.
_LONGEST_LINE = 16 << 20
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


class Report:
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
    report: Report,
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
        async for batch in lines(process, longest=_LONGEST_LINE):
            for line in batch:
                report.feed(line)
            if report.lines > most_lines:
                raise ChildFailed("more lines match than are wanted")
        status = await process.wait()
    if not report.finished or status not in (0, 1, _ERROR_STATUS):
        raise ChildFailed(f"ripgrep ended with status {status}")
    return status != _ERROR_STATUS
