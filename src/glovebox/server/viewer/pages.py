"""What the file viewer answers with: a page around a file, or the reason why there is none."""

from __future__ import annotations

import base64
import errno
import functools
import html
import importlib.util
import json
import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from glovebox.errors import TransferError
from glovebox.json_codec import json_decoder
from glovebox.server.viewer import pdf_worker
from glovebox.server.viewer.pdf_worker import MOST_PAGES, Outline, Page

log = logging.getLogger(__name__)

PDF = "application/pdf"
#: The suffixes that can be shown, and what they stand for.
TYPES = {
    ".pdf": PDF,
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
}
#: How the content of images begins.
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
#: Bytes in which a PDF has to say that it is one: some have others before that.
_HEAD = 1024
_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
MAX_BYTES = 100 << 20
#: A page elsewhere can neither show a file of the box nor learn what is in it, nor where this server is.
FOR_US_ALONE = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
#: A PDF, or a page of it, that takes longer is given up.
SECONDS = 30
#: Bytes of a PDF that are also part of the page; nothing there needs them, and more would slow it down.
MOST_CARRIED = 10 << 20
_OUTLINE = json_decoder(Outline)
_LIBRARIES = ("pypdfium2", "PIL")
_HINT = "PDFs cannot be shown without pypdfium2. Install it with: pip install 'glovebox-runtime[browser]'"
# A multiple of three, so that encoded pieces join to one encoded whole.
_PIECE = 3 << 18


class Refused(Exception):
    """A path that cannot be that of a file to show."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ViewedFile(NamedTuple):
    """A file to show. From here on its descriptor is used, and its path is only a name."""

    path: str
    file: BinaryIO
    media_type: str


def suffix(path: str) -> str:
    """What a path ends with, from the last dot on, in small letters."""
    return os.path.splitext(path)[1].lower()


def open_file(path: str) -> ViewedFile:
    """Open what is at a path, if it can be shown: a regular file, by its content an image or a PDF. Blocks.

    Raises:
        Refused: there can be no file, or there is none.
        TransferError: it is not shown; the text says why.
        OSError: it cannot be opened.
    """
    from glovebox.server.viewer.safe_open import open_without_links

    if not os.path.isabs(path):
        raise Refused(400, "Error: Path must be absolute")
    # A pipe of that name must not keep the thread waiting for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY if suffix(path) in TYPES else os.O_PATH
    try:
        descriptor = open_without_links(path, flags)
    except ValueError as error:
        raise Refused(404, "Error: File not found") from error
    except OSError as error:
        if error.errno in _NOT_FOUND:
            raise Refused(404, "Error: File not found") from error
        if error.errno == errno.ELOOP:
            raise TransferError("Symbolic links are not followed, and there is one in this path.") from error
        raise
    try:
        media_type = _checked(path, descriptor)
    except (OSError, Refused, TransferError):
        os.close(descriptor)
        raise
    return ViewedFile(path, os.fdopen(descriptor, "rb", buffering=_PIECE), media_type)


def _checked(path: str, descriptor: int) -> str:
    """The media type of an open file, by its content."""
    from glovebox.server.viewer.safe_open import is_of_kernel

    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise Refused(400, "Error: Path is a directory")
    if suffix(path) not in TYPES:
        raise TransferError(
            f"Unsupported file extension: {suffix(path)}. Supported extensions are: {', '.join(TYPES)}"
        )
    if not stat.S_ISREG(status.st_mode):
        raise TransferError(f"Not a regular file: {path}")
    if is_of_kernel(descriptor):
        raise TransferError(f"Files of the kernel are not shown: {path}")
    if status.st_size > MAX_BYTES:
        raise TransferError(f"File is too large to view: {status.st_size} bytes, at most {MAX_BYTES}")
    return _media_type(os.pread(descriptor, _HEAD, 0), expected=TYPES[suffix(path)])


def _media_type(head: bytes, *, expected: str) -> str:
    """What a file is by its first bytes, which may be another kind of image than its name says."""
    if expected == PDF:
        if b"%PDF-" in head:
            return PDF
        raise TransferError("The file is no PDF: its content does not begin like one.")
    for beginning, media_type in _IMAGES.items():
        if head.startswith(beginning):
            return media_type
    raise TransferError("The file is no image: its content begins like no PNG, JPEG or GIF.")


def image_view(shown: ViewedFile) -> Response:
    """The page that shows an image. Blocks.

    Raises:
        OSError: it cannot be read.
    """
    with shown.file as file:
        return file_page("viewer.html", shown, file)


def file_page(
    template: str, shown: ViewedFile, file: BinaryIO | None, *, asks_us: bool = False, **values: str
) -> Response:
    """A page around a file's encoded content, or around nothing. Blocks.

    `asks_us` lets it load more from the viewer; `values` are the pieces of HTML or of script that only its
    template names.
    """
    values |= {
        "title": escaped(os.path.basename(shown.path)),
        "path": script_string(shown.path),
        "extension": script_string(suffix(shown.path)),
        "type": script_string(shown.media_type),
    }
    filled = bytearray()
    for name, text in _template(template):
        filled += text.encode()
        if name == "content":
            for piece in _content(file) if file else ():
                filled += base64.b64encode(piece)
        else:
            filled += values.get(name, "").encode()
    return _html(memoryview(filled), asks_us=asks_us)


def problem(status: int, title: str, *texts: str) -> Response:
    """The page that says why there is no other."""
    body = f"<h1>{title}</h1>" + "".join(f"<p>{escaped(text)}</p>" for text in texts)
    return _html(memoryview(body.encode()), status)


def _html(body: memoryview, status: int = 200, *, asks_us: bool = False) -> Response:
    """An answer whose script and style are its own, that loads nothing from elsewhere, and is framed nowhere.

    The image page names a script of another host, which nothing in it needs: the browser must not ask for it.
    """
    images, requests = ("'self'", "'self'") if asks_us else ("data:", "'none'")
    policy = (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        f"img-src {images}; connect-src {requests}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(body, status, {"Content-Security-Policy": policy, **FOR_US_ALONE})


def script_string(text: str) -> str:
    """A JavaScript string that cannot end the script element it stands in."""
    quoted = json.dumps(text, ensure_ascii=False)
    for character in "<\u2028\u2029":
        quoted = quoted.replace(character, f"\\u{ord(character):04x}")
    return quoted


def escaped(text: str) -> str:
    """Text as it stands between the elements of a page."""
    return html.escape(text, quote=False)


@functools.cache
def _template(name: str) -> list[tuple[str, str]]:
    """A page as pairs: the name of a value, and the text before it."""
    pieces: list[tuple[str, str]] = []
    rest = Path(__file__).with_name(name).read_text("utf-8")
    while rest:
        text, _, rest = rest.partition("{{")
        value, _, rest = rest.partition("}}")
        pieces.append((value, text))
    return pieces


def _content(file: BinaryIO) -> Iterator[bytes]:
    left = MAX_BYTES
    while left > 0 and (piece := file.read(_PIECE)):
        left -= len(piece)
        yield piece


# PDFs: a page with a canvas for each of theirs, and the pictures that are drawn there.


class PdfFailed(Exception):
    """A PDF, or a page of it, cannot be shown; the text says why."""


class FileReplaced(TransferError):
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
        FileReplaced: it is another one, or becomes one.
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
    command = [sys.executable, "-EP", pdf_worker.__file__, str(SECONDS), str(reader.user_id), *what]
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
        raise FileReplaced


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
