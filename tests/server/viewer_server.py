"""A running file viewer, and PDFs to show in it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx

from glovebox.server.viewer.server import ViewerServer, start_viewer
from glovebox.settings import Settings

FIRST_PORT = 21_000
#: A sheet of US letter paper, in points.
LETTER = (612, 792)
#: The objects of `pdf` before those of its pages, and the first that it does not use if it has one page.
CATALOG, PAGES, FONT = 1, 2, 3
FREE = 6


async def started_viewer(
    url_file: Path, *, port: int = FIRST_PORT, state_dir: Path | None = None, user_id: int | None = None
) -> ViewerServer:
    """A viewer that writes its address to a file."""
    settings = Settings(viewer_url_file=str(url_file), state_dir=str(state_dir or ""))
    return await start_viewer(settings, port, user_id)


@contextlib.asynccontextmanager
async def running_viewer(
    directory: Path, user_id: int | None = None
) -> AsyncIterator[tuple[ViewerServer, httpx.AsyncClient]]:
    """A viewer that says in a directory where it is, and a client that asks it."""
    viewer = await started_viewer(directory / "viewer-url", user_id=user_id)
    try:
        base = viewer.url.replace("localhost", "127.0.0.1")
        async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False) as client:
            yield viewer, client
    finally:
        await viewer.close()


def writing(*lines: str, size: int = 12) -> bytes:
    """What is drawn on a page that shows some lines of text."""
    shown = " ".join(f"({line}) Tj T*" for line in lines)
    return f"BT /F {size} Tf {size + 2} TL 50 700 Td {shown} ET".encode("latin-1")


def pdf(
    *pages: bytes,
    box: tuple[int, int] = LETTER,
    in_page: bytes = b"",
    in_catalog: bytes = b"",
    more: Sequence[bytes] = (),
) -> bytes:
    """A PDF with some pages, entries for their and its dictionaries, and more objects after theirs."""
    numbers = range(FONT + 1, FONT + 1 + 2 * len(pages), 2)
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects = [
        b"<</Type/Catalog/Pages %d 0 R%s>>" % (PAGES, in_catalog),
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(pages), kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, drawn in zip(numbers, pages, strict=True):
        looks = b"/MediaBox[0 0 %d %d]/Resources<</Font<</F %d 0 R>>>>" % (*box, FONT)
        objects.append(b"<</Type/Page/Parent 2 0 R%s/Contents %d 0 R%s>>" % (looks, number + 1, in_page))
        objects.append(stream(drawn))
    return _file([*objects, *more])


def stream(data: bytes, entries: bytes = b"") -> bytes:
    """An object that is data."""
    return b"<</Length %d%s>>stream\n%s\nendstream" % (len(data), entries, data)


def _file(objects: list[bytes]) -> bytes:
    data = bytearray(b"%PDF-1.4\n")
    table = b"0000000000 65535 f \n"
    for number, content in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    trailer = b"trailer<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    size = len(objects) + 1
    return bytes(data) + b"xref\n0 %d\n%s" % (size, table) + trailer % (size, CATALOG, len(data))
