from __future__ import annotations

import difflib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.files.disk import lines as lines_module
from glovebox.box.files.editor import diff, text
from glovebox.box.files.editor.messages import CLIP_AT, OTHER_NOTICE, TEXT_NOTICE, EditorError

LINE = st.text(st.sampled_from("ab \t\x0c\u2028é"), max_size=6)
TEXT = st.builds(
    lambda lines, end: "\n".join(lines) + end, st.lists(LINE, max_size=25), st.sampled_from(["", "\n"])
)
LINES = st.lists(st.sampled_from(["", "a", "b", "c ", "\td"]), max_size=40)


def unnumbered(block: str) -> list[tuple[int, str]]:
    """The numbers and lines of a listing."""
    pairs = []
    for line in block.split("\n"):
        number, tab, rest = line.partition("\t")
        assert tab
        assert len(number) >= 6
        pairs.append((int(number), rest))
    return pairs


@settings(deadline=None)
@given(TEXT, st.integers(1, 10_000_000))
def test_numbering_counts_every_line(shown: str, first: int) -> None:
    assert unnumbered(text.numbered(shown, first)) == list(enumerate(shown.split("\n"), first))


def test_numbers_are_right_aligned() -> None:
    assert text.numbered("a\n", 999_999) == "999999\ta\n1000000\t"


@settings(deadline=None)
@given(st.integers(CLIP_AT - 3, CLIP_AT + 3))
def test_long_text_is_clipped_to_the_limit(size: int) -> None:
    clipped = text.clip("m" * size, TEXT_NOTICE)
    assert clipped == ("m" * size if size <= CLIP_AT else "m" * CLIP_AT + TEXT_NOTICE)


def test_clipping_comes_before_numbering() -> None:
    rows = "".join(f"row {number:04d} {'q' * 30}\n" for number in range(1, 1001))
    listed = text.view(rows, "/big.txt")
    assert listed.splitlines()[-2].startswith("   400\trow 0400 ")
    assert listed.endswith(f"   401\t{TEXT_NOTICE}\n")


@settings(deadline=None)
@given(TEXT, st.data())
def test_a_view_of_a_range_has_the_numbers_of_the_file(shown: str, data: st.DataObject) -> None:
    lines = shown.split("\n")[: -1 if shown.endswith("\n") else None] if shown else []
    if not lines:
        return
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    heading, _, block = text.view(shown, "/f", [first, last]).partition("\n")
    assert heading == "Here's the result of running `cat -n` on /f:"
    assert unnumbered(block.removesuffix("\n")) == list(enumerate(lines[first - 1 : last], first))


FIVE = "line 1\nline 2\nline 3\nline 4\nline 5\n"


@pytest.mark.parametrize(
    ("view_range", "problem"),
    [
        ([6, 7], "[6, 7]. Its first element `6` should be within the range of lines of the file: [1, 5]."),
        ([0, 2], "[0, 2]. Its first element `0` should be within the range of lines of the file: [1, 5]."),
        ([4, 2], "[4, 2]. Its second element `2` should be greater than or equal to the first element `4`."),
        (
            [1, -2],
            "[1, -2]. Its second element `-2` should be greater than or equal to the first element `1`.",
        ),
        ([1, 2, 3], "[1, 2, 3]. It should be a list of two integers."),
        (["1", "2"], "['1', '2']. It should be a list of two integers."),
        ([1.0, 2.5], "[1.0, 2.5]. It should be a list of two integers."),
        ([1, None], "[1, None]. It should be a list of two integers."),
        (7, "7. It should be a list of two integers."),
        ({"a": 1, "b": 2}, "{'a': 1, 'b': 2}. It should be a list of two integers."),
    ],
)
def test_a_range_that_cannot_be_is_explained(view_range: object, problem: str) -> None:
    with pytest.raises(EditorError) as caught:
        text.view(FIVE, "/f", view_range)
    assert str(caught.value) == f"Invalid `view_range` parameter: {problem}"


def test_an_empty_text_has_no_line_to_begin_with() -> None:
    assert text.view("", "/f") == "Here's the result of running `cat -n` on /f:\n     1\t\n"
    with pytest.raises(EditorError, match=re.escape("lines of the file: [1, 0].")):
        text.view("", "/f", [1, 1])


def test_a_range_beyond_the_end_is_shortened_with_a_note() -> None:
    assert text.view(FIVE, "/f", [5, 99]) == (
        "NOTE: We only show up to 5 since there're only 5 lines in this file.\n"
        "Here's the result of running `cat -n` on /f:\n     5\tline 5\n"
    )


@pytest.mark.parametrize("view_range", [None, [], 0, ""])
def test_an_empty_range_is_no_range(view_range: object) -> None:
    assert text.view("a", "/f", view_range) == "Here's the result of running `cat -n` on /f:\n     1\ta\n"


@settings(deadline=None)
@given(TEXT, st.data(), st.text("xyz\n", max_size=8))
def test_a_unique_part_is_replaced_where_it_is(shown: str, data: st.DataObject, new: str) -> None:
    start = data.draw(st.integers(0, len(shown)))
    old = shown[start : start + data.draw(st.integers(1, 5))]
    if not old or len(re.findall(re.escape(old), shown)) != 1:
        return
    change = text.replacement(shown, old, new, "/f")
    assert change.applied(shown) == shown.replace(old, new)
    assert change.line == shown[: shown.index(old)].count("\n") + 1


@settings(deadline=None)
@given(TEXT, st.text("ab\n", max_size=2))
def test_several_matches_are_named_by_their_lines(shown: str, old: str) -> None:
    places = [match.start() for match in re.finditer(re.escape(old), shown)]
    if len(places) < 2:
        return
    with pytest.raises(EditorError) as caught:
        text.replacement(shown, old, "new", "/f")
    numbers = sorted({shown.count("\n", 0, place) + 1 for place in places})
    assert str(caught.value) == (
        f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines {numbers}. "
        "Please ensure it is unique."
    )


def test_white_space_around_is_tolerated_only_if_nothing_matches_exactly() -> None:
    change = text.replacement("  import os\n", "\n\nimport os   ", "  import sys  ", "/f")
    assert change.applied("  import os\n") == "  import sys\n"
    exact = text.replacement("  import os\nimport os", "  import os", "  pass", "/f")
    assert exact.applied("  import os\nimport os") == "  pass\nimport os"


def test_what_is_not_there_is_quoted_without_the_white_space_around() -> None:
    with pytest.raises(EditorError) as caught:
        text.replacement("abc", "  nope\n", "x", "/f")
    assert str(caught.value) == "No replacement was performed, old_str `nope` did not appear verbatim in /f."


def test_nothing_is_found_everywhere_but_in_nothing_only_once() -> None:
    with pytest.raises(EditorError, match=re.escape("in lines [1, 2, 3, 4].")):
        text.replacement("a\nb\nc\n", "", "x", "/f")
    assert text.replacement("", "", "x", "/f").applied("") == "x"


def test_a_flood_of_matches_is_clipped() -> None:
    with pytest.raises(EditorError) as caught:
        text.replacement("a\n" * 100_000, "a", "b", "/f")
    assert len(str(caught.value)) == CLIP_AT + len(OTHER_NOTICE)


@settings(deadline=None)
@given(TEXT, st.text("xy\n", max_size=6), st.data())
def test_inserting_is_inserting_lines_into_a_list(shown: str, new: str, data: st.DataObject) -> None:
    lines = re.findall(r"[^\n]*\n|[^\n]+", shown)
    at = data.draw(st.integers(0, len(lines)))
    change = text.insertion(shown, at, new)
    assert change.applied(shown) == "".join(
        [*lines[:at], *(f"{line}\n" for line in new.split("\n")), *lines[at:]]
    )


@pytest.mark.parametrize("line", [-1, 6])
def test_inserting_outside_is_refused(line: int) -> None:
    with pytest.raises(EditorError) as caught:
        text.insertion(FIVE, line, "x")
    assert str(caught.value) == (
        f"Invalid `insert_line` parameter: {line}. It should be within the range of allowed values: [0, 5]"
    )


@settings(deadline=None)
@given(TEXT, st.text("xy\n", max_size=6), st.data())
def test_the_lines_around_a_change_are_those_of_the_file(shown: str, new: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(re.findall(r"[^\n]*\n|[^\n]+", shown))))
    change = text.insertion(shown, at, new)
    after = change.applied(shown)
    told = text.inserted_text(after, change, "/f")
    _, _, rest = told.partition("edited file:\n")
    block, _, _ = rest.partition("\nReview the changes")
    lines = after.split("\n")
    for number, line in unnumbered(block)[:-1]:
        assert lines[number - 1] == line
    assert unnumbered(block)[0][0] == max(1, at - 3)


@settings(deadline=None)
@given(LINES, LINES)
def test_the_diff_is_that_of_the_standard_library(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old), "\n".join(new)
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), "/f", "/f", n=0)
    assert diff.unified(before, after, "/f") == "\n".join(line.rstrip() for line in lines)


def test_a_small_change_in_a_long_repetitive_file_is_found() -> None:
    lines = [f"row {number % 150}" for number in range(200_000)]
    before = "\n".join(lines)
    lines[100_000:100_001] = ["new", "lines"]
    assert diff.unified(before, "\n".join(lines), "/f") == (
        "--- /f\n+++ /f\n@@ -100001 +100001,2 @@\n-row 100\n+new\n+lines"
    )


@settings(deadline=None)
@given(LINES, LINES, LINES, LINES)
def test_lines_set_aside_in_long_texts_change_nothing_but_the_choice_of_hunks(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    before, after = "\n".join(head + old + tail), "\n".join(head + new + tail)
    rows, new_rows = before.split("\n"), after.split("\n")
    most = min(len(rows), len(new_rows))
    first = next((at for at in range(most) if rows[at] != new_rows[at]), most)
    last = next((at for at in range(most - first) if rows[-1 - at] != new_rows[-1 - at]), most - first)
    lines = difflib.unified_diff(
        rows[first : len(rows) - last], new_rows[first : len(new_rows) - last], "/f", "/f", n=0
    )
    wanted = "\n".join(_shifted(line, first).rstrip() for line in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff, "LONG", 0)
        patch.setattr(diff, "_WINDOW", 3)
        assert diff.unified(before, after, "/f") == wanted


def _shifted(line: str, lines: int) -> str:
    """A line of a diff, with the numbers in a hunk's header `lines` larger."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + lines}", line)


@settings(deadline=None)
@given(TEXT, st.integers(-1, 40))
def test_a_line_of_shown_text_begins_where_it_does(shown: str, line: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_WINDOW", 3)
        assert lines_module.line_start(shown, line) == len("".join(lines_module.split(shown)[: max(line, 0)]))
