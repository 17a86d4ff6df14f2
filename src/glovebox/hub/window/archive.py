"""A directory of a window, or a file of it, as a zip archive that is made while it is read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import posixpath
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator

from glovebox.archives.zip_records import dos_time
from glovebox.archives.zip_writer import ZipEntry, ZipWriter
from glovebox.errors import TransferError
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.window import PIECE, Content, Entries, List, PathInfo, Read, Stat
from glovebox.protocol.window import Entry as Named

log = logging.getLogger(__name__)

#: Files whose first piece is requested before it is their turn.
_AHEAD = 8
#: Refusals that leave a file out: it is gone, or a link that leads out of the workspace.
_LEFT_OUT = ("not_found", "outside_workspace", "is_directory")
#: A regular file that all users may read: windows do not send modes.
_MODE = 0o100644


async def archive_of(hands: Hands, path: str) -> AsyncGenerator[bytes, None]:
    """The archive, piece by piece, once it is certain that there is something to archive.

    Links to files count as files; links to directories and special files are left out. Modes are not kept.

    Raises:
        TransferError: there is no such path, it is neither file nor directory, or the window refuses.
        WindowError: the window does not answer.
    """
    try:
        found = await hands.do(Stat(path=path), PathInfo)
    except OrderRefused as refused:
        raise TransferError(str(refused)) from refused
    if not found.exists:
        raise TransferError("404: File not found")
    if found.type == "other":
        raise TransferError(f"{path} is neither a directory nor a regular file")
    if found.type == "directory":
        try:
            top = (await hands.do(List(path=path), Entries)).entries
        except OrderRefused as refused:
            raise TransferError(str(refused)) from refused
        return _pieces(hands, path, _below(hands, path, top))
    return _pieces(hands, posixpath.dirname(path), _only(posixpath.basename(path)))


async def _only(name: str) -> AsyncIterator[str]:
    yield name


async def _below(hands: Hands, path: str, top: list[Named]) -> AsyncIterator[str]:
    """The files below a directory, by their path there."""
    waiting = [("", top)]
    while waiting:
        prefix, entries = waiting.pop()
        inside = []
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.type == "file":
                yield prefix + entry.name
            elif entry.type == "directory" and not entry.is_link:
                below = f"{prefix}{entry.name}/"
                try:
                    found = await hands.do(List(path=posixpath.join(path, below.rstrip("/"))), Entries)
                except OrderRefused as refused:
                    log.warning("%s is left out of an archive: %s", below, refused)
                    continue
                inside.append((below, found.entries))
        waiting += reversed(inside)


async def _pieces(hands: Hands, directory: str, names: AsyncIterator[str]) -> AsyncGenerator[bytes, None]:
    writer = ZipWriter()
    async with contextlib.aclosing(_begun(hands, directory, names)) as begun:
        async for name, content in begun:
            yield writer.begin(ZipEntry(name.encode(), content.size, dos_time(time.time()), _MODE))
            checksum = 0
            async for piece in _content(hands, posixpath.join(directory, name), content):
                checksum = zlib.crc32(piece, checksum)
                yield piece
            yield writer.end(checksum, content.size)
    yield writer.close()


async def _begun(
    hands: Hands, directory: str, names: AsyncIterator[str]
) -> AsyncGenerator[tuple[str, Content], None]:
    """Each file with its first piece; some are requested before it is their turn."""
    ahead: list[tuple[str, asyncio.Task[Content]]] = []
    more = True
    try:
        while more or ahead:
            while more and len(ahead) < _AHEAD:
                name = await anext(names, None)
                if name is None:
                    more = False
                    break
                order = Read(path=posixpath.join(directory, name), offset=0, length=PIECE)
                ahead.append((name, asyncio.create_task(hands.do(order, Content))))
            if not ahead:
                return
            name, first = ahead.pop(0)
            try:
                content = await first
            except OrderRefused as refused:
                if refused.code not in _LEFT_OUT:
                    raise TransferError(str(refused)) from refused
                log.warning("%s is left out of an archive: %s", name, refused)
            else:
                yield name, content
    finally:
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


async def _content(hands: Hands, path: str, first: Content) -> AsyncIterator[bytes]:
    """As many bytes as the file had at its first piece: one that grows meanwhile does no harm."""
    piece, left = first.data[: first.size], first.size
    while left:
        if not piece:
            raise TransferError(f"{path} became shorter while it was archived")
        yield piece
        left -= len(piece)
        if left:
            order = Read(path=path, offset=first.size - left, length=min(left, PIECE))
            try:
                piece = (await hands.do(order, Content)).data
            except OrderRefused as refused:
                raise TransferError(str(refused)) from refused
