from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.terminal.output.search import SHOWN, Match, SearchError, search, shorten, visible

LINES = b"zero\r\none\r\ntwo\r\nthree needle\r\nfour\r\nfive\r\nsix needle\r\nseven\r\n"


def children() -> set[int]:
    """The processes that were started by this one, those included that ended and were not waited for."""
    return {child.pid for child in psutil.Process().children()}


def both(query: str, data: bytes = LINES) -> list[int]:
    """The numbers of the lines that match, which a text and an expression must agree on."""
    text = search([data], query)
    assert search([data], query, regex=True) == text
    return [match.line for match in text.matches]


def test_a_match_comes_with_its_place_and_its_neighbours() -> None:
    found = search([LINES], "needle")
    assert found.matches == [
        Match(4, 16, "three needle", ["one", "two"], ["four", "five"]),
        Match(7, 42, "six needle", ["four", "five"], ["seven"]),
    ]
    assert (found.total, found.lines, found.complete) == (2, 8, True)
    for match in found.matches:
        assert LINES[match.offset :].startswith(match.text.encode())


def test_text_and_expression_find_the_same() -> None:
    assert both("needle") == [4, 7]
    assert both("NEEDLE") == [4, 7]
    assert both("nothing") == []
    assert both("e") == [1, 2, 4, 6, 7, 8]


@pytest.mark.parametrize("regex", [False, True])
def test_case_matters_if_asked(regex: bool) -> None:
    data = b"Needle\nneedle\nNEEDLE\n"
    assert search([data], "needle", regex=regex, ignore_case=False).total == 1
    assert search([data], "needle", regex=regex).total == 3


def test_text_is_not_an_expression() -> None:
    data = b"a.b\naxb\n[a\n"
    assert search([data], "a.b").total == 1
    assert search([data], "a.b", regex=True).total == 2
    assert search([data], "[a").total == 1


def test_an_expression_is_matched_with_each_line() -> None:
    found = search([LINES], r"^\w+$", regex=True, context=0)
    assert [match.text for match in found.matches] == ["zero", "one", "two", "four", "five", "seven"]
    assert search([LINES], r"zero\s+one", regex=True).total == 0


@pytest.mark.parametrize(
    ("printed", "query"),
    [
        (b"\x1b[31mnee\x1b[1mdle\x1b[0m\r\n", "needle"),
        (b"hay\rneedle\r\n", "needle"),
        (b"nXedle\b\b\b\b\be\r\n", "needle"),
        (b"\x1b[2A\x1b[2Kneedle\r\n", "needle"),
        (b"\x1b]0;title\x07needle", "needle"),
        ("日本語 naïve 🎉\r\n".encode(), "naïve 🎉"),
        (b"a\tneedle\r\n", "a       needle"),
    ],
)
@pytest.mark.parametrize("regex", [False, True])
def test_what_is_seen_is_found(printed: bytes, query: str, regex: bool) -> None:
    found = search([b"first\r\n" + printed], query, regex=regex)
    assert [(match.line, match.offset) for match in found.matches] == [(2, 7)]


def test_what_was_written_over_is_not_found() -> None:
    assert search([b"needle 10%\rdone      \r\n"], "needle").total == 0


def test_no_more_matches_than_asked_for_are_given_but_all_are_counted() -> None:
    data = b"".join(b"needle %d\r\n" % number for number in range(20_000))
    found = search([data], "needle", limit=3)
    assert [match.line for match in found.matches] == [1, 2, 3]
    assert (found.total, found.lines) == (20_000, 20_000)
    assert search([data], "needle", limit=0).matches == []


def test_the_next_matches_begin_after_the_last() -> None:
    data = b"".join(b"line %d\r\n" % number for number in range(30_000))
    seen: list[int] = []
    start = 0
    while matches := search([data], "77", limit=100, start=start).matches:
        seen += [match.line for match in matches]
        start = matches[-1].offset + 1
    assert seen == [number + 1 for number in range(30_000) if "77" in str(number)]


@pytest.mark.parametrize("context", [0, 1, 5])
def test_neighbours_are_found_beyond_the_edges_of_blocks(context: int) -> None:
    lines = [b"%07d" % number for number in range(60_000)]
    data = b"\r\n".join(lines)
    edges = [(at // 9) + shift for at in range(65_536, len(data), 65_536) for shift in (-2, -1, 0, 1, 2)]
    expression = "|".join(lines[edge].decode() for edge in edges[:40])
    found = search([data], expression, regex=True, context=context)
    assert found.total == len(found.matches) == len(set(edges[:40]))
    for match in found.matches:
        at = match.line - 1
        assert match.text == lines[at].decode()
        assert match.offset == at * 9
        assert match.before == [line.decode() for line in lines[at - context : at]]
        assert match.after == [line.decode() for line in lines[at + 1 : at + 1 + context]]


def test_a_long_line_is_shown_around_the_match() -> None:
    line = b"a" * 40_000 + b"needle" + b"b" * 40_000
    data = b"x\n" + line + b"\n" + b"y\n"
    for regex in (False, True):
        [match] = search([data], "needle", regex=regex).matches
        assert len(match.text) == SHOWN
        assert match.text.startswith("…aaa")
        assert "aneedleb" in match.text
        assert match.text.endswith("bbb…")
        assert (match.before, match.after) == (["x"], ["y"])
    [match] = search([data], "y").matches
    assert match.before == ["x", "a" * (SHOWN - 1) + "…"]


@pytest.mark.parametrize("at", [0, 999_990, 1_048_567, 1_048_576, 2_500_000])
def test_a_line_of_any_length_is_searched_to_its_end_and_counted_once(at: int) -> None:
    line = b"a" * at + b"needle" + b"b" * 2_000_000 + b"needle"
    data = b"first\n" + line + b"\nlast needle\nend\n"
    found = search([data], "needle", context=1)
    assert [(match.line, match.offset) for match in found.matches] == [(2, 6), (3, 6 + len(line) + 1)]
    assert "needleb" in found.matches[0].text
    assert (found.matches[0].before, found.matches[0].after) == (["first"], ["last needle"])
    assert found.matches[1].after == ["end"]
    assert (found.total, found.lines) == (2, 4)


def test_a_long_line_without_end_is_one_line() -> None:
    found = search([b"x\n" + b"a" * 3_000_000 + b"needle"], "needle")
    assert [(match.line, match.offset) for match in found.matches] == [(2, 2)]
    assert (found.total, found.lines) == (1, 2)


def test_nothing_is_found_in_nothing() -> None:
    for pieces in ([], [b""], [b"", b""]):
        found = search(pieces, "x")
        assert (found.matches, found.total, found.lines, found.complete) == ([], 0, 0, True)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("(a", "not closed at position 0"),
        ("ab[", "unclosed character class at position 2"),
        ("a{2,1}", "invalid repetition count range.* at position 1"),
        ("a\n(", "line ending .* position 1"),
        ("a(?=b)", "look-around.* at position 1"),
        ("\\w{1000}{1000}", "size limit"),
        ("(" * 1_000, "not closed|nested"),
    ],
)
def test_a_bad_expression_is_refused_with_the_reason(query: str, reason: str) -> None:
    before = children()
    with pytest.raises(SearchError, match=reason):
        search([LINES], query, regex=True)
    assert children() == before


@pytest.mark.parametrize("query", ["", "x" * 1_001])
def test_a_query_that_is_empty_or_too_long_is_refused(query: str) -> None:
    with pytest.raises(SearchError, match="1 to 1000 characters"):
        search([LINES], query)


def test_an_expression_that_takes_other_engines_for_ever_is_searched_at_once() -> None:
    before = children()
    data = b"aaa\n" * 20_000 + b"a" * 5_000 + b"b\n" + b"aaa\n"
    found = search([data], "(a+)+$", regex=True)
    assert (found.total, found.lines, found.complete) == (20_001, 20_002, True)
    assert found.matches[0] == Match(1, 0, "aaa", [], ["aaa", "aaa"])
    assert children() == before


def test_an_expression_is_stopped_between_blocks() -> None:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b"needle\n" * 1_000

    before = children()
    found = search(pieces(), "ne+dle", regex=True, deadline=1.0, limit=1)
    assert not found.complete
    assert found.total == found.lines
    assert children() == before


def test_plain_text_is_stopped_between_blocks() -> None:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b"needle\n" * 1_000

    found = search(pieces(), "needle", deadline=0.2, limit=1)
    assert not found.complete
    assert found.total == found.lines > 0


def test_an_expression_with_no_time_finds_nothing() -> None:
    found = search([LINES], "needle", regex=True, deadline=0)
    assert not found.complete


def test_an_interrupted_reading_leaves_no_process() -> None:
    def pieces() -> Iterator[bytes]:
        yield LINES * 10_000
        raise OSError("the file is gone")

    before = children()
    with pytest.raises(OSError, match="the file is gone"):
        search(pieces(), "needle", regex=True)
    assert children() == before


def test_memory_does_not_grow_with_the_output() -> None:
    tracemalloc.start()
    try:
        pieces = (b"some needle of text\r\n" * 500 + b"x" * 50_000 for _ in range(150))
        found = search(pieces, "needle")
        line = search((b"x" * 60_000 for _ in range(150)), "needle")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.total == 75_000
    assert line.lines == 1
    assert peak < 8_000_000


@pytest.mark.parametrize(
    ("text", "limit", "start", "end", "shown"),
    [
        ("short", 5, 0, 0, "short"),
        ("0123456789", 5, 0, 0, "0123…"),
        ("0123456789", 5, 9, 10, "…6789"),
        ("0123456789", 5, 5, 6, "…456…"),
        ("0123456789", 5, 1, 9, "…234…"),
    ],
)
def test_a_text_is_shortened_around_what_matters(
    text: str, limit: int, start: int, end: int, shown: str
) -> None:
    assert shorten(text, limit, start, end) == shown


WORDS = st.sampled_from(
    [
        *(
            b"needle",
            b"Needle",
            b"x" * 600,
            b"\r\n",
            b"\n",
            b"\r",
            b"\t",
            b"",
            b"\x1b[31m",
            b"\x1b[0m",
            b"nee",
        ),
        *(b"dle", b"\x1b[2A", b"\x1b[K", b"\v", "é🎉".encode(), b"\xff", b"hay\r\n" * 20_000, b"y" * 70_000),
    ]
)
OUTPUTS = st.lists(st.one_of(WORDS, st.binary(max_size=10)), max_size=30).map(b"".join)


@settings(max_examples=50, deadline=None)
@given(data=OUTPUTS, step=st.integers(1, 200_000), context=st.integers(0, 4))
def test_pieces_do_not_matter_and_each_line_is_searched(data: bytes, step: int, context: int) -> None:
    step = max(step, len(data) // 2_000 + 1)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    found = search(pieces, "needle", context=context)
    raw = data.split(b"\n")
    if not raw[-1]:
        raw.pop()
    texts = [visible(line + b"\n")[0] for line in raw]
    shown = [shorten(text, SHOWN) for text in texts]
    assert found.lines == len(raw)
    numbers = [number for number, text in enumerate(texts) if "needle" in text.lower()]
    assert [match.line - 1 for match in found.matches] == numbers[:50]
    for match in found.matches:
        at = match.line - 1
        assert match.offset == sum(len(line) + 1 for line in raw[:at])
        assert "needle" in match.text.lower()
        assert match.before == shown[max(0, at - context) : at]
        assert match.after == shown[at + 1 : at + 1 + context]


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300))
def test_there_is_one_text_for_each_line(data: bytes) -> None:
    assert len(visible(data + b"\n")) == data.count(b"\n") + 1
