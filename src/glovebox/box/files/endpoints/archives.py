"""`/files/archive`: a directory as one archive, down and up."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response

from glovebox.archives.safe_directory import SafeDirectory
from glovebox.archives.zip_records import UnpackLimits
from glovebox.box.credentials import own_rights
from glovebox.box.files.disk.path_errors import shown
from glovebox.box.files.endpoints.request_paths import REFUSALS, RequestPaths, file_error, query_path
from glovebox.box.files.endpoints.upload import receive_body
from glovebox.box.files.transfer.archive_stream import ArchiveStream, archive_pieces, open_tar, open_zip
from glovebox.box.files.transfer.download import FileDownload, attachment
from glovebox.box.threads import Releasable
from glovebox.errors import BadArchive, NotAFile, TransferError
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.file_info import Unpacked

FORMATS = ("tar", "zip")
_MEDIA_TYPES = {"tar": "application/x-tar", "zip": "application/zip"}


class ArchiveUpload(Releasable):
    """An archive that is kept in a file without a name until it is complete, and then unpacked. Blocks."""

    def __init__(self, path: str, form: str, limits: UnpackLimits) -> None:
        super().__init__()
        self.path = path
        self._form = form
        self._limits = limits
        self._target = SafeDirectory(path)
        try:
            self._file: BinaryIO = tempfile.TemporaryFile(dir=path)  # noqa: SIM115  closed with this
        except OSError:
            self._target.close()
            raise

    def write(self, pieces: list[bytes]) -> None:
        with self.in_use():
            if not self.is_closed:
                self._file.writelines(pieces)

    def finish(self) -> Unpacked:
        """Unpack it.

        Raises:
            BadArchive: it is damaged, or becomes too large; entries that came before that stay.
            NotAFile: something that is no file is in the way, or a link that leads elsewhere.
            FileError: the system refused.
        """
        try:
            with self.in_use():
                self._file.flush()
                return self._unpack()
        except BadArchive:
            raise
        except TransferError as error:
            raise NotAFile(str(error)) from error
        except OSError as error:
            raise file_error(error, error.filename or self.path) from error
        finally:
            self.close()

    def _release(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written need not be written now
            self._file.close()
        self._target.close()

    def _unpack(self) -> Unpacked:
        with own_rights():  # the decoders are only loaded for an archive
            from glovebox.archives.untar import unpack_tar
            from glovebox.archives.unzip import is_archive, unpack

        skipped = 0

        def leave_out(name: str) -> None:
            nonlocal skipped
            skipped += 1

        def abandoned() -> bool:
            return self.is_closed

        if self._form == "tar":
            files = unpack_tar(
                self._file, self._target, self._limits, left_out=leave_out, abandoned=abandoned
            )
        elif is_archive(self._file):
            files = unpack(self._file, self._target, self._limits, left_out=leave_out, abandoned=abandoned)
        else:
            raise BadArchive("The body is not a zip archive")
        return Unpacked(path=shown(self.path), files=files, skipped=skipped)


class ArchiveEndpoints:
    """The endpoints. `most_bytes` bounds an archive that is put, and what it may become."""

    def __init__(self, workspace: RequestPaths, most_bytes: int | None) -> None:
        self._workspace = workspace
        self._most_bytes = most_bytes
        self._limits = UnpackLimits() if most_bytes is None else UnpackLimits(max_bytes=most_bytes)

    async def get(self, request: Request) -> Response:
        """A directory, or a file, as an archive."""
        form = requests.choice(request, "format", FORMATS)

        def open_archive(path: str) -> tuple[ArchiveStream, str]:
            if os.path.isdir(path):
                os.scandir(path).close()  # raises if it may not be listed
            try:
                opened = open_tar(path) if form == "tar" else open_zip(path, directories=True)
            except TransferError as error:
                raise NotAFile(str(error)) from error
            return opened, os.path.basename(shown(path)) or "root"

        archive, name = await self._workspace.run(query_path(request), open_archive)
        headers = {"Content-Disposition": attachment(f"{name}.{form}")}
        if archive.size is not None:
            headers["Content-Length"] = str(archive.size)
        pieces = archive_pieces(archive, self._workspace.threads)
        return FileDownload(pieces, headers, media_type=_MEDIA_TYPES[form])

    async def put(self, request: Request) -> Response:
        """Unpack an archive into a directory."""
        form = requests.choice(request, "format", FORMATS)

        def begin(path: str) -> ArchiveUpload:
            return ArchiveUpload(path, form, self._limits)

        path = query_path(request)
        return json_response(await receive_body(request, self._workspace, path, begin, self._most_bytes))


def archive_endpoints(workspace: RequestPaths, most_bytes: int | None) -> list[Endpoint]:
    """What is served of archives."""
    own = ArchiveEndpoints(workspace, most_bytes)
    text = {"type": "string"}
    path = Parameter("path", text, "Relative ones start at the workspace; `~` is the home.", required=True)
    form = Parameter("format", {"enum": list(FORMATS)}, "Default: tar.")
    binary = {"type": "string", "format": "binary"}
    return [
        Endpoint(
            "GET", "/files/archive", own.get, "A directory, or one file, as an archive",
            {200: Reply("A tar archive, or with `format=zip` a zip."), **REFUSALS},
            description="Made while it is sent. If that cannot be completed, the connection is cut.",
            parameters=(path, form),
        ),
        Endpoint(
            "PUT", "/files/archive", own.put, "Unpack an archive into a directory",
            {200: Reply("How many files it had.", Unpacked), **REFUSALS,
             413: Reply("It is larger than this box takes.", ErrorBody)},
            description="The body is a tar archive, plain or gzipped, or with `format=zip` a zip. Missing "
            "directories are made. Nothing is put outside of the directory.",
            parameters=(path, form),
            body=binary, body_media_type="application/octet-stream", streamed=True,
        ),
    ]  # fmt: skip
