from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.files.disk import lines

#: Text with every kind of line end, and characters that only look like some.
TEXT = st.lists(
    st.sampled_from(["a", "b", " ", "\n", "\r", "\r\n", "\x0c", "\x85", "\u2028", "é"]), max_size=30
).map("".join)
INDEX = st.integers(-12, 12)


def naive_lines(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text) if line]


@settings(deadline=None)
@given(TEXT)
def test_only_line_feeds_and_carriage_returns_end_a_line(text: str) -> None:
    assert lines.split(text) == naive_lines(text)


@settings(deadline=None)
@given(TEXT)
def test_shown_text_has_the_same_lines_with_line_feeds(text: str) -> None:
    bodies = [re.sub(r"[\r\n]+$", "", line) for line in naive_lines(text)]
    assert [line.removesuffix("\n") for line in lines.split(lines.shown(text))] == bodies
    assert lines.count(lines.shown(text)) == len(bodies)


@settings(deadline=None)
@given(TEXT)
def test_an_offset_in_shown_text_finds_its_place_in_the_raw_text(raw: str) -> None:
    shown = lines.shown(raw)
    for offset in range(len(shown) + 1):
        place = lines.raw_offset(raw, offset)
        assert lines.shown(raw[:place]) == shown[:offset]
        assert lines.shown(raw[place:]) == shown[offset:]


@settings(deadline=None)
@given(TEXT, INDEX, INDEX)
def test_a_cut_is_what_the_contract_computes(text: str, start: int, end: int) -> None:
    all_lines = naive_lines(text)
    total = len(all_lines)
    first = sorted((0, start, total))[1]
    if end == -1:
        wanted = all_lines[first:]
    else:
        last = sorted((0, end, total))[1]
        begin = max(0, min(first, total - 2))
        wanted = all_lines[begin : max(begin + 1, last)]
    assert lines.cut(text, start, end) == "".join(wanted)


@settings(deadline=None)
@given(TEXT, st.text("ab\n"), INDEX, INDEX)
def test_a_splice_shows_what_the_contract_computes(raw: str, content: str, start: int, end: int) -> None:
    original = naive_lines(lines.shown(raw))
    wanted = [] if start == 0 else original[:start]
    wanted += [line + "\n" for line in content.split("\n")]
    wanted += [] if end == -1 else original[end:]
    spliced = lines.splice(raw, content, start, end)
    if "\r" not in raw:
        assert spliced == "".join(wanted)
    # A carriage return at the end of what is kept would pair up with a line feed that follows.
    elif "\r\n" in raw and not re.search(r"\r(?!\n)", raw):
        assert lines.shown(spliced) == "".join(wanted)


@settings(deadline=None)
@given(TEXT, INDEX, INDEX)
def test_lines_outside_a_splice_keep_their_ends(raw: str, start: int, end: int) -> None:
    original = naive_lines(raw)
    spliced = lines.splice(raw, "new", start, end)
    if start != 0:
        assert spliced.startswith("".join(original[:start]))
    if end != -1:
        assert spliced.endswith("".join(original[end:]))


def test_new_lines_follow_the_majority() -> None:
    assert lines.line_end("") == "\n"
    assert lines.line_end("a\nb\r\nc\r\n") == "\r\n"
    assert lines.line_end("a\nb\r\n") == "\n"
    assert lines.line_end("a\rb\r") == "\r"
    assert lines.line_end("progress\rprogress\r\n") == "\r\n"
    assert lines.line_end("progress\rprogress\rdone\n") == "\n"
