from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import PIL.Image
import psutil
import pytest
from pypdf import PdfReader, PdfWriter

from glovebox.server.viewer import pages, pdf_worker
from glovebox.server.viewer.pages import MOST_CARRIED
from tests.server.test_viewer import PNG
from tests.server.viewer_server import FREE, pdf, running_viewer, stream, writing
from tests.support.waiting import until

CANVAS = re.compile(
    r'<canvas class="page" width="(\d+)" height="(\d+)" style="[^"]*" data-number="(\d+)" [^>]*>'
)
VERSION = re.compile(r'const fileVersion = "([^"]+)";')
#: Black squares that take minutes to draw and nothing to read.
SLOW = pdf(b"0 0 3333 3333 re f " * 20_000, box=(3333, 3333))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with running_viewer(tmp_path) as (_, client):
        yield client


async def view(client: httpx.AsyncClient, path: Path, data: bytes | None = None) -> httpx.Response:
    """The answer for a file, which gets some content first."""
    if data is not None:
        _write(path, data)
    return await client.get("/view", params={"path": str(path)})


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def shown(client: httpx.AsyncClient, path: Path, data: bytes | None = None) -> str:
    """The page around a file that can be viewed."""
    answer = await view(client, path, data)
    assert answer.status_code == 200, answer.text
    return answer.text


async def draw(client: httpx.AsyncClient, path: Path, page: str, number: int = 1) -> httpx.Response:
    """The picture that a page shows."""
    version = VERSION.findall(page)[0]
    return await client.get("/page", params={"path": str(path), "number": number, "version": version})


def picture(answer: httpx.Response) -> PIL.Image.Image:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/png"
    return PIL.Image.open(io.BytesIO(answer.content))


def has_ink(image: PIL.Image.Image) -> bool:
    darkest, lightest = image.convert("L").getextrema()
    assert lightest == 255
    return darkest == 0


def error(text: str) -> str:
    return f'<div class="error"><h2>Error loading file</h2><p>{text}</p></div>'


async def test_the_page_of_a_pdf_looks_like_that_of_an_image(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    data = pdf(writing("first page"), writing("second page"))
    page = await shown(client, tmp_path / "a.PDF", data)
    assert page.startswith("<!DOCTYPE html>\n")
    assert page.endswith("</html>")
    assert "    <title>File Viewer - a.PDF</title>\n" in page
    assert '    <div id="viewer-container"><canvas class="page" ' in page
    assert f'    const filePath = "{tmp_path}/a.PDF";\n' in page
    assert '    const fileExtension = ".pdf";\n' in page
    assert "    const fileContent = ``;\n" in page
    assert f'    const fileBase64 = "{base64.b64encode(data).decode()}";\n' in page
    assert '    const mimeType = "application/pdf";\n' in page
    assert "{{" not in page
    assert "http" not in page.replace(str(tmp_path), "")


async def test_there_is_a_canvas_with_its_text_for_each_page(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    data = pdf(writing("first", "lines"), writing("second"), b"")
    page = await shown(client, tmp_path / "a.pdf", data)
    assert CANVAS.findall(page) == [("918", "1188", number) for number in "123"]
    assert 'aria-label="Page 1 of 3">first\nlines</canvas>' in page
    assert 'aria-label="Page 2 of 3">second</canvas>' in page
    assert 'aria-label="Page 3 of 3"></canvas>' in page


async def test_a_page_is_drawn_as_large_as_its_canvas(client: httpx.AsyncClient, tmp_path: Path) -> None:
    turned = pdf(writing("some text"), b"", in_page=b"/Rotate 90")
    page = await shown(client, tmp_path / "a.pdf", turned)
    assert CANVAS.findall(page) == [("1188", "918", "1"), ("1188", "918", "2")]
    first, second = [picture(await draw(client, tmp_path / "a.pdf", page, number)) for number in (1, 2)]
    assert first.size == second.size == (1188, 918)
    assert has_ink(first)
    assert not has_ink(second)


async def test_what_a_form_is_filled_with_is_shown(client: httpx.AsyncClient, tmp_path: Path) -> None:
    look = b"/Type/XObject/Subtype/Form/BBox[0 0 100 20]/Resources<</Font<</F 3 0 R>>>>"
    field = b"/Type/Annot/Subtype/Widget/FT/Tx/T(name)/V(Ada)/DA(/F 12 Tf 0 g)/F 4/Rect[100 100 200 120]"
    form = pdf(
        b"",
        in_page=b"/Annots[%d 0 R]" % FREE,
        in_catalog=b"/AcroForm<</Fields[%d 0 R]/DR<</Font<</F 3 0 R>>>>/DA(/F 12 Tf 0 g)>>" % FREE,
        more=[
            b"<<%s/AP<</N %d 0 R>>>>" % (field, FREE + 1),
            stream(b"/Tx BMC BT /F 12 Tf 2 5 Td (Ada) Tj ET EMC", look),
        ],
    )
    page = await shown(client, tmp_path / "a.pdf", form)
    assert ">Ada</canvas>" in page
    assert has_ink(picture(await draw(client, tmp_path / "a.pdf", page)))


async def test_the_page_of_a_pdf_loads_its_pictures_and_nothing_else(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    headers = (await view(client, tmp_path / "a.pdf", pdf(b""))).headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


async def test_text_cannot_break_out_of_the_page(client: httpx.AsyncClient, tmp_path: Path) -> None:
    page = await shown(client, tmp_path / "a.pdf", pdf(writing("</canvas><script>alert&amp;</script>")))
    assert ">&lt;/canvas&gt;&lt;script&gt;alert&amp;amp;&lt;/script&gt;</canvas>" in page
    assert page.count("<script>") == 1


def protected() -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(writing("secret")))))
    writer.encrypt("password", algorithm="RC4-128")
    data = io.BytesIO()
    writer.write(data)
    return data.getvalue()


NO_PDF = "The file is no PDF, or it is damaged, or has no pages."


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"%PDF-1.4\n" + os.urandom(5000), NO_PDF),
        (pdf(), NO_PDF),
        (pdf(b"x" * 5000)[:4000], NO_PDF),
        (protected(), "The PDF is encrypted and cannot be shown without its password."),
    ],
    ids=["noise", "no pages", "cut off", "encrypted"],
)
async def test_a_file_that_cannot_be_read_is_explained(
    client: httpx.AsyncClient, tmp_path: Path, data: bytes, reason: str
) -> None:
    page = await shown(client, tmp_path / "a.pdf", data)
    assert "<title>File Viewer - a.pdf</title>" in page
    assert f'<div id="viewer-container">{error(reason)}</div>' in page
    answer = await draw(client, tmp_path / "a.pdf", page)
    assert (answer.status_code, answer.text) == (500, reason)
    assert CANVAS.search(await shown(client, tmp_path / "b.pdf", pdf(b"")))


async def test_a_page_that_is_damaged_leaves_the_others(client: httpx.AsyncClient, tmp_path: Path) -> None:
    data = pdf(writing("one"), writing("two"), writing("three")).replace(b"6 0 R", b"0 0 R")
    page = await shown(client, tmp_path / "a.pdf", data)
    assert [number for *_, number in CANVAS.findall(page)] == ["1", "3"]
    assert error("Page 2 is damaged.") in page
    assert ">three</canvas>" in page
    answer = await draw(client, tmp_path / "a.pdf", page, 2)
    assert (answer.status_code, answer.text) == (500, "Page 2 is damaged.")
    assert has_ink(picture(await draw(client, tmp_path / "a.pdf", page, 3)))


@pytest.mark.parametrize(
    ("box", "pixels"), [((28_346, 28_346), "42519 x 42519"), ((10, 30_000), "15 x 45000")]
)
async def test_a_page_that_is_too_large_shows_its_text(
    client: httpx.AsyncClient, tmp_path: Path, box: tuple[int, int], pixels: str
) -> None:
    page = await shown(client, tmp_path / "a.pdf", pdf(b"1 0 0 1 -45 0 cm " + writing("wide <"), box=box))
    reason = f"Page 1 is too large to show: {pixels} pixels, at most 25,000,000 and 32,767 on a side."
    assert f"{error(reason)}<p" in page
    assert not CANVAS.search(page)
    answer = await draw(client, tmp_path / "a.pdf", page)
    assert (answer.status_code, answer.text) == (500, reason)


async def test_the_largest_page_can_be_drawn(client: httpx.AsyncClient, tmp_path: Path) -> None:
    page = await shown(client, tmp_path / "a.pdf", pdf(writing("large", size=300), box=(3333, 3333)))
    image = picture(await draw(client, tmp_path / "a.pdf", page))
    assert image.size == (5000, 5000)
    assert has_ink(image)


async def test_pages_after_the_last_that_is_shown_are_counted(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    most = pdf_worker.MOST_PAGES
    page = await shown(client, tmp_path / "a.pdf", pdf(*[b""] * (most + 3), box=(9, 9)))
    assert len(CANVAS.findall(page)) == most
    assert f'<p class="note">Pages {most + 1} to {most + 3} are not shown.</p>' in page
    answer = await draw(client, tmp_path / "a.pdf", page, most + 1)
    assert (answer.status_code, answer.text) == (500, f"There is no page {most + 1}.")


async def test_the_text_of_a_page_has_a_limit(client: httpx.AsyncClient, tmp_path: Path) -> None:
    longest = pdf_worker.LONGEST_TEXT
    drawn = writing(*["a" * 1000] * (longest // 1000 + 50), size=1)
    page = await shown(client, tmp_path / "a.pdf", pdf(drawn, box=(2000, 1000)))
    text = page.partition('aria-label="Page 1 of 1">')[2].partition("</canvas>")[0]
    assert len(text) == longest


async def test_pages_are_shown_without_text_when_there_is_much_of_it(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    count = pdf_worker.MOST_TEXT // pdf_worker.LONGEST_TEXT + 2
    drawn = writing(*["a" * 1000] * (pdf_worker.LONGEST_TEXT // 1000), size=1)
    page = await shown(client, tmp_path / "a.pdf", pdf(*[drawn] * count, box=(2000, 1000)))
    assert len(CANVAS.findall(page)) == count
    assert f'aria-label="Page 1 of {count}">aaaa' in page
    assert f'aria-label="Page {count} of {count}">(The text of this page was left out.)</canvas>' in page


async def test_a_large_file_is_not_carried_by_its_page(client: httpx.AsyncClient, tmp_path: Path) -> None:
    data = pdf(writing("large")) + b"%" * MOST_CARRIED
    page = await shown(client, tmp_path / "a.pdf", data)
    assert '    const fileBase64 = "";\n' in page
    assert ">large</canvas>" in page
    assert has_ink(picture(await draw(client, tmp_path / "a.pdf", page)))


async def test_a_page_of_a_file_that_has_changed_is_refused(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    path = tmp_path / "a.pdf"
    page = await shown(client, path, pdf(writing("old")))
    path.write_bytes(pdf(writing("newer")))
    answer = await draw(client, path, page)
    assert answer.status_code == 409
    assert answer.text == "The file has changed meanwhile. Open it again to see what is in it now."
    again = await shown(client, path)
    assert ">newer</canvas>" in again
    assert has_ink(picture(await draw(client, path, again)))
    path.unlink()
    gone = await draw(client, path, again)
    assert (gone.status_code, gone.text) == (404, "Error: File not found")


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({}, 400, "Name a page by the path of a PDF and a number."),
        (
            {"path": "/etc/passwd", "number": "1"},
            400,
            "Name a page by the path of a PDF and a number.",
        ),
        ({"path": "/a.pdf"}, 400, "Name a page by the path of a PDF and a number."),
        ({"path": "/a.pdf", "number": "-1"}, 400, "Name a page by the path of a PDF and a number."),
        ({"path": "/a.pdf", "number": "٣"}, 400, "Name a page by the path of a PDF and a number."),
        ({"path": "a.pdf", "number": "1"}, 400, "Error: Path must be absolute"),
        ({"path": "/no/such.pdf", "number": "1"}, 404, "Error: File not found"),
    ],
)
async def test_a_picture_that_is_wrongly_asked_for_is_refused(
    client: httpx.AsyncClient, query: dict[str, str], status: int, text: str
) -> None:
    answer = await client.get("/page", params=query)
    assert (answer.status_code, answer.text) == (status, text)


async def test_pictures_are_for_pages_of_the_viewer_alone(client: httpx.AsyncClient, tmp_path: Path) -> None:
    page = await shown(client, tmp_path / "a.pdf", pdf(b""))
    answer = await draw(client, tmp_path / "a.pdf", page)
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    query = dict(answer.request.url.params)
    elsewhere = await client.get("/page", params=query, headers={"Host": "evil.example"})
    assert (elsewhere.status_code, elsewhere.text) == (403, "Access Denied")


async def test_without_the_library_the_answer_says_what_to_install(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    answer = await view(client, tmp_path / "a.pdf", pdf(b""))
    assert answer.status_code == 500
    assert answer.text == (
        f"<h1>Error viewing file</h1><p>{tmp_path}/a.pdf</p><p>PDFs cannot be shown without pypdfium2. "
        "Install it with: pip install 'glovebox-runtime[browser]'</p>"
    )


# Files that are made to do harm


def readers() -> list[psutil.Process]:
    """The processes that draw pages."""
    return [child for child in psutil.Process().children() if "picture" in arguments(child)]


def limit(process: psutil.Process, name: str) -> int:
    """What the system lets a process have at most."""
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    return int(limits.partition(name)[2].split()[1])


def arguments(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


async def test_a_page_that_takes_too_long_is_given_up(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await shown(client, tmp_path / "a.pdf", SLOW)
    monkeypatch.setattr(pages, "SECONDS", 1)
    answer = await draw(client, tmp_path / "a.pdf", page)
    assert (answer.status_code, answer.text) == (500, "It takes longer than 1 seconds to read.")


async def test_a_reader_that_dies_takes_nothing_with_it(client: httpx.AsyncClient, tmp_path: Path) -> None:
    page = await shown(client, tmp_path / "a.pdf", SLOW)
    drawing = asyncio.create_task(draw(client, tmp_path / "a.pdf", page))
    await until(readers, "a reader")
    [reader] = readers()
    reader.send_signal(signal.SIGSEGV)
    answer = await drawing
    assert answer.status_code == 500
    assert answer.text == "The program that reads it failed: it is damaged, or needs too much memory."
    assert (await client.get("/")).status_code == 200


async def test_nobody_waits_for_a_page_that_takes_long_but_other_pages(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    page = await shown(client, tmp_path / "a.pdf", SLOW)
    drawing = [asyncio.create_task(draw(client, tmp_path / "a.pdf", page)) for _ in range(3)]
    await until(lambda: len(readers()) == 2, "two readers")
    slow = readers()
    image = await view(client, tmp_path / "a.png", PNG)
    assert image.status_code == 200
    assert readers() == slow
    assert not any(task.done() for task in drawing)
    for reader in slow:
        reader.kill()
    await until(lambda: set(readers()) - set(slow), "the third reader")
    for reader in readers():
        reader.kill()
    assert [(await task).status_code for task in drawing] == [500, 500, 500]


async def test_a_reader_has_little_memory_and_no_rights(client: httpx.AsyncClient, tmp_path: Path) -> None:
    page = await shown(client, tmp_path / "a.pdf", SLOW)
    drawing = asyncio.create_task(draw(client, tmp_path / "a.pdf", page))
    await until(readers, "a reader")
    [reader] = readers()
    user = 65_534 if os.geteuid() == 0 else os.geteuid()
    await until(lambda: reader.uids() == (user, user, user), "a reader without rights")
    assert limit(reader, "Max address space") == pdf_worker.MOST_MEMORY
    assert limit(reader, "Max core file size") == 0
    reader.kill()
    assert (await drawing).status_code == 500
