"""Reads one PDF from standard input, as a process of its own, and prints its pages or a picture of one.

`pages` prints the sizes and texts of its pages, `picture N` prints page N as PNG. A file can be made to hang
or to crash its reader, or to fill the memory: then it is this process that ends. It is run as a
program, and imports nothing but the libraries it reads with, since it is started anew for every page.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import math
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

#: Pixels per point, of which 72 are an inch.
SCALE = 1.5
#: The pages after these are not shown.
MOST_PAGES = 500
#: What a page may have, so that a picture of it stays below 100 MB.
MOST_PIXELS = 25_000_000
#: What a browser can draw in one piece.
LONGEST_SIDE = 32_767
#: Characters of a page, and of all pages; those that do not fit are shown without text.
LONGEST_TEXT = 200_000
MOST_TEXT = 4_000_000
#: Reading the texts ends after this time; the pages can still be seen.
TEXT_SECONDS = 5.0
MOST_MEMORY = 1 << 30
#: How it exits if what it prints is the reason why there is nothing else.
FAILED = 3
NOBODY = 65_534
_LEFT_OUT = "(The text of this page was left out.)"
# The library marks a hyphen at a line's end by a character that is none.
_CLEANED = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127]) | {0xFFFE: "-"}


class Page(NamedTuple):
    """What there is to know of a page before it is drawn."""

    width: int
    height: int
    text: str
    #: Why it cannot be drawn, or nothing.
    problem: str = ""


class Outline(NamedTuple):
    """The pages that are shown, and how many there are."""

    pages: list[Page]
    total: int


class PdfError(Exception):
    """There is nothing to print; the text says why."""


def main(seconds: str, user_id: str, what: str, *arguments: str) -> int:
    """Print the result within some seconds, as some user if root starts it."""
    # The system keeps the time: code of the library cannot be interrupted otherwise.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(seconds))
    _limit_resources()
    try:
        with _opened(sys.stdin.buffer.read(), int(user_id)) as pdf:
            if what == "pages":
                sys.stdout.write(json.dumps(_outline(pdf)))
            else:
                _print_picture(pdf, int(arguments[0]))
    except PdfError as error:
        sys.stdout.write(str(error))
        return FAILED
    except MemoryError:
        sys.stdout.write("It needs too much memory.")
        return FAILED
    return 0


def _limit_resources() -> None:
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _opened(data: bytes, user_id: int) -> PdfDocument:
    import PIL.Image
    import pypdfium2
    from pypdfium2.raw import FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY  # type: ignore[import-untyped]
    from pypdfium2.version import PDFIUM_INFO  # type: ignore[import-untyped]

    # Loaded now, since another user may not read the files of an installation that is root's.
    PIL.Image.preinit()
    codecs.lookup("utf-16-le")
    _drop_privileges(user_id)
    if not data:
        raise PdfError("The file is empty.")
    try:
        pdf = pypdfium2.PdfDocument(data)
        # For what forms are filled with; not in a build of the library that could run scripts of the file.
        if "V8" not in PDFIUM_INFO.flags:
            pdf.init_forms()
    except pypdfium2.PdfiumError as error:
        if error.err_code in (FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY):
            raise PdfError("The PDF is encrypted and cannot be shown without its password.") from error
        raise PdfError("The file is no PDF, or it is damaged, or has no pages.") from error
    return pdf


def _drop_privileges(user_id: int) -> None:
    """Be another user from now on, if this is root: the file is open, and no other is needed."""
    if os.geteuid() == 0:
        # Root that may not do everything may be all that there is in a box; its sandbox user is another one.
        with contextlib.suppress(*[OSError] if user_id == NOBODY else []):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(user_id)


def _outline(pdf: PdfDocument) -> Outline:
    """The pages in order, with their texts as long as there is room and time for them."""
    pages: list[Page] = []
    room, deadline = MOST_TEXT, time.monotonic() + TEXT_SECONDS
    for index in range(min(len(pdf), MOST_PAGES)):
        page = _page(pdf, index, with_text=room > 0 and time.monotonic() < deadline)
        pages.append(page)
        room -= len(page.text)
    return Outline(pages, len(pdf))


def _page(pdf: PdfDocument, index: int, *, with_text: bool) -> Page:
    from pypdfium2 import PdfiumError

    try:
        width, height = _pixels(*pdf.get_page_size(index))
        text = _text(pdf, index) if with_text else _LEFT_OUT
    except PdfiumError:
        return Page(0, 0, "", f"Page {index + 1} is damaged.")
    return Page(width, height, text, _too_large(index + 1, width, height))


def _text(pdf: PdfDocument, index: int) -> str:
    from pypdfium2 import PdfiumError

    page = pdf[index]
    if pdf.formenv:
        # What a form is filled with is text only once it has become a part of the page.
        with contextlib.suppress(PdfiumError):
            page.flatten()
        page.close()
        page = pdf[index]
    textpage = page.get_textpage()
    text: str = textpage.get_text_bounded()
    # Left open, the pages of a long file would fill the memory.
    textpage.close()
    page.close()
    return text.translate(_CLEANED).replace("\r\n", "\n").strip()[:LONGEST_TEXT]


def _pixels(width: float, height: float) -> tuple[int, int]:
    """The size of a page's picture, as the library rounds it."""
    return math.ceil(width * SCALE), math.ceil(height * SCALE)


def _too_large(number: int, width: int, height: int) -> str:
    if width * height <= MOST_PIXELS and max(width, height) <= LONGEST_SIDE:
        return ""
    return (
        f"Page {number} is too large to show: {width} x {height} pixels, at most {MOST_PIXELS:,} "
        f"and {LONGEST_SIDE:,} on a side."
    )


def _print_picture(pdf: PdfDocument, number: int) -> None:
    from pypdfium2 import PdfiumError

    if not 1 <= number <= min(len(pdf), MOST_PAGES):
        raise PdfError(f"There is no page {number}.")
    try:
        page = pdf[number - 1]
        if problem := _too_large(number, *_pixels(*page.get_size())):
            raise PdfError(problem)
        picture = page.render(scale=SCALE).to_pil()
    except PdfiumError as error:
        raise PdfError(f"Page {number} is damaged.") from error
    picture.save(sys.stdout.buffer, "PNG", compress_level=1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
