"""Directory lists, uploads and downloads, as they are served."""

from __future__ import annotations

from glovebox.box.files.transfer import Transfer
from glovebox.box.threads import Threads
from glovebox.http.endpoints import FAILED, INVALID, UNEXPECTED, Answer, Endpoint, Parameter
from glovebox.http.responses import ErrorBody
from glovebox.settings import Settings


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
            {200: Answer("Names; directories end in a slash. Empty if there is no such directory.",
                         {"type": "array", "items": text}), 500: UNEXPECTED},
            body={"type": "object", "properties": {"path": {"type": ["string", "null"]}}},
        ),
        Endpoint(
            "POST", "/upload_file", transfer.upload, "Put a file, or a zip's content, into a directory",
            {200: Answer("Where it went.", {"type": "object", "properties": {
                "filename": text, "destination": text, "recursive": {"type": "boolean"}}}),
             400: Answer("The body is not valid multipart data.", ErrorBody),
             413: Answer("It is larger than this box takes.", ErrorBody),
             422: INVALID, 500: FAILED},
            parameters=(
                Parameter("destination", text, "Absolute directory; made if missing. Default: `/`."),
                Parameter("recursive", {"type": "boolean"}, "The file is a zip to unpack (as any .zip is)."),
            ),
            body={"type": "object", "required": ["file"],
                  "properties": {"file": {"type": "string", "format": "binary"}}},
            body_media_type="multipart/form-data",
        ),
        Endpoint(
            "GET", "/download_files", transfer.download, "A directory, or one file, as a zip",
            {200: Answer("The archive.", {"type": "string", "format": "binary"}, "application/zip"),
             422: INVALID, 500: FAILED},
            parameters=(Parameter("path", text, "Absolute path.", required=True),),
        ),
    ]  # fmt: skip
