"""PDFs in the file viewer: a page with a canvas for each of theirs, and the pictures that are drawn there.

They are read by processes that serve one question each (`pdf_worker`): no file can hang or crash the server.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

from starlette.responses import PlainTextResponse, Response

from glovebox.errors import TransferError
from glovebox.json_codec import json_decoder
from glovebox.server.viewer import pdf_worker
from glovebox.server.viewer.pages import FOR_US_ALONE, ViewedFile, escaped, file_page, script_string
from glovebox.server.viewer.pdf_worker import MOST_PAGES, Outline, Page

log = logging.getLogger(__name__)

#: A PDF, or a page of it, that takes longer is given up.
SECONDS = 30
#: Bytes of a PDF that are also part of the page; nothing there needs them, and more would slow it down.
MOST_CARRIED = 10 << 20
_OUTLINE = json_decoder(Outline)
_LIBRARIES = ("pypdfium2", "PIL")
_HINT = "PDFs cannot be shown without pypdfium2. Install it with: pip install 'glovebox-runtime[browser]'"


class PdfFailed(Exception):
    """A PDF, or a page of it, cannot be shown; the text says why."""


class FileChanged(TransferError):
    """A file is not any more what it was."""

    def __init__(self) -> None:
        super().__init__("The file has changed meanwhile. Open it again to see what is in it now.")


class PdfReader(NamedTuple):
    """As whom and with what the processes run that read PDFs."""

    user_id: int
    environment: Mapping[str, str]


def pdf_view(shown: ViewedFile, reader: PdfReader) -> Response:
    """The page that shows a PDF, or says what is wrong with it. Blocks.

    Raises:
        TransferError: it changes, or a library is missing.
        OSError: it cannot be read.
    """
    with shown.file as file:
        if any(importlib.util.find_spec(library) is None for library in _LIBRARIES):
            raise TransferError(_HINT)
        version = _version(file)
        try:
            pages = _canvases(_OUTLINE.decode(_ask(reader, file, "pages")))
        except PdfFailed as error:
            pages = _error(str(error))
        values = {"pages": pages, "version": script_string(version)}
        file.seek(0)
        content = file if os.fstat(file.fileno()).st_size <= MOST_CARRIED else None
        response = file_page("viewer_pdf.html", shown, content, asks_us=True, **values)
        _expect(file, version)
    return response


def pdf_picture(shown: ViewedFile, reader: PdfReader, number: int, version: str) -> Response:
    """A page of a PDF, unless the file was changed since it was opened. Blocks.

    Raises:
        PdfFailed: the page cannot be drawn.
        FileChanged: it is another one, or becomes one.
        OSError: it cannot be read.
    """
    with shown.file as file:
        _expect(file, version)
        picture = _ask(reader, file, "picture", str(number))
        _expect(file, version)
    # The version is part of the address, so what is at the address never changes.
    headers = {"Cache-Control": "private, max-age=3600, immutable", **FOR_US_ALONE}
    return Response(picture, headers=headers, media_type="image/png")


def no_picture(status: int, reason: str) -> Response:
    """Why there is no picture, kept by the browser until the page has read it too."""
    return PlainTextResponse(reason, status, {"Cache-Control": "private, max-age=60", **FOR_US_ALONE})


def _ask(reader: PdfReader, file: BinaryIO, *what: str) -> bytes:
    """What a process of its own says about a file."""
    command = [sys.executable, "-P", pdf_worker.__file__, str(SECONDS), str(reader.user_id), *what]
    done = subprocess.run(
        command, stdin=file, capture_output=True, start_new_session=True, check=False, env=reader.environment
    )
    if done.returncode == 0:
        return done.stdout
    if done.returncode == pdf_worker.FAILED:
        raise PdfFailed(done.stdout.decode())
    if done.returncode == -signal.SIGALRM:
        raise PdfFailed(f"It takes longer than {SECONDS} seconds to read.")
    log.warning("Reading a PDF ended with %d: %s", done.returncode, done.stderr.decode(errors="replace"))
    raise PdfFailed("The program that reads it failed: it is damaged, or needs too much memory.")


def _version(file: BinaryIO) -> str:
    """A text that is another one when the file's content is."""
    status = os.fstat(file.fileno())
    return f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def _expect(file: BinaryIO, version: str) -> None:
    if _version(file) != version:
        raise FileChanged


def _canvases(outline: Outline) -> str:
    """A canvas for each page, with its text for those who do not see it."""
    shown = [_canvas(page, number, outline.total) for number, page in enumerate(outline.pages, 1)]
    if outline.total > MOST_PAGES:
        shown.append(f'<p class="note">Pages {MOST_PAGES + 1} to {outline.total} are not shown.</p>')
    return "\n".join(shown)


def _canvas(page: Page, number: int, total: int) -> str:
    if page.problem:
        return _error(page.problem) + (f'<p class="note">{escaped(page.text)}</p>' if page.text else "")
    return (
        f'<canvas class="page" width="{page.width}" height="{page.height}" '
        f'style="width: {page.width}px; height: {page.height}px" data-number="{number}" '
        f'aria-label="Page {number} of {total}">{escaped(page.text)}</canvas>'
    )


def _error(text: str) -> str:
    return f'<div class="error"><h2>Error loading file</h2><p>{escaped(text)}</p></div>'
