"""A set of marks: dashed boxes with the ids of elements, drawn over a picture of the page. No I/O."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, floor, inf, isfinite
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

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
