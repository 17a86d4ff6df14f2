"""What the file viewer answers with: a page around a file, or the reason why there is none."""

from __future__ import annotations

import base64
import functools
import html
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from starlette.responses import HTMLResponse, Response

from glovebox.errors import TransferError

#: The suffixes that can be shown, and what they are.
TYPES = {
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
}
MAX_BYTES = 100 << 20
#: A page elsewhere can neither show a file of the box nor learn what is in it.
FOR_US_ALONE = {"Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff"}
# A multiple of three, so that encoded pieces join to one encoded whole.
_PIECE = 3 << 18


class Refusal(NamedTuple):
    """Why a path cannot be a file to show."""

    status: int
    reason: str


def refusal(path: str) -> Refusal | None:
    """What is wrong with a path, unless something is there that could be shown. Blocks."""
    if not os.path.isabs(path):
        return Refusal(400, "Error: Path must be absolute")
    if not os.path.exists(path):
        return Refusal(404, "Error: File not found")
    if os.path.isdir(path):
        return Refusal(400, "Error: Path is a directory")
    return None


def suffix(path: str) -> str:
    """What a path ends with, from the last dot on, in small letters."""
    return os.path.splitext(path)[1].lower()


def open_file(path: str) -> BinaryIO:
    """A regular file that is not too large to show, opened for reading. Blocks.

    Raises:
        TransferError: there is no such file.
        OSError: it cannot be opened.
    """
    try:
        # A pipe of that name must not keep the thread waiting for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise TransferError(
            f"File not found locally: {path}. Please download the file to the local machine and try again."
        ) from error
    file = os.fdopen(descriptor, "rb", buffering=_PIECE)
    try:
        _check(path, os.fstat(descriptor))
    except TransferError:
        file.close()
        raise
    return file


def _check(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise TransferError(f"Not a regular file: {path}")
    if status.st_size > MAX_BYTES:
        raise TransferError(f"File is too large to view: {status.st_size} bytes, at most {MAX_BYTES}")


def image_view(path: str) -> Response:
    """The page that shows an image. Blocks.

    Raises:
        TransferError: it is no image, or there is none.
        OSError: it cannot be read.
    """
    if suffix(path) not in TYPES:
        raise TransferError(
            f"Unsupported file extension: {suffix(path)}. Supported extensions are: {', '.join(TYPES)}"
        )
    with open_file(path) as file:
        return file_page("viewer.html", path, file)


def file_page(
    template: str, path: str, file: BinaryIO | None, *, asks_us: bool = False, **values: str
) -> Response:
    """A page around a file's encoded content, or around nothing. Blocks.

    `asks_us` lets it load more from the viewer; `values` are the pieces of HTML or of script that only its
    template names.
    """
    values |= {
        "title": escaped(os.path.basename(path)),
        "path": script_string(path),
        "extension": script_string(suffix(path)),
        "type": script_string(TYPES[suffix(path)]),
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
