"""Marks are drawn as BrowserGym draws them."""

from __future__ import annotations

import io
from importlib import import_module
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops

from glovebox.box.browser.worker.page.observer import ElementMark, draw_marks

_browsergym: Any = import_module("browsergym.utils.obs")
_numpy: Any = import_module("numpy")


def png_of(picture: Image.Image) -> bytes:
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()


def picture_of(png: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(png))
    assert picture.format == "PNG"
    picture.load()
    return picture


def drawn_by_browsergym(picture: Image.Image, marks: list[ElementMark]) -> Image.Image:
    properties = {mark.bid: {"set_of_marks": True, "bbox": list(mark[1:])} for mark in marks}
    return Image.fromarray(_browsergym.overlay_som(_numpy.array(picture), properties))


def differences(one: Image.Image, other: Image.Image) -> tuple[int, int, int, int] | None:
    """The box that holds all pixels that are not the same."""
    assert (one.mode, one.size) == (other.mode, other.size)
    return ImageChops.difference(one, other).getbbox()


PAGE = Image.linear_gradient("L").resize((160, 90)).convert("RGB")
PAGE_PNG = png_of(PAGE)


def test_marks_look_like_those_of_browsergym() -> None:
    marks = [
        ElementMark("7", 10, 10, 60, 30),
        ElementMark("a12", 50.5, 30.25, 80.75, 40.5),
        ElementMark("baC3", 0, 0, 160, 90),
    ]
    marked = picture_of(draw_marks(PAGE_PNG, marks))
    assert differences(marked, PAGE) is not None
    assert differences(marked, drawn_by_browsergym(PAGE, marks)) is None


def test_dashes_are_black_and_tags_are_at_the_upper_left() -> None:
    white = Image.new("RGB", (200, 100), "white")
    marked = picture_of(draw_marks(png_of(white), [ElementMark("5", 50, 40, 100, 40)]))
    below = [marked.getpixel((150, y)) == (0, 0, 0) for y in range(40, 80)]
    assert below[:5] == [True] * 5
    assert below[5:12] == [False] * 7
    assert marked.getpixel((51, 40)) in [(0, 0, 0), (255, 255, 255)]
    changed = differences(marked, white)
    assert changed is not None
    assert changed[0] == 49
    assert 30 < changed[1] < 40, "the tag stands over the box"


_places = st.floats(-300, 400).map(lambda number: round(number * 4) / 4)
_sizes = st.floats(0, 600).map(lambda number: round(number * 4) / 4)
_bids = st.sampled_from(["1", "42", "a5", "abC12"])
_marks = st.builds(ElementMark, _bids, _places, _places, _sizes, _sizes)


@settings(deadline=None)
@given(
    st.lists(
        st.builds(ElementMark, _bids, _places, _places, _sizes, _sizes), max_size=4, unique_by=lambda m: m.bid
    )
)
def test_any_marks_look_like_those_of_browsergym(marks: list[ElementMark]) -> None:
    marked = picture_of(draw_marks(PAGE_PNG, marks))
    assert differences(marked, drawn_by_browsergym(PAGE, marks)) is None


@pytest.mark.parametrize(
    "mark",
    [
        ElementMark("1", 10, 10, 4, 4.9),
        ElementMark("1", 10, 10, 0, 100),
        ElementMark("1", 10, 10, inf, 1),
        ElementMark("1", 10, 10, nan, 1),
        ElementMark("1", nan, 10, 50, 50),
        ElementMark("1", 10, -inf, 50, 50),
    ],
)
def test_what_cannot_be_seen_is_not_marked(mark: ElementMark) -> None:
    assert draw_marks(PAGE_PNG, [mark]) == PAGE_PNG


def test_without_marks_the_picture_is_the_same() -> None:
    assert draw_marks(PAGE_PNG, []) == PAGE_PNG


@pytest.mark.parametrize(
    "mark",
    [
        ElementMark("1", 1e9, 1e9, 100, 100),
        ElementMark("1", -1e12, -1e12, 1e3, 1e3),
        ElementMark("1", -1e9, 20, 2e9, 2e9),
        ElementMark("1", 1e200, 1e200, 1e100, 1e100),
        ElementMark("", 5, 5, 50, 50),
        ElementMark("x" * 100_000, 5, 5, 50, 50),
        ElementMark("é\n😀", 5, 5, 50, 50),
    ],
)
def test_odd_places_and_ids_do_no_harm(mark: ElementMark) -> None:
    assert picture_of(draw_marks(PAGE_PNG, [mark])).size == PAGE.size


def test_only_the_beginning_of_a_very_long_id_is_shown() -> None:
    wide = png_of(Image.new("RGB", (1280, 100), "white"))
    one, other = (draw_marks(wide, [ElementMark("x" * length, 5, 5, 50, 50)]) for length in (64, 65))
    assert one == other


def test_a_huge_element_shows_its_sides() -> None:
    marks = [ElementMark("1", -50_000, 20, 100_000, 100_000)]
    marked = picture_of(draw_marks(PAGE_PNG, marks))
    assert differences(marked, drawn_by_browsergym(PAGE, marks)) is None
    assert differences(marked, PAGE) is not None


def test_photographs_stay_as_they_are_but_for_the_marks() -> None:
    noise = [Image.effect_noise((640, 360), 90) for _ in range(3)]
    photograph = Image.merge("RGB", noise)
    png = png_of(photograph)
    assert len(png) > 300_000
    marks = [ElementMark("12", 100, 100, 200, 100)]
    marked = draw_marks(png, marks)
    assert differences(picture_of(marked), drawn_by_browsergym(photograph, marks)) is None
    assert len(marked) < 1.2 * len(png)


@pytest.mark.parametrize("mode", ["RGBA", "P", "L"])
def test_pictures_of_any_kind_become_red_green_and_blue(mode: str) -> None:
    marked = picture_of(draw_marks(png_of(PAGE.convert(mode)), [ElementMark("1", 10, 10, 50, 50)]))
    assert marked.mode == "RGB"
