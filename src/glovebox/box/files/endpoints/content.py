"""`/files/content`: the bytes of a file, streamed both ways."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import AsyncGenerator
from email.utils import formatdate
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.files.disk.local_files import PathLocks
from glovebox.box.files.disk.metadata import etag_of
from glovebox.box.files.disk.path_errors import shown
from glovebox.box.files.disk.replacement import Owner, Replacement
from glovebox.box.files.endpoints.request_paths import (
    REFUSALS,
    RequestPaths,
    mode_parameter,
    owner_of,
    query_path,
)
from glovebox.box.files.endpoints.upload import receive_body
from glovebox.box.files.transfer.download import FileDownload
from glovebox.box.threads import Releasable
from glovebox.errors import (
    FileChanged,
    IsADirectory,
    NotAFile,
    RangeNotSatisfiable,
    TransferError,
)
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import ErrorBody, json_response, refused
from glovebox.protocol.file_info import FileInfo

BYTES = "application/octet-stream"
#: What is read or written in one step.
PIECE = 1 << 19
#: `O_NONBLOCK` matters for pipes only: opening one would else wait for a writer that may never come.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Conditions(NamedTuple):
    """What a request says about the file that it expects."""

    match: str | None
    none_match: str | None

    @classmethod
    def of(cls, request: Request) -> Conditions:
        headers = request.headers
        return cls(headers.get("if-match"), headers.get("if-none-match"))

    def check_match(self, status: os.stat_result | None) -> None:
        """That the file is the expected one.

        Raises:
            FileChanged: it is not.
        """
        if self.match is not None and (status is None or not _names(self.match, etag_of(status))):
            now = "is missing" if status is None else f"has the ETag {etag_of(status)} now"
            raise FileChanged(f"The file {now}, which is not what If-Match asks for.")

    def is_known(self, status: os.stat_result | None) -> bool:
        """Whether the caller has said that it does not want this file."""
        return (
            self.none_match is not None
            and status is not None
            and _names(self.none_match.replace("W/", ""), etag_of(status))
        )

    def check_replaceable(self, status: os.stat_result | None) -> None:
        """That the file may be replaced.

        Raises:
            FileChanged: it may not.
        """
        self.check_match(status)
        if self.is_known(status):
            raise FileChanged("There is a file already, and If-None-Match asks for none.")


def _names(header: str, etag: str) -> bool:
    return header.strip() == "*" or etag in (one.strip() for one in header.split(","))


class FileReader(Releasable):
    """Bytes of an open file from one place to another.

    Without an `end`, to the end of a file that says nothing of its size, as those of `/proc` do.
    """

    def __init__(self, file: io.FileIO, path: str, start: int, end: int | None) -> None:
        super().__init__()
        self._file = file
        self._path = path
        self._at = start
        self._end = end

    def read(self) -> bytes:
        """The next piece, empty at the end. Blocks.

        Raises:
            TransferError: the file has become shorter, or cannot be read.
        """
        with self.in_use():
            return b"" if self.is_closed else self._read()

    def _read(self) -> bytes:
        wanted = PIECE if self._end is None else min(PIECE, self._end - self._at)
        try:
            piece = os.pread(self._file.fileno(), wanted, self._at) if wanted else b""
        except OSError as error:
            raise TransferError(f"{shown(self._path)} cannot be read: {error.strerror or error}") from error
        if wanted and not piece and self._end is not None:
            raise TransferError(f"{shown(self._path)} became shorter while it was read")
        self._at += len(piece)
        return piece

    def _release(self) -> None:
        self._file.close()


class _Content(NamedTuple):
    """How a file is answered with. Its first piece is read already; `reader` has what follows."""

    status: int
    headers: dict[str, str]
    first: bytes = b""
    reader: FileReader | None = None


def _open(path: str, conditions: Conditions, wanted: str, only_if: str) -> _Content:
    """Look at a file and read the first piece of the wanted part. Blocks."""
    file = _open_regular(path)
    reader = None
    try:
        status = os.fstat(file.fileno())
        headers = _headers(status, conditions)
        if conditions.is_known(status):
            return _Content(304, headers)
        size, code = status.st_size, 200
        start, end = 0, size or None
        if only_if in ("", headers["ETag"]) and (part := _part(wanted, size)) is not None:
            start, end = part
            code, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{size}"
            if start >= end:
                return _Content(416, {"Content-Range": f"bytes */{size}"})
        opened = FileReader(file, path, start, end)
        first = opened.read()
        if not first:
            end = 0  # an empty file, which may be one of /proc
        if end is not None:
            headers["Content-Length"] = str(end - start)
        if start + len(first) != end:
            reader = opened
        return _Content(code, headers, first, reader)
    finally:
        if reader is None:
            file.close()


def _open_regular(path: str) -> io.FileIO:
    """Open a file for reading; what is none is refused, and not waited for."""
    file = io.FileIO(os.open(path, _READ), "rb")
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    file.close()
    if stat.S_ISDIR(mode):
        raise IsADirectory(f"{shown(path)} is a directory. Give the path of a file.")
    raise NotAFile(f"{shown(path)} is a pipe, a socket or a device, and no file.")


def _look(path: str, conditions: Conditions) -> _Content:
    """What `_open` says of a whole file. Blocks."""
    with _open_regular(path) as file:
        status = os.fstat(file.fileno())
        headers = _headers(status, conditions)
    if conditions.is_known(status):
        return _Content(304, headers)
    return _Content(200, {**headers, "Content-Length": str(status.st_size)})


def _headers(status: os.stat_result, conditions: Conditions) -> dict[str, str]:
    conditions.check_match(status)
    modified = formatdate(status.st_mtime, usegmt=True)
    return {"ETag": etag_of(status), "Last-Modified": modified, "Accept-Ranges": "bytes"}


def _part(wanted: str, size: int) -> tuple[int, int] | None:
    """Where the bytes that a Range header names begin and end; None if it names none, or several parts."""
    found = _RANGE.fullmatch(wanted.strip())
    if found is None or found[1] == found[2] == "":
        return None
    if not found[1]:
        return max(size - int(found[2]), 0), size if int(found[2]) else 0
    last = int(found[2]) if found[2] else size
    return None if last < int(found[1]) else (int(found[1]), min(last + 1, size))


class ContentEndpoints:
    """The endpoints. `most_bytes` bounds a file that is put."""

    def __init__(self, workspace: RequestPaths, locks: PathLocks, most_bytes: int | None) -> None:
        self._workspace = workspace
        self._locks = locks
        self._most_bytes = most_bytes

    async def get(self, request: Request) -> Response:
        """The bytes of a file, or a part of them."""
        conditions, headers = Conditions.of(request), request.headers
        wanted, only_if = headers.get("range", ""), headers.get("if-range", "")
        content = await self._workspace.run(
            query_path(request), lambda path: _open(path, conditions, wanted, only_if)
        )
        if content.status == RangeNotSatisfiable.status:
            response = refused(RangeNotSatisfiable(f"The file has no bytes in the range {wanted}."))
            response.headers.update(content.headers)
            return response
        if content.reader is None:
            return Response(content.first, content.status, content.headers, media_type=BYTES)
        pieces = self._pieces(content.reader, content.first)
        return FileDownload(pieces, content.headers, media_type=BYTES, status=content.status)

    async def head(self, request: Request) -> Response:
        """The same without the bytes."""
        conditions = Conditions.of(request)
        content = await self._workspace.run(query_path(request), lambda path: _look(path, conditions))
        return Response(None, content.status, content.headers, media_type=BYTES)

    async def put(self, request: Request) -> Response:
        """Replace a file, or make it."""
        text, conditions = query_path(request), Conditions.of(request)
        mode, parents = mode_parameter(request), requests.flag(request, "parents")
        owner = request.query_params.get("owner", "")
        if "content-range" in request.headers:
            problem = "A part of a file cannot be replaced"
            raise InvalidParameter("value_error", ("header", "content-range"), problem, None)
        if text.endswith("/"):
            raise IsADirectory(f"{shown(text)} names a directory. Give the path of a file.")

        def begin(path: str) -> Replacement:
            return Replacement(
                path,
                locks=self._locks,
                condition=conditions.check_replaceable,
                mode=mode,
                owner=owner_of(owner) if owner else Owner(),
                parents=parents,
            )

        info, made = await receive_body(request, self._workspace, text, begin, self._most_bytes)
        response = json_response(info, 201 if made else 200)
        response.headers["ETag"] = info.etag or ""
        return response

    async def _pieces(self, reader: FileReader, first: bytes) -> AsyncGenerator[bytes, None]:
        try:
            yield first
            while piece := await self._workspace.threads.run(reader.read):
                yield piece
        finally:
            reader.close()


def content_endpoints(workspace: RequestPaths, locks: PathLocks, most_bytes: int | None) -> list[Endpoint]:
    """What is served of the content of files."""
    own = ContentEndpoints(workspace, locks, most_bytes)
    text = {"type": "string"}
    path = Parameter("path", text, "Relative ones start at the workspace; `~` is the home.", required=True)
    binary = {"type": "string", "format": "binary"}
    changed = Reply("It is not the file that `If-Match` or `If-None-Match` asks for.", ErrorBody)
    unchanged = Reply("It is the file that `If-None-Match` names.")
    return [
        Endpoint(
            "GET", "/files/content", own.get, "The bytes of a file",
            {200: Reply("All of it, with an `ETag`.", binary, BYTES),
             206: Reply("The part that `Range` asks for.", binary, BYTES), 304: unchanged, **REFUSALS,
             412: changed, 416: Reply("The file has no bytes in that range.", ErrorBody)},
            description="Takes `Range` (one part), `If-Range`, `If-Match` and `If-None-Match`. If the file "
            "becomes shorter while it is sent, the connection is cut.",
            parameters=(path,),
        ),
        Endpoint(
            "HEAD", "/files/content", own.head, "Size, time and ETag of a file",
            {200: Reply("As for GET, without the bytes."), 304: unchanged,
             **{status: Reply(reply.help) for status, reply in REFUSALS.items()}, 412: Reply(changed.help)},
            parameters=(path,),
        ),
        Endpoint(
            "PUT", "/files/content", own.put, "Replace a file, or make it",
            {200: Reply("The file was replaced.", FileInfo), 201: Reply("The file is new.", FileInfo),
             **REFUSALS, 412: changed, 413: Reply("It is larger than this box takes.", ErrorBody)},
            description="The body is the content, of any length. It takes the place of the old one in one "
            "step when it is complete, or not at all. `If-Match` and `If-None-Match: *` are checked then.",
            parameters=(
                path,
                Parameter("mode", text, "Permission bits in octal, such as `0644`; by default those it has."),
                Parameter("owner", text, "`user`, `user:group` or `:group`; by default those it has."),
                Parameter("parents", {"type": "boolean"}, "Make missing directories above it."),
            ),
            body=binary, body_media_type=BYTES, streamed=True,
        ),
    ]  # fmt: skip
