"""Whole files of a window: read piece by piece, and written only over what was read."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from typing import NamedTuple

from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.window import PIECE, Content, Read, Write, Written

#: Larger files are not read as a whole.
MOST_BYTES = 64 << 20
#: How often something is tried again because the file changed meanwhile.
ATTEMPTS = 3


class TooMuch(Exception):
    """The file is larger than wanted."""

    def __init__(self, size: int) -> None:
        super().__init__(f"The file has {size:,} bytes.")
        self.size = size


class Loaded(NamedTuple):
    """A file as it was found."""

    data: bytes
    #: It is what an editor shows, and not on the disk.
    unsaved: bool

    @property
    def digest(self) -> str:
        """What tells this content from any other."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def status(self) -> os.stat_result:
        """The same in the place of a time and a size, for those who remember things by these."""
        number = int(self.digest[:15], 16)
        return os.stat_result((0, 0, 0, 0, 0, 0, len(self.data), 0, 0, 0), {"st_mtime_ns": number})


async def load(hands: Hands, path: str, most: int = MOST_BYTES) -> Loaded:
    """What a file holds, or what its editor shows if it has unsaved changes.

    Raises:
        TooMuch: it is larger than `most` bytes.
        Refused: the window says no, or it changes all the time.
        WindowError: the window cannot be asked.
    """
    for _ in range(ATTEMPTS):
        first = await hands.do(Read(path=path, offset=0, length=PIECE), Content)
        if first.size > most:
            raise TooMuch(first.size)
        pieces, got = [first.data], len(first.data)
        while got < first.size:
            piece = await hands.do(Read(path=path, offset=got, length=PIECE), Content)
            if (piece.size, piece.unsaved) != (first.size, first.unsaved) or not piece.data:
                break
            pieces.append(piece.data)
            got += len(piece.data)
        if got == first.size:
            return Loaded(pieces[0] if len(pieces) == 1 else b"".join(pieces), first.unsaved)
    raise OrderRefused("changed_meanwhile", f"{path} changes while it is read. Try again.")


async def replace(hands: Hands, path: str, data: bytes, before: Loaded) -> None:
    """Have a file hold something else, if it is still as it was read.

    Raises:
        Refused: the window says no; `changed_meanwhile` if the file is not as it was.
        WindowError: the window cannot be asked.
    """
    await hands.do(Write(path=path, data=data, expected=before.digest), Written)


async def create(hands: Hands, path: str, data: bytes) -> None:
    """Make a file that is not there yet.

    Raises:
        Refused: the window says no; `exists` if there is one.
        WindowError: the window cannot be asked.
    """
    await hands.do(Write(path=path, data=data, exclusive=True), Written)


class Locks:
    """One change of a file at a time. The table holds only paths in use."""

    def __init__(self) -> None:
        self._table: dict[str, tuple[asyncio.Lock, int]] = {}

    @contextlib.asynccontextmanager
    async def hold(self, path: str) -> AsyncIterator[None]:
        """Keep every other holder of the same path waiting."""
        lock, wanted = self._table.get(path) or (asyncio.Lock(), 0)
        self._table[path] = (lock, wanted + 1)
        try:
            async with lock:
                yield
        finally:
            wanted = self._table[path][1] - 1
            if wanted:
                self._table[path] = (lock, wanted)
            else:
                del self._table[path]
