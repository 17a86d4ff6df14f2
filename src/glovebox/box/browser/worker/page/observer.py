"""Observes a page: its elements with their ids, its accessibility tree, its text, and pictures."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import struct
import zlib
from collections.abc import Awaitable, Iterator, Sequence
from functools import lru_cache
from math import ceil, floor, inf, isfinite
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont
from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser.worker.page.accessibility_tree import FrameTree, merge_trees, tree_text, write_bids
from glovebox.box.browser.worker.page.documents import DESCRIPTION, Document, Documents, FrameOwner, Marked
from glovebox.box.browser.worker.page.elements import bids_of, clickable_of, element_properties
from glovebox.box.browser.worker.page.text import page_text

#: A page that changes during an observation is observed again.
_TRIES = 5
_PAUSE = 0.1
#: Seconds that scripts of a page may keep it from answering before they are ended.
_PATIENCE = 10.0
_PICTURE_LIMIT = 10.0
#: Seconds that Chromium may take to return the elements; ten thousand take some.
_READING_LIMIT = 60.0


class PageSnapshot(NamedTuple):
    """A page at one moment."""

    focused: str
    screenshot: bytes
    set_of_marks: bytes
    text: str
    tree: str
    axtree: dict[str, Any]
    properties: dict[str, Any]


class _Found(NamedTuple):
    """The data of Chromium about a page, all of one moment."""

    documents: list[Document]
    marked: dict[str, Marked]
    marks: list[ElementMark]
    snapshots: list[dict[str, Any]]
    trees: list[list[dict[str, Any]]]
    screenshot: bytes


class PageObserver:
    """Observes one page."""

    def __init__(self, page: Page, session: CDPSession, *, limit: int) -> None:
        self._session = session
        self._documents = Documents(page, session)
        self._limit = limit
        #: The last picture, what was marked in it, and how that looked.
        self._drawn: tuple[bytes, list[ElementMark], bytes] | None = None

    async def look(self, *, as_text: bool, raw: bool) -> PageSnapshot:
        """Observe the page as it is now.

        Raises:
            PlaywrightError: it cannot be observed: it is gone, or changes all the time.
            TimeoutError: it does not answer, even when its scripts are ended.
        """
        found = await self._repeatedly(with_trees=raw or not as_text, raw=raw)
        loop = asyncio.get_running_loop()
        # Drawing leaves the interpreter to others most of the time, so the two go on side by side.
        drawing = loop.run_in_executor(None, self._with_marks, found.screenshot, found.marks)
        page = await loop.run_in_executor(None, self._describe, found, as_text, raw)
        return page._replace(set_of_marks=await drawing)

    def _with_marks(self, screenshot: bytes, marks: list[ElementMark]) -> bytes:
        """The set of marks, from a cache if the page looks as before. Slow."""
        if self._drawn is None or self._drawn[:2] != (screenshot, marks):
            self._drawn = (screenshot, marks, draw_marks(screenshot, marks))
        return self._drawn[2]

    async def _repeatedly(self, *, with_trees: bool, raw: bool) -> _Found:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(PlaywrightError):
                return await self._find(with_trees=with_trees, raw=raw)
            await asyncio.sleep(_PAUSE)
        return await self._find(with_trees=with_trees, raw=raw)

    async def _find(self, *, with_trees: bool, raw: bool) -> _Found:
        # A picture waits for Chromium to draw, so it is requested first.
        picturing = asyncio.create_task(self.picture("png"))
        try:
            marked, marks, documents = await self._patiently(raw=raw)
            try:
                async with asyncio.timeout(_READING_LIMIT):
                    snapshots, trees = await asyncio.gather(
                        self._snapshots(raw=raw), self._trees(documents if with_trees else [])
                    )
            finally:
                await asyncio.gather(
                    *(self._documents.unmark(document) for document in documents), return_exceptions=True
                )
            return _Found(documents, marked, marks, snapshots, trees, await picturing)
        finally:
            picturing.cancel()
            await asyncio.gather(picturing, return_exceptions=True)

    async def _patiently(self, *, raw: bool) -> tuple[dict[str, Marked], list[ElementMark], list[Document]]:
        """Mark the page; scripts of its own that keep it busy for too long are ended."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._mark(await self._documents.find(), raw=raw)
        except TimeoutError:
            await self._session.send("Runtime.terminateExecution")
        async with asyncio.timeout(_PATIENCE):
            return await self._mark(await self._documents.find(), raw=raw)

    async def _mark(
        self, documents: list[Document], *, raw: bool
    ) -> tuple[dict[str, Marked], list[ElementMark], list[Document]]:
        """Mark all documents; those in elements without an id are left out, with what is in them."""
        marked: dict[str, Marked] = {}
        marks: list[ElementMark] = []
        kept = []
        #: Where the coordinates of a session begin in the picture.
        origins = {0: (0.0, 0.0)}
        for document in documents:
            prefix, (x, y) = "", (0.0, 0.0)
            if document.owner is not None:
                held = await self._documents.bid_of(document.owner)
                if held is None or document.owner.session not in origins:
                    continue
                base = origins[document.owner.session]
                prefix, (x, y) = held[0], (held[1][0] + base[0], held[1][1] + base[1])
                origins.setdefault(document.session, (x, y))
            one = marked[document.frame_id] = await self._documents.mark(document, prefix, raw=raw)
            marks += [
                ElementMark(bid, left + x, top + y, wide, high) for bid, left, top, wide, high in one.marks
            ]
            kept.append(document)
        return marked, marks, kept

    async def picture(self, kind: str) -> bytes:
        asked: dict[str, Any] = {"format": kind, "optimizeForSpeed": True}
        if kind == "jpeg":
            asked["quality"] = 70
        async with asyncio.timeout(_PICTURE_LIMIT):
            picture = await self._session.send("Page.captureScreenshot", asked)
        return base64.b64decode(picture["data"])

    async def _snapshots(self, *, raw: bool) -> list[dict[str, Any]]:
        asked = {"computedStyles": [], "includeDOMRects": raw}
        sessions = self._documents.sessions
        return list(
            await asyncio.gather(
                *(_send_fast(session, "DOMSnapshot.captureSnapshot", asked) for session in sessions)
            )
        )

    async def _trees(self, documents: list[Document]) -> list[list[dict[str, Any]]]:
        sessions = self._documents.sessions
        return list(await asyncio.gather(*(_tree(sessions[one.session], one.frame_id) for one in documents)))

    def _describe(self, found: _Found, as_text: bool, raw: bool) -> PageSnapshot:
        """The snapshot without its set of marks. Slow."""
        clickable: set[str] = set()
        for snapshot in found.snapshots:
            clickable |= clickable_of(snapshot)
        nodes = _whole_tree(found) if found.trees else []
        return PageSnapshot(
            focused=_focused(found),
            screenshot=found.screenshot,
            set_of_marks=b"",
            text=page_text(found.snapshots[0], limit=self._limit) if as_text else "",
            tree=tree_text(nodes, clickable, limit=self._limit) if not as_text else "",
            axtree={"nodes": nodes} if raw else {},
            properties=_properties(found) if raw else {},
        )


async def _tree(session: CDPSession, frame_id: str) -> list[dict[str, Any]]:
    """The accessibility tree of a document, built anew: the cached one of Chromium may lose text."""
    _, answer, _ = await asyncio.gather(
        session.send("Accessibility.enable"),
        _send_fast(session, "Accessibility.getFullAXTree", {"frameId": frame_id}),
        session.send("Accessibility.disable"),
    )
    nodes: list[dict[str, Any]] = answer["nodes"]
    return nodes


async def _send_fast(session: CDPSession, method: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Send a command with a large answer, past the slow conversion of its values by Playwright."""
    try:
        answer: Awaitable[dict[str, Any]] = session._impl_obj.send(method=method, params=asked, timeout=None)
    except (AttributeError, TypeError):  # another version of Playwright, which is slower but the same
        answer = session.send(method, asked)
    return await answer


def _whole_tree(found: _Found) -> list[dict[str, Any]]:
    """The accessibility trees of all documents as one."""
    places = _places(found)
    trees = []
    for document, nodes in zip(found.documents, found.trees, strict=True):
        write_bids(nodes, bids_of(found.snapshots[document.session]), DESCRIPTION)
        prefix = "" if document.session == 0 else f"{document.session}."
        trees.append(FrameTree(document.frame_id, nodes, prefix))
    owners = {
        document.frame_id: (places[document.owner], document.owner.node)
        for document in found.documents
        if document.owner is not None and document.owner in places
    }
    return merge_trees(trees, owners)


def _places(found: _Found) -> dict[FrameOwner, int]:
    """The index of the document of each element that holds a frame."""
    owners = {document.owner for document in found.documents if document.owner is not None}
    indexes = {document.frame_id: index for index, document in enumerate(found.documents)}
    places = {}
    for session, snapshot in enumerate(found.snapshots):
        wanted = {owner.node for owner in owners if owner.session == session}
        if not wanted:
            continue
        for document in snapshot["documents"]:
            index = indexes.get(snapshot["strings"][document["frameId"]])
            if index is not None:
                here = wanted.intersection(document["nodes"]["backendNodeId"])
                places.update({FrameOwner(session, node): index for node in here})
    return places


def _focused(found: _Found) -> str:
    """The id of the element that has the focus, in whichever document."""
    bid = ""
    for document in found.documents:
        marked = found.marked[document.frame_id]
        if document.owner is None or (bid and _holds(found, document, bid)):
            bid = marked.focused
            if not marked.focus_inside:
                break
    return bid


def _holds(found: _Found, document: Document, bid: str) -> bool:
    assert document.owner is not None
    return bids_of(found.snapshots[document.owner.session]).get(document.owner.node) == bid


def _properties(found: _Found) -> dict[str, Any]:
    visibility: dict[str, float] = {}
    for document in found.marked.values():
        visibility.update(document.visibility)
    marked = {mark.bid for mark in found.marks}
    properties: dict[str, Any] = {}
    for snapshot in found.snapshots:
        properties.update(element_properties(snapshot, visibility, marked))
    return properties


_DASH = 4
_PERIOD = 12
_SMALLEST_AREA = 20
_FONT_SIZE = 12
#: Between the text of a tag and its edge, the white border included.
_PADDING = 3
_BLACK = (0, 0, 0)
_WHITE = (255, 255, 255)
#: Ids are short; a page that sets some of its own may make them as long as it likes.
_LONGEST_BID = 64
#: A larger picture is not made of flat areas alone, and is worth Pillow's slower way to encode it.
_LARGE = 300_000


class ElementMark(NamedTuple):
    """An element to mark, and where it is in the picture."""

    bid: str
    x: float
    y: float
    width: float
    height: float


def draw_marks(png: bytes, marks: Sequence[ElementMark]) -> bytes:
    """A picture with marks drawn over it; both are PNG. Elements that are too small to see get no mark."""
    drawn = [mark for mark in marks if _can_be_seen(mark)]
    if not drawn:
        return png
    picture: Image.Image = Image.open(io.BytesIO(png))
    if picture.mode != "RGB":  # which would be a copy too
        picture = picture.convert("RGB")
    picture.load()
    for mark in drawn:
        _draw(picture, mark)
    if len(png) < _LARGE:
        return _encode(picture)
    encoded = io.BytesIO()
    picture.save(encoded, "PNG", compress_level=1)
    return encoded.getvalue()


def _can_be_seen(mark: ElementMark) -> bool:
    return _SMALLEST_AREA <= mark.width * mark.height < inf and isfinite(mark.x + mark.y)


def _draw(picture: Image.Image, mark: ElementMark) -> None:
    pen = ImageDraw.Draw(picture)
    left, top, right, bottom = mark.x, mark.y, mark.x + mark.width, mark.y + mark.height
    # Dashes run clockwise from the upper left corner. Lines are two pixels wide, and the second is inside
    # at the top and at the bottom, and outside at the sides.
    for row, begin, end, thickness in ((top, left, right, 1), (bottom, right, left, -1)):
        if -2 < row < picture.height + 2:
            for first, last in _dashes(begin, end, picture.width):
                pen.rectangle(
                    _ordered(first, round(row), last, round(row) + thickness * (first != last)), _BLACK
                )
    for column, begin, end, thickness in ((right, top, bottom, 1), (left, bottom, top, -1)):
        if -2 < column < picture.width + 2:
            for first, last in _dashes(begin, end, picture.height):
                pen.rectangle(
                    _ordered(round(column), first, round(column) + thickness * (first != last), last), _BLACK
                )
    tag = _tag(mark.bid[:_LONGEST_BID])
    if -tag.width < left < picture.width and -tag.height < top < picture.height + tag.height:
        picture.paste(tag, (round(left), round(top - tag.height / 2 + 4)))


def _dashes(begin: float, end: float, size: int) -> Iterator[tuple[int, int]]:
    """The first and last pixel of the dashes of a line, in its direction; only those near 0 … size."""
    forward = begin < end
    step = 1 if forward else -1
    length = abs(end - begin)
    unseen = (-begin if forward else begin - size) - _PERIOD
    seen = min(length, (size - begin if forward else begin) + _PERIOD)
    for count in range(max(0, floor(unseen / _PERIOD)), ceil(seen / _PERIOD)):
        start = count * _PERIOD
        yield round(begin + step * start), round(begin + step * min(start + _DASH, length))


def _ordered(x0: int, y0: int, x1: int, y1: int) -> tuple[int, int, int, int]:
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


@lru_cache(maxsize=1024)
def _tag(bid: str) -> Image.Image:
    """A small black sign with a white border. The same ones are shown after every step."""
    font = ImageFont.load_default(size=_FONT_SIZE)
    left, top, right, bottom = map(int, font.getbbox(bid))
    width, height = right - left + 2 * _PADDING, bottom - top + 2 * _PADDING
    tag = Image.new("RGB", (width, height), _BLACK)
    pen = ImageDraw.Draw(tag)
    pen.text((_PADDING - left, _PADDING - top), bid, font=font, fill=_WHITE, spacing=0)
    pen.rectangle((0, 0, width - 1, height - 1), outline=_WHITE)
    return tag


def _encode(picture: Image.Image) -> bytes:
    """A PNG without filters: twice as fast as Pillow, and no larger for a page without photographs."""
    pixels = memoryview(picture.tobytes())
    stride = 3 * picture.width
    packer = zlib.compressobj(1)
    rows: list[bytes] = []
    for at in range(0, len(pixels), stride):
        rows += packer.compress(b"\0"), packer.compress(pixels[at : at + stride])
    rows.append(packer.flush())
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", b"".join(rows)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
