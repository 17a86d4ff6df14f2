"""Patterns mean to ripgrep what they mean to others, and a wrong one is an error that says where."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.ripgrep import Expression, InvalidPattern, ripgrep

LITERALS = st.sampled_from(["a", "b", "ab", " ", "\\.", "\\{", "\\[", "\\$", "\\^", "{a", "}", "{}"])
SETS = st.builds(
    lambda negated, members: f"[{negated}{''.join(members)}]",
    st.sampled_from(["", "^"]),
    st.lists(
        st.sampled_from(["a", "b-c", "$", ".", "{", "}", "\\]", "\\^", "(", ")"]), min_size=1, max_size=3
    ),
)
ATOMS = st.one_of(LITERALS, SETS, st.sampled_from([".", "^", "$", "\\b", "\\w", "\\d", "\\S"]))
REPEATS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{0,2}", "{,1}", "+?"])


def sequences(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds(
        lambda kind, options, repeat: f"({kind}{'|'.join(options)}){repeat}",
        st.sampled_from(["", "?:", "?i:"]),
        st.lists(inner, min_size=1, max_size=3),
        REPEATS,
    )
    repeated = st.builds(str.__add__, st.one_of(st.sampled_from(["a", "b", ".", "\\w"]), SETS), REPEATS)
    return st.lists(st.one_of(repeated, ATOMS, groups), min_size=1, max_size=4).map("".join)


PATTERNS = st.recursive(ATOMS, sequences, max_leaves=6)
LINES = st.lists(st.text("abAB1 .{}[]()$^", max_size=6), min_size=1, max_size=8)


def run(pattern: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Raises InvalidPattern as a search does."""
    expression = Expression(pattern)
    command = [
        ripgrep(),
        "--no-config",
        "--text",
        "--line-number",
        "--encoding=none",
        "-e",
        expression.text,
        "-",
    ]
    done = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
    if done.returncode == 2:
        raise expression.error(done.stderr.decode())
    return done


@settings(max_examples=100, deadline=None)
@given(pattern=PATTERNS, lines=LINES, end=st.sampled_from(["\n", "\r\n"]))
def test_patterns_match_the_lines_that_python_matches(pattern: str, lines: list[str], end: str) -> None:
    if "[^" in pattern:
        end = "\n"  # such a set has the other half of a line ending in it
    printed = run(pattern, (end.join(lines) + end).encode()).stdout
    found = [int(line.partition(b":")[0]) for line in printed.splitlines()]
    expected = re.compile(re.sub(r"(?<!\\)\{,1\}", "{0,1}", pattern))
    assert found == [number for number, line in enumerate(lines, 1) if expected.search(line)]


@settings(max_examples=100, deadline=None)
@given(pattern=st.text("()[]{}|*+?^$.\\-,:<>=!&~#aApPx1n \n\r\t\0é", min_size=1, max_size=12))
def test_any_text_is_a_pattern_or_an_error_with_a_place_in_it(pattern: str) -> None:
    try:
        run(pattern, b"a\n")
    except InvalidPattern as error:
        assert error.reason
        assert error.position is None or 0 <= error.position < len(pattern)


@given(
    text=st.text(min_size=1, max_size=20).filter(lambda text: not re.search("[\0\r\n\ud800-\udfff]", text))
)
@settings(max_examples=50, deadline=None)
def test_a_literal_matches_itself(text: str) -> None:
    expression = Expression(text, literal=True)
    command = [ripgrep(), "--no-config", "--text", "--count", "-e", expression.text, "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, check=False)
    assert done.stdout == b"1\n", done.stderr


@pytest.mark.parametrize(
    ("pattern", "where"), [("a.$(?=b)", 3), ("[a.^]$\\y", 6), ("é{2,1}", 1), ("^[z-a]", 2)]
)
def test_the_place_of_a_mistake_is_that_in_the_pattern_as_given(pattern: str, where: int) -> None:
    with pytest.raises(InvalidPattern) as refused:
        run(pattern, b"")
    assert refused.value.position == where
