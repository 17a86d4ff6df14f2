"""The file viewer's pages in Chromium, which may talk to this machine alone."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import PIL.Image
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, async_playwright

from tests.server.viewer_server import pdf, running_viewer, writing
from tests.support.chromium import CHROMIUM, FLAGS
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: The darkest colour of a canvas: 0 if something is drawn, 255 if it is blank and white or transparent.
DARKEST = """canvas => {
    if (!canvas.width) return 255;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let darkest = 255;
    for (let i = 0; i < data.length; i += 4) if (data[i + 3]) darkest = Math.min(darkest, data[i]);
    return darkest;
}"""


class Visit(NamedTuple):
    """A tab, and the viewer that it visits."""

    tab: Page
    url: str

    async def open(self, path: Path) -> None:
        """Show a file, and wait until it counts as loaded."""
        await self.tab.goto(f"{self.url}/view?{urlencode({'path': str(path)})}")

    async def scroll_to(self, number: int) -> None:
        """Bring a page into view."""
        await self.canvas(number).evaluate("canvas => canvas.scrollIntoView()")

    def canvas(self, number: int) -> Locator:
        """Where a page is drawn."""
        return self.tab.locator(f"canvas[data-number='{number}']")

    async def is_drawn(self, number: int) -> bool:
        """Whether there is something on a page's canvas."""
        return await self.darkest(number) == 0

    async def darkest(self, number: int) -> int:
        """How dark the darkest point of a page's canvas is."""
        darkest: int = await self.canvas(number).evaluate(DARKEST)
        return darkest

    async def seen(self) -> PIL.Image.Image:
        """What the tab looks like."""
        return PIL.Image.open(io.BytesIO(await self.tab.screenshot())).convert("L")

    async def tree(self) -> list[tuple[str, str]]:
        """The roles and names that a tab has for those who do not see it."""
        session = await self.tab.context.new_cdp_session(self.tab)
        nodes: list[dict[str, Any]] = (await session.send("Accessibility.getFullAXTree"))["nodes"]
        return [(node["role"]["value"], node["name"]["value"]) for node in nodes if not node["ignored"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def visit(chromium: Browser, tmp_path: Path) -> AsyncIterator[Visit]:
    """A tab that must not ask anybody but this machine."""
    outside: list[str] = []

    async def guard(route: Route) -> None:
        if urlsplit(route.request.url).hostname in ("localhost", "127.0.0.1"):
            await route.continue_()
        else:
            outside.append(route.request.url)
            await route.abort()

    async with running_viewer(tmp_path) as (viewer, _):
        context = await chromium.new_context(viewport={"width": 1280, "height": 720})
        await context.route("**/*", guard)
        yield Visit(await context.new_page(), viewer.url)
        await context.close()
    assert outside == []


async def test_an_image_is_shown(visit: Visit, tmp_path: Path) -> None:
    PIL.Image.new("RGB", (200, 100)).save(tmp_path / "black.png")
    await visit.open(tmp_path / "black.png")
    image = visit.tab.locator("img")
    await until(lambda: image.evaluate("img => img.complete"), "the image")
    assert await image.evaluate("img => [img.naturalWidth, img.alt]") == [200, "black.png"]
    assert (await visit.seen()).getextrema() == (0, 255)


async def test_the_first_page_of_a_pdf_is_drawn_when_it_counts_as_loaded(
    visit: Visit, tmp_path: Path
) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(writing("first", size=40), writing("second", size=40)))
    await visit.tab.add_init_script(
        "addEventListener('load', () => { window.darkestAtLoad = "
        f"({DARKEST})(document.querySelector('canvas')); }}, true)"
    )
    await visit.open(tmp_path / "a.pdf")
    assert await visit.tab.title() == "File Viewer - a.pdf"
    assert await visit.tab.evaluate("darkestAtLoad") == 0
    seen = await visit.seen()
    # The sheet is in the middle, and what is written stands in its upper part.
    assert seen.crop((250, 100, 700, 250)).getextrema() == (0, 255)
    assert seen.crop((250, 300, 700, 720)).getextrema() == (255, 255)


async def test_the_accessibility_tree_has_canvases_with_their_text(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(writing("first line", "next line"), writing("second page")))
    await visit.open(tmp_path / "a.pdf")
    assert await visit.tree() == [
        ("RootWebArea", "File Viewer - a.pdf"),
        ("generic", ""),
        ("Canvas", "Page 1 of 2"),
        ("Canvas", "Page 2 of 2"),
        ("StaticText", "first line\nnext line"),
        ("StaticText", "second page"),
    ]


async def test_only_pages_that_are_nearly_in_view_are_drawn(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(*[writing(f"page {number}") for number in range(1, 501)]))
    await visit.open(tmp_path / "a.pdf")
    assert await visit.is_drawn(1)
    assert not await visit.is_drawn(10)
    await visit.scroll_to(400)
    await until(lambda: visit.is_drawn(400), "page 400")
    await until(lambda: visit.canvas(1).evaluate("canvas => canvas.width === 0"), "page 1 being forgotten")
    assert await visit.tab.evaluate("pictures.size") <= 4
    await visit.scroll_to(1)
    await until(lambda: visit.is_drawn(1), "page 1")


async def test_nothing_of_a_pdf_runs(visit: Visit, tmp_path: Path) -> None:
    text = "</canvas><script>document.title = 1</script><img src=x onerror=alert(2)>"
    action = b"/OpenAction<</S/JavaScript/JS(app.alert\\(1\\))>>"
    (tmp_path / "a.pdf").write_bytes(pdf(writing(text), in_catalog=action))
    await visit.open(tmp_path / "a.pdf")
    assert ("StaticText", text) in await visit.tree()
    assert await visit.tab.title() == "File Viewer - a.pdf"
    assert await visit.tab.locator("img").count() == 0


async def test_a_file_that_changes_meanwhile_is_explained(visit: Visit, tmp_path: Path) -> None:
    old = [writing(f"old {number}") for number in range(1, 11)]
    (tmp_path / "a.pdf").write_bytes(pdf(*old))
    await visit.open(tmp_path / "a.pdf")
    (tmp_path / "a.pdf").write_bytes(pdf(writing("new")))
    await visit.scroll_to(10)
    error = visit.tab.locator(".error").last
    await error.wait_for()
    assert await error.locator("h2").inner_text() == "Error loading file"
    assert "The file has changed meanwhile" in await error.locator("p").inner_text()
    await visit.tab.locator("p.note", has_text="old 10").wait_for()


async def test_a_page_elsewhere_cannot_show_it(visit: Visit, tmp_path: Path) -> None:
    PIL.Image.new("RGB", (200, 100)).save(tmp_path / "black.png")
    address = f"{visit.url}/view?{urlencode({'path': f'{tmp_path}/black.png'})}"
    await visit.tab.goto(f"{visit.url}/")
    await visit.tab.set_content(f'<iframe width="600" height="400" src="{address}"></iframe>')
    [_, frame] = visit.tab.frames
    await until(lambda: frame.url.startswith("chrome-error://"), "the refusal")
