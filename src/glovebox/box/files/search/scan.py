"""Searches files line by line with Python's `re`: what stands in for ripgrep where that is missing.

It is a program of its own, run in another process: a regular expression that takes forever can be killed
there, and holds up nobody here. It imports nothing but the standard library, so that it starts quickly.

It reads one JSON object from standard input (the fields of `patterns.SearchPattern`, `files`, `limit`, the
number of lines after which to stop, and `identity`, the user to search as) and writes a JSON line
`[index, status, hits]` for each file there is something to tell about, then `"done"`. A hit is `[line, offset
of the line, offset of the match in it]`, in bytes but for the line, which counts from 1.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import Any

TEXT, BINARY, UNREADABLE = range(3)

_BLOCK = 1 << 20
#: A file with a line beyond this is not searched: memory is bounded.
_MAX_LINE = 64 << 20

Hit = tuple[int, int, int]


class _Unreadable(Exception):
    """A file that cannot be searched."""


class _Engine:
    """The pattern, compiled once for ASCII and, when first needed, once for all text."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.needle: bytes = spec["needle"].encode()
        self._ascii = re.compile(spec["ascii"], re.MULTILINE | re.ASCII)
        self._unicode_source: str = spec["unicode"]
        self._unicode: re.Pattern[str] | None = None

    def for_text(self, text: str) -> re.Pattern[str]:
        if text.isascii():
            return self._ascii
        if self._unicode is None:
            self._unicode = re.compile(self._unicode_source, re.MULTILINE)
        return self._unicode


class _File:
    """An open file, read in blocks of whole lines. A NUL makes it binary and ends a line."""

    def __init__(self, path: str) -> None:
        self.binary = False
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._descriptor)

    def blocks(self) -> Iterator[bytes]:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return
        held: list[bytes] = []
        size = 0
        while data := os.read(self._descriptor, _BLOCK):
            if b"\0" in data:
                self.binary = True
                data = data.replace(b"\0", b"\n")
            end = data.rfind(b"\n") + 1
            if end:
                yield b"".join([*held, data[:end]])
                held, size = [], 0
            held.append(data[end:])
            size += len(data) - end
            if size > _MAX_LINE:
                raise _Unreadable
        if size:
            yield b"".join(held)


def _matching_lines(block: bytes, engine: _Engine, line: int, offset: int) -> Iterator[Hit]:
    """The lines of a block that match; `line` and `offset` are those of its first line."""
    text = block.decode("utf-8", "surrogateescape")
    search = engine.for_text(text).search
    ascii_only = text.isascii()
    end = len(text) - text.endswith("\n")
    seen = at = 0
    while at <= end and (found := search(text, at, end)):
        start = text.rfind("\n", at, found.start()) + 1 or at
        between = text[seen:start]
        line += between.count("\n")
        offset += len(between) if ascii_only else len(between.encode("utf-8", "surrogateescape"))
        # An empty match is everywhere and nowhere.
        before = text[start : found.start()] if found.group() else ""
        yield line, offset, len(before) if ascii_only else len(before.encode("utf-8", "surrogateescape"))
        seen = start
        at = text.find("\n", found.start(), end) + 1
        if not at:
            return


def _search(path: str, engine: _Engine, limit: int) -> tuple[int, list[Hit]]:
    """The lines of a file that match, one more than `limit` at most, or one if it is binary."""
    hits: list[Hit] = []
    line, offset = 1, 0
    file = _File(path)
    try:
        for block in file.blocks():
            if engine.needle in block:
                more = _matching_lines(block, engine, line, offset)
                hits.extend(itertools.islice(more, limit + 1 - len(hits)))
            if hits and file.binary:
                break
            if len(hits) > limit:
                for _ in file.blocks():  # the rest may still show that it is binary
                    pass
                break
            line += block.count(b"\n")
            offset += len(block)
    finally:
        file.close()
    return (BINARY, hits[:1]) if file.binary else (TEXT, hits)


def _tell(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def become(user: int, group: int, groups: Sequence[int]) -> None:
    """Be another user from now on, for good."""
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def main() -> None:
    """Search the files that standard input names."""
    spec = json.load(sys.stdin)
    if spec["identity"] is not None:
        # Not at the start: the user need not be able to read this interpreter.
        become(*spec["identity"])
    engine = _Engine(spec)
    left: int = spec["limit"]
    for index, path in enumerate(spec["files"]):
        try:
            status, hits = _search(path, engine, left)
        except (_Unreadable, MemoryError):
            status, hits = UNREADABLE, []
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                continue  # gone since it was listed
            status, hits = UNREADABLE, []
        if hits or status == UNREADABLE:
            _tell([index, status, hits])
        if status == TEXT:
            left -= len(hits)
            if left < 0:
                break
    _tell("done")


if __name__ == "__main__":
    main()
