"""Uploads into a window, downloads from it, and lists of its directories, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import posixpath
import shlex
import shutil
import tempfile
import time
import uuid
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from glovebox.archives.tree import TreeItem, walk_tree
from glovebox.archives.zip_records import dos_time
from glovebox.archives.zip_writer import ZipEntry, ZipWriter
from glovebox.box.files.transfer.download import FileDownload, attachment
from glovebox.box.files.transfer.endpoints import Transfer, transfer_endpoints
from glovebox.box.threads import Threads
from glovebox.errors import TransferError, WindowError
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import (
    ERROR_HEADER,
    error_response,
    invalid_request,
    json_response,
    unexpected,
)
from glovebox.hub.window.files import names
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.json_codec import convert
from glovebox.protocol.window import (
    PIECE,
    Content,
    Done,
    Drop,
    Entries,
    Land,
    List,
    MakeDirectory,
    PathInfo,
    Put,
    Read,
    RunApart,
    RunEnded,
    Stat,
    Written,
)
from glovebox.protocol.window import Entry as Named
from glovebox.settings import Settings

log = logging.getLogger(__name__)

#: Files on their way at the same time.
_AT_ONCE = 4
#: Paths in one command.
_MARKED_AT_ONCE = 200
#: Files whose first piece is requested before it is their turn.
_AHEAD = 8
#: Refusals that leave a file out: it is gone, or a link that leads out of the workspace.
_LEFT_OUT = ("not_found", "outside_workspace", "is_directory")
#: A regular file that all users may read: windows do not send modes.
_MODE = 0o100644
_NO_PATH = {"type": "missing", "loc": ("query", "path"), "msg": "Field required", "input": None}


class WindowTransfer:
    """The endpoints. An upload goes into a directory of the hub first, as in any box."""

    def __init__(
        self, hands: Hands, *, terminal: WindowTerminal, settings: Settings, threads: Threads
    ) -> None:
        self._hands = hands
        self._terminal = terminal
        self._settings = settings
        self._threads = threads
        self._taking = Transfer(working_dir="/", threads=threads, max_upload_bytes=settings.max_upload_size)

    def endpoints(self) -> list[Endpoint]:
        """The same as those of any box."""
        own = {
            "/list_files": self.list_files,
            "/upload_file": self.upload,
            "/download_files": self.download,
        }
        declared = transfer_endpoints(self._settings, self._threads)
        return [msgspec.structs.replace(endpoint, handle=own[endpoint.path]) for endpoint in declared]

    async def list_files(self, request: Request) -> Response:
        """The names in a directory."""
        try:
            asked = await requests.body(request, dict[str, Any])
            path = convert(asked.get("path"), str | None)
        except (InvalidParameter, msgspec.ValidationError, ClientDisconnect):
            return unexpected()
        directory = posixpath.normpath(posixpath.join(self._terminal.workspace, path or ""))
        try:
            return json_response(await names(self._hands, directory))
        except OrderRefused as refused:
            return error_response(500, TransferError(str(refused)))

    async def upload(self, request: Request) -> Response:
        """Put the file of a form into a directory; unpack it if it is a zip archive."""
        destination = request.query_params.get("destination", "/")
        if not posixpath.isabs(destination):
            return error_response(500, TransferError("400: Destination must be an absolute path"))
        holding = await self._threads.run(tempfile.mkdtemp, prefix="glovebox-upload-")
        try:
            query = urlencode({**request.query_params, "destination": holding})
            scope = {**request.scope, "query_string": query.encode()}
            taken = await self._taking.upload(Request(scope, request.receive))
            if taken.status_code == 200:
                await _hand_over(self._hands, holding, destination, self._threads)
        except (TransferError, WindowError) as error:
            return error_response(500, error)
        finally:
            await self._threads.run(shutil.rmtree, holding, ignore_errors=True)
        return _renamed(taken, holding, destination)

    async def download(self, request: Request) -> Response:
        """A directory, or a single file, as a zip archive."""
        path = request.query_params.get("path")
        if path is None:
            return invalid_request(_NO_PATH)
        if not posixpath.isabs(path):
            return error_response(500, TransferError("400: Path must be an absolute path"))
        path = posixpath.normpath(path)
        try:
            pieces = await _archive_of(self._hands, path)
        except (TransferError, WindowError) as error:
            return error_response(500, error)
        name = attachment(posixpath.basename(path) + ".zip")
        return FileDownload(pieces, {"Content-Disposition": name}, media_type="application/zip")


def _renamed(taken: Response, holding: str, destination: str) -> Response:
    """The answer of a box with the directory of the window in the place of the hub's."""
    there, here = msgspec.json.encode(destination)[1:-1], msgspec.json.encode(holding)[1:-1]
    body = bytes(taken.body).replace(here, there)
    answer = Response(body, taken.status_code, media_type="application/json")
    if ERROR_HEADER in taken.headers:
        answer.headers[ERROR_HEADER] = taken.headers[ERROR_HEADER]
    return answer


# Downloads: archives that are made while they are sent.


async def _archive_of(hands: Hands, path: str) -> AsyncGenerator[bytes, None]:
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


# Uploads, which are put into the window file by file.


async def _hand_over(hands: Hands, directory: str, destination: str, threads: Threads) -> None:
    """Put everything in a directory of the hub into one of the window.

    Raises:
        TransferError: the window refused something; what came before stays.
        WindowError: the window does not answer.
    """
    held = await threads.run(_collect, directory)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def put(one: TreeItem) -> None:
        async with turns:
            await _put(hands, one, posixpath.join(destination, one.name.rstrip("/")), threads)

    try:
        async with asyncio.TaskGroup() as group:
            for one in held:
                group.create_task(put(one))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    marked = [posixpath.join(destination, one.name) for one in held if one.is_executable]
    for start in range(0, len(marked), _MARKED_AT_ONCE):
        await _mark_executable(hands, marked[start : start + _MARKED_AT_ONCE])


def _collect(directory: str) -> list[TreeItem]:
    return list(walk_tree(directory))


async def _put(hands: Hands, item: TreeItem, target: str, threads: Threads) -> None:
    upload = uuid.uuid4().hex
    try:
        if item.is_directory:
            await hands.do(MakeDirectory(path=target), Done)
            return
        offset = 0
        while (piece := await threads.run(_read, item.path, offset)) or not offset:
            await hands.do(Put(upload=upload, data=piece), Done)
            offset += len(piece)
            if len(piece) < PIECE:
                break
        await hands.do(Land(upload=upload, path=target), Written)
    except OrderRefused as refused:
        if not item.is_directory:
            await _drop(hands, upload)
        raise TransferError(str(refused)) from refused


def _read(path: str, offset: int) -> bytes:
    """A piece of a file. Blocks."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(PIECE)


async def _drop(hands: Hands, upload: str) -> None:
    try:
        await hands.do(Drop(upload=upload), Done)
    except OrderRefused:
        return  # the window forgets it when it ends


async def _mark_executable(hands: Hands, paths: list[str]) -> None:
    """Run a command that makes files executable: a window writes files without a mode."""
    command = f"chmod +x -- {shlex.join(paths)}"
    try:
        await hands.do(RunApart(command=command), RunEnded)
    except OrderRefused as refused:
        raise TransferError(
            f"Everything is there, but nothing could be made executable: {refused}"
        ) from refused
