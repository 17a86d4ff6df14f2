"""Uploads into a window, downloads from it, and lists of its directories, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import posixpath
import shutil
import tempfile
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glovebox.box.files.transfer.endpoints import Transfer, attachment, transfer_endpoints
from glovebox.box.threads import Threads
from glovebox.decoding import convert
from glovebox.errors import GloveboxError, TransferError, WindowError
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
from glovebox.http.sse import disconnected
from glovebox.hub.window.archive import archive_of
from glovebox.hub.window.files import names
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window.upload import hand_over
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.settings import Settings

log = logging.getLogger(__name__)

_NO_PATH = {"type": "missing", "loc": ("query", "path"), "msg": "Field required", "input": None}


class WindowTransfer:
    """The endpoints. An upload is taken as any box takes it, by a directory of the hub, and handed over."""

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
                await hand_over(self._hands, holding, destination, self._threads)
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
        return _ArchiveResponse(pieces, posixpath.basename(path) + ".zip")


class _ArchiveResponse(Response):
    """An archive that is made as fast as it is taken.

    If it cannot be finished the connection is cut, which the reader notices.
    """

    media_type = "application/zip"

    def __init__(self, pieces: AsyncGenerator[bytes, None], filename: str) -> None:
        self._pieces = pieces
        self.status_code = 200
        self.background = None
        self.init_headers({"Content-Disposition": attachment(filename)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            async with contextlib.aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    if gone.done():
                        return
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except GloveboxError as error:
            # Returning without the rest makes the server close the connection.
            log.warning("A download was broken off: %s", error)
        finally:
            gone.cancel()


def _renamed(taken: Response, holding: str, destination: str) -> Response:
    """What a box said of its directory, told of the one in the window."""
    there, here = msgspec.json.encode(destination)[1:-1], msgspec.json.encode(holding)[1:-1]
    body = bytes(taken.body).replace(here, there)
    answer = Response(body, taken.status_code, media_type="application/json")
    if ERROR_HEADER in taken.headers:
        answer.headers[ERROR_HEADER] = taken.headers[ERROR_HEADER]
    return answer
