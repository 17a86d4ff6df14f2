"""Uploads, downloads and directory lists over HTTP; bodies are held neither in memory nor in copies."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from glovebox.archives.zip_records import UnpackLimits
from glovebox.box.files.transfer.archive_stream import ArchiveStream, archive_pieces, open_zip
from glovebox.box.files.transfer.download import FileDownload, attachment
from glovebox.box.files.transfer.uploads import FileParts, Piece, Upload
from glovebox.box.threads import Threads
from glovebox.errors import RequestError, TooDeep, TooLarge, TransferError
from glovebox.http.endpoints import FAILED, INVALID, UNEXPECTED, Endpoint, Parameter, Reply
from glovebox.http.requests import NOT_BOOLEAN, boolean, decode_json
from glovebox.http.responses import (
    ErrorBody,
    error_response,
    invalid_request,
    json_response,
    refused,
    unexpected,
)
from glovebox.json_codec import convert
from glovebox.settings import Settings

#: Bytes gathered before they are written: one change of thread for many small reads.
_BATCH = 1 << 20
#: What boundaries and headers may add to the file itself before a length counts as too large.
_FORM_OVERHEAD = 64 << 10
_MAX_LIST_REQUEST = 1 << 20

_NO_FILE = {"type": "missing", "loc": ("body", "file"), "msg": "Field required", "input": None}
_NO_PATH = {"type": "missing", "loc": ("query", "path"), "msg": "Field required", "input": None}


class Transfer:
    """The endpoints that move files in and out of a box.

    `max_upload_bytes` bounds a file, and unless `limits` says otherwise what an archive may become.
    """

    def __init__(
        self,
        *,
        working_dir: str,
        threads: Threads,
        max_upload_bytes: int | None = None,
        limits: UnpackLimits | None = None,
    ) -> None:
        self._working_dir = working_dir
        self._threads = threads
        self._max_upload_bytes = max_upload_bytes
        self._max_body = math.inf if max_upload_bytes is None else max_upload_bytes + _FORM_OVERHEAD
        if limits is None:
            limits = UnpackLimits() if max_upload_bytes is None else UnpackLimits(max_bytes=max_upload_bytes)
        self._limits = limits

    async def upload(self, request: Request) -> Response:
        """Put the file of a form into a directory; unpack it if it is a zip archive."""
        destination = request.query_params.get("destination", "/")
        flag = request.query_params.get("recursive", "false")
        recursive = boolean(flag)
        if recursive is None:
            problem = {
                "type": "bool_parsing",
                "loc": ("query", "recursive"),
                "msg": NOT_BOOLEAN,
                "input": flag,
            }
            return invalid_request(problem)
        if not os.path.isabs(destination):
            return error_response(500, TransferError("400: Destination must be an absolute path"))
        content_type = request.headers.get("content-type", "")
        if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
            return invalid_request(_NO_FILE)
        upload = Upload(
            destination, recursive=recursive, max_bytes=self._max_upload_bytes, limits=self._limits
        )
        try:
            filename = await self._receive(request, FileParts(content_type, "file"), upload)
        except ClientDisconnect:
            return Response(status_code=400)  # which the client does not read
        except (RequestError, TransferError) as error:
            return error_response(_status(error), error)
        except OSError as error:
            return error_response(500, TransferError(str(error)))
        finally:
            if not upload.closed:
                await self._discard(upload)
        if filename is None:
            return invalid_request(_NO_FILE)
        return json_response({"filename": filename, "destination": destination, "recursive": recursive})

    async def _receive(self, request: Request, parts: FileParts, upload: Upload) -> str | None:
        """Write the body's file as it comes."""
        if _announced(request) > self._max_body:
            raise self._too_large()
        received = waiting = 0
        batch: list[Piece] = []
        async for data in request.stream():
            received += len(data)
            if received > self._max_body:
                raise self._too_large()
            batch += parts.feed(data)
            waiting += len(data)
            if waiting >= _BATCH:
                await self._threads.run(upload.take, batch)
                batch, waiting = [], 0
        parts.finish()
        return await self._threads.run(upload.finish, batch)

    async def _discard(self, upload: Upload) -> None:
        """Leave nothing behind, even if this request is being cancelled or the box is closing."""
        try:
            await asyncio.shield(self._threads.run(upload.discard))
        except RuntimeError:  # the threads are gone
            upload.discard()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The upload is larger than {self._max_upload_bytes} bytes")

    async def download(self, request: Request) -> Response:
        """A directory, or a single file, as a zip archive."""
        path = request.query_params.get("path")
        if path is None:
            return invalid_request(_NO_PATH)
        if not os.path.isabs(path):
            return error_response(500, TransferError("400: Path must be an absolute path"))
        try:
            archive = await self._threads.run(_archive_of, path)
        except TransferError as error:
            return error_response(500, error)
        except OSError as error:
            return error_response(500, TransferError(str(error)))
        pieces = archive_pieces(archive, self._threads)
        name = attachment(os.path.basename(path) + ".zip")
        headers = {"Content-Disposition": name, "Content-Length": str(archive.size)}
        return FileDownload(pieces, headers, media_type="application/zip")

    async def list_files(self, request: Request) -> Response:
        """The names in a directory."""
        try:
            path = _list_path(await _small_body(request))
        except (TooDeep, TooLarge) as error:
            return refused(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RequestError, ClientDisconnect):
            return unexpected()
        directory = self._working_dir if path is None else os.path.join(self._working_dir, path)
        return json_response(await self._threads.run(list_directory, directory))


def _archive_of(path: str) -> ArchiveStream:
    if not os.path.exists(path):
        raise TransferError("404: File not found")
    return open_zip(path)


async def _small_body(request: Request) -> bytes:
    body = bytearray()
    async for data in request.stream():
        body += data
        if len(body) > _MAX_LIST_REQUEST:
            raise TooLarge(f"The body has more than {_MAX_LIST_REQUEST:,} bytes.")
    return bytes(body)


def _list_path(body: bytes) -> str | None:
    """The path a request asks for; None stands for the working directory."""
    request: dict[str, Any] = convert(decode_json(body), dict[str, Any])
    return convert(request.get("path"), str | None)


def _announced(request: Request) -> int:
    """The announced length of the body, 0 if there is none."""
    with contextlib.suppress(ValueError):
        return int(request.headers.get("content-length", "0"))
    return 0


def _status(error: RequestError | TransferError) -> int:
    """Clients take a true 404 or 503 for a dead box, so what fails in the box is 500."""
    if isinstance(error, TooLarge):
        return 413
    return 400 if isinstance(error, RequestError) else 500


def list_directory(path: str) -> list[str]:
    """Directories first, each with a trailing `/`, then the rest; empty if there is nothing to list.

    A link counts as what it leads to, and not at all if that does not exist.
    """
    directories: list[str] = []
    files: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if _is_directory(entry):
                    directories.append(entry.name + "/")
                elif not entry.is_symlink() or os.path.exists(entry.path):
                    files.append(entry.name)
    except (OSError, ValueError):  # missing, not a directory, not ours to read, or a name with a NUL
        return []
    return sorted(directories, key=_order) + sorted(files, key=_order)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in a circle, or to where we may not look
        return False


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name


def transfer_endpoints(settings: Settings, threads: Threads) -> list[Endpoint]:
    """Directory lists, uploads and downloads."""
    transfer = Transfer(
        working_dir=settings.working_dir,
        threads=threads,
        max_upload_bytes=settings.max_upload_size,
    )
    text = {"type": "string"}
    return [
        Endpoint(
            "POST", "/list_files", transfer.list_files, "Names in a directory, directories first",
            {200: Reply("Names; directories end in a slash. Empty if there is no such directory.",
                         {"type": "array", "items": text}), 500: UNEXPECTED},
            body={"type": "object", "properties": {"path": {"type": ["string", "null"]}}},
        ),
        Endpoint(
            "POST", "/upload_file", transfer.upload, "Put a file, or a zip's content, into a directory",
            {200: Reply("Where it went.", {"type": "object", "properties": {
                "filename": text, "destination": text, "recursive": {"type": "boolean"}}}),
             400: Reply("The body is not valid multipart data.", ErrorBody),
             413: Reply("It is larger than this box takes.", ErrorBody),
             422: INVALID, 500: FAILED},
            parameters=(
                Parameter("destination", text, "Absolute directory; made if missing. Default: `/`."),
                Parameter("recursive", {"type": "boolean"}, "The file is a zip to unpack (as any .zip is)."),
            ),
            body={"type": "object", "required": ["file"],
                  "properties": {"file": {"type": "string", "format": "binary"}}},
            body_media_type="multipart/form-data", streamed=True,
        ),
        Endpoint(
            "GET", "/download_files", transfer.download, "A directory, or one file, as a zip",
            {200: Reply("The archive.", {"type": "string", "format": "binary"}, "application/zip"),
             422: INVALID, 500: FAILED},
            parameters=(Parameter("path", text, "Absolute path.", required=True),),
        ),
    ]  # fmt: skip
