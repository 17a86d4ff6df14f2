"""Uploads into a window, downloads from it, and lists of its directories, over HTTP."""

from __future__ import annotations

import asyncio
import logging
import posixpath
import shlex
import shutil
import tempfile
import uuid
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from glovebox.archives.tree import TreeItem, walk_tree
from glovebox.box.files.transfer.endpoints import ArchiveResponse, Transfer, transfer_endpoints
from glovebox.box.threads import Threads
from glovebox.decoding import convert
from glovebox.errors import TransferError, WindowError
from glovebox.http import parameters
from glovebox.http.endpoints import Endpoint
from glovebox.http.parameters import InvalidParameter
from glovebox.http.responses import (
    ERROR_HEADER,
    error_response,
    invalid_request,
    json_response,
    unexpected,
)
from glovebox.hub.window.archive import archive_of
from glovebox.hub.window.directories import names
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.window import (
    PIECE,
    Done,
    Drop,
    Land,
    MakeDirectory,
    Put,
    RunApart,
    RunEnded,
    Written,
)
from glovebox.settings import Settings

log = logging.getLogger(__name__)

#: Files on their way at the same time.
_AT_ONCE = 4
#: Paths in one command.
_MARKED_AT_ONCE = 200
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
            asked = await parameters.body(request, dict[str, Any])
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
            pieces = await archive_of(self._hands, path)
        except (TransferError, WindowError) as error:
            return error_response(500, error)
        return ArchiveResponse(pieces, posixpath.basename(path) + ".zip")


def _renamed(taken: Response, holding: str, destination: str) -> Response:
    """The answer of a box with the directory of the window in the place of the hub's."""
    there, here = msgspec.json.encode(destination)[1:-1], msgspec.json.encode(holding)[1:-1]
    body = bytes(taken.body).replace(here, there)
    answer = Response(body, taken.status_code, media_type="application/json")
    if ERROR_HEADER in taken.headers:
        answer.headers[ERROR_HEADER] = taken.headers[ERROR_HEADER]
    return answer


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
