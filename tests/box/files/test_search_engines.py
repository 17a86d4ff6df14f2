"""Both search engines give the same answers, whatever the pattern and the text."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glovebox.box.files.search.hits import MatchedLines
from glovebox.box.files.search.line_search import LineSearch, RipgrepOutput, search_with_ripgrep
from glovebox.box.files.search.pattern_parser import parse
from glovebox.box.files.search.patterns import InvalidPattern, SearchPattern, written_out
from glovebox.box.files.search.walk import Budget
from glovebox.box.threads import Threads

RIPGREP = shutil.which("rg")
pytestmark = pytest.mark.skipif(RIPGREP is None, reason="ripgrep is what is compared with")

#: Characters that engines are known to disagree about, among plain ones: marks, digits that are none,
#: letters with odd cases, joiners, separators, and characters beyond the first plane.
CHARACTERS = (
    "aAbBkKsSiI01_ .-\t\x0b\x1c\x85\u00b2\u00b5\u00df\u0130\u0131\u017f\u0301\u0661\u1e9e\u200d\u2028"
    "\u212a\u24b6\U0001f130\U00010400\U00010428\u4e2d"
)
SIGNS = st.sampled_from(CHARACTERS).map(lambda character: f"\\x{{{ord(character):x}}}")
NAMED = st.sampled_from([r"\w", r"\W", r"\d", r"\D", r"\s", r"\S"])
MEMBERS = st.one_of(
    SIGNS, NAMED, st.sampled_from(["a-z", "A-Z", "0-9", "\\x{80}-\\x{2fff}", "[:alpha:]", "[:^word:]"])
)
SETS = st.builds(
    lambda negated, members: f"[{negated}{''.join(members)}]",
    st.sampled_from(["", "^"]),
    st.lists(MEMBERS, min_size=1, max_size=3),
)
ANCHORS = st.sampled_from(["^", "$", r"\b"])
ATOMS = st.one_of(SIGNS, st.sampled_from("ab."), NAMED, SETS)
REPEATS = st.sampled_from(["", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{0}"])


def sequences(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds(
        lambda kind, options: f"({kind}{'|'.join(options)})",
        st.sampled_from(["", "?:", "?i:", "?-i:"]),
        st.lists(inner, min_size=1, max_size=3),
    )
    item = st.one_of(st.builds(str.__add__, st.one_of(ATOMS, groups), REPEATS), ANCHORS)
    return st.lists(item, max_size=4).map("".join)


PATTERNS = st.recursive(st.builds(str.__add__, ATOMS, REPEATS), sequences, max_leaves=6).filter(bool)

PIECES = st.one_of(
    st.sampled_from(CHARACTERS).map(str.encode),
    st.sampled_from(
        [b"\n", b"\n", b"\r\n", b"\r", b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xef\xbb\xbf"]
    ),
)
TEXTS = st.lists(PIECES, max_size=25).map(b"".join)
BINARY = st.builds(lambda before, after: before + b"\0" + after, TEXTS, TEXTS)
FILES = st.lists(st.one_of(TEXTS, TEXTS, TEXTS, BINARY), min_size=1, max_size=5)


async def without_ripgrep(pattern: SearchPattern, files: list[bytes], limit: int) -> MatchedLines:
    threads = Threads("test", 1)
    try:
        return await LineSearch(pattern, None, limit, Budget(60), threads).run([files])
    finally:
        threads.close()


async def with_ripgrep(pattern: str, files: list[bytes], limit: int) -> MatchedLines:
    """The same without anything to fall back upon."""
    assert RIPGREP is not None
    report = RipgrepOutput()
    assert await search_with_ripgrep(RIPGREP, pattern, files, report, most_lines=10_000)
    found = MatchedLines()
    for path in files:
        if path in report.files and not found.incomplete:
            found.add(report.files[path], limit)
    return found


@settings(max_examples=60, deadline=None)
@given(pattern=PATTERNS, ignore_case=st.booleans(), contents=FILES, limit=st.sampled_from([2, 1000]))
@example(pattern=r"\bk", ignore_case=True, contents=["\u212ak\n".encode()], limit=1000)
@example(pattern="x*$", ignore_case=False, contents=[b"\n\na", b""], limit=1000)
@example(pattern="()", ignore_case=False, contents=[b"a\n\nb", b""], limit=1000)
@example(pattern="(a|)", ignore_case=False, contents=[b"a\n\nb\0"], limit=1000)
def test_the_engines_agree(pattern: str, ignore_case: bool, contents: list[bytes], limit: int) -> None:
    try:
        written = written_out(parse(pattern, ignore_case=ignore_case))
    except InvalidPattern as error:
        assert "repe" in error.reason, (pattern, error.reason)
        return
    with tempfile.TemporaryDirectory() as directory:
        files = [f"{directory}/{index}".encode() for index in range(len(contents))]
        for path, content in zip(files, contents, strict=True):
            Path(path.decode()).write_bytes(content)
        own = asyncio.run(without_ripgrep(written, files, limit))
        if written.ripgrep is None:
            return
        assert asyncio.run(with_ripgrep(written.ripgrep, files, limit)) == own, (pattern, contents)
