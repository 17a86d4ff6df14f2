from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.box.files.search import grep
from glovebox.protocol.files import GrepAction
from tests.box.files.acting import Acting, below, needs_permissions, plant, plant_bytes_name
from tests.box.files.searching import matching


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    acting = Acting(tmp_path)
    yield acting
    acting.close()


async def test_lines_come_in_order_of_path_and_number(acting: Acting) -> None:
    plant(acting.directory, {"b": "x\n", "a/z": "x\nno\nx", "a.txt": "x\n", "Z": "x\n", "é": "x\n"})
    expected = ["Z:1:x", "a.txt:1:x", "a/z:1:x", "a/z:3:x", "b:1:x", "é:1:x"]
    assert await matching(acting, "x") == expected


@pytest.mark.attack
async def test_no_pattern_name_or_configuration_makes_ripgrep_run_a_program(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, program, config = (acting.directory / name for name in ("ran", "program", "config"))
    program.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n")
    program.chmod(0o755)
    config.write_text(f"--pre={program}\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    plant(acting.directory / "below", {"-x": "needle\n", f"--pre={program.name}": "needle\n"})
    found = await matching(acting, "needle", path=str(acting.directory / "below"))
    assert sorted(found) == [f"below/--pre={program.name}:1:needle", "below/-x:1:needle"]
    assert await matching(acting, f"--pre={program}", path=str(config)) == [f"config:1:--pre={program}"]
    assert not ran.exists()


TEXT = """\
def hello(name):
    print(f"Hello, {name}!")
\treturn None

# Größe café naïve ﬁ ǅ
x = [1, 22, 333] ** 2
foo.bar foo_bar foo-bar FOO
if (a && b) || c { d }
"""


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("hello", [1]),
        ("(?i)hello", [1, 2]),
        ("H(?i)ELLO", [2]),
        ("(?i:H)ello", [1, 2]),
        ("(?i)H(?-i)ELLO", []),
        ("^def", [1]),
        ("^\\s", [2, 3]),
        ("^\\t", [3]),
        ("None$", [3]),
        ("^$", [4]),
        ("\\d{2,3}", [6]),
        ("\\d{2}\\b", [6]),
        ("\\bfoo\\b", [7]),
        ("foo\\.bar", [7]),
        ("foo.bar.*FOO$", [7]),
        ("[[:digit:]]+,", [6]),
        ("[^\\x00-\\x7f]", [5]),
        ("Gr.{2}e", [5]),
        ("gr[öo]ß", []),
        ("(?i)GRÖSSE", []),
        ("(?i)GRÖßE", [5]),
        ("caf\\w\\b", [5]),
        ("na\\u00efve", [5]),
        ("\\x{FB01}", [5]),
        ("(?i)ǆ", [5]),
        ("\\{name\\}", [2]),
        ("{name}", [2]),
        ("{ d }", [8]),
        ("a && b", [8]),
        ("(hello|return|c) ", [3, 8]),
        ("(?P<word>ret)urn", [3]),
        ("(?<word>ret)urn", [3]),
        ("ret(?:urn)? N", [3]),
        ("l{2}", [1, 2]),
        ("l{2,}o", [1, 2]),
        ("l{,2}o,", [2]),
        ("x*", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("(x|)$", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("[]]", [6]),
        ("[a-]b", [7]),
        ("[\\w-]bar", [7]),
        ("[^\\W_]bar", []),
        ("\\B_bar", [7]),
        ("\\Bhello", []),
        ("\\S+\\(name\\)", [1]),
        ("\\*\\*", [6]),
        ("\\|\\|", [8]),
        ("a.*?b", [7, 8]),
        ("\\p{Lu}{3}", [7]),
        ("\\<foo\\>", [7]),
        ("[a-z&&[^o]]{3}l", [1]),
        ("(?x) h e l l o", [1]),
        ("[[.]x] = [{^$.\\[]", [6]),
        ("[^.[:alpha:]\\s]{6}", []),
        ("(l++)o$", []),
    ],
)
async def test_a_pattern_matches_the_lines_it_describes(
    acting: Acting, pattern: str, numbers: list[int]
) -> None:
    plant(acting.directory, {"file": TEXT})
    answer = await acting.do(GrepAction(pattern=pattern))
    assert [match.line for match in answer.matches] == numbers


async def test_a_literal_is_found_as_it_is(acting: Acting) -> None:
    plant(acting.directory, {"file": TEXT})
    assert await matching(acting, "[1, 22, 333] ** 2", literal=True) == ["file:6:x = [1, 22, 333] ** 2"]
    assert await matching(acting, "(NAME)", literal=True) == []
    assert await matching(acting, "(NAME)", literal=True, ignore_case=True) == ["file:1:def hello(name):"]
    assert await matching(acting, "GRÖßE", literal=True, ignore_case=True) != []


async def test_line_endings_of_both_kinds_are_no_part_of_a_line(acting: Acting) -> None:
    plant(
        acting.directory, {"dos": "one\r\ntwo\r\n\r\nfour", "unix": "one\ntwo\n\nfour\n", "old": "one\rtwo"}
    )
    assert await matching(acting, "o$") == ["dos:2:two", "old:1:one\rtwo", "unix:2:two"]
    assert await matching(acting, "^$") == ["dos:3:", "unix:3:"]
    assert await matching(acting, "^...$") == ["dos:1:one", "dos:2:two", "unix:1:one", "unix:2:two"]
    assert await matching(acting, "four") == ["dos:4:four", "unix:4:four"]


async def test_a_byte_order_mark_hides_nothing(acting: Acting) -> None:
    plant(acting.directory, {"file": b"\xef\xbb\xbf#include\n#include\n"})
    assert await matching(acting, "^#include$") == ["file:1:#include", "file:2:#include"]


async def test_bytes_that_are_no_text_are_matched_by_nothing_and_shown_replaced(acting: Acting) -> None:
    plant(acting.directory, {"latin": b"caf\xe9 latte\ncaf\xc3\xa9\n\xff\xfe\n"})
    assert await matching(acting, "caf.") == ["latin:2:café"]
    assert await matching(acting, "latte") == ["latin:1:caf\N{REPLACEMENT CHARACTER} latte"]
    assert await matching(acting, "^[^x]+$") == ["latin:2:café"]
    assert await matching(acting, "^$") == []


async def test_binary_files_are_left_out_and_counted_when_they_match(acting: Acting) -> None:
    plant(
        acting.directory,
        {
            "early": b"\0needle\n",
            "late": b"needle\n" + b"x" * 200_000 + b"\n\0\nneedle\n",
            "other": b"\0hay\n",
            "text": "needle\n",
        },
    )
    answer = await acting.do(GrepAction(pattern="needle"))
    assert below(acting.directory, [match.path for match in answer.matches]) == ["text"]
    assert (answer.total, answer.files, answer.binary) == (1, 1, 2)
    assert "2 binary files" in answer.content


async def test_include_hidden_and_gitignore_choose_the_files(acting: Acting) -> None:
    plant(
        acting.directory,
        {
            ".git/HEAD": "x",
            ".gitignore": "out/\n",
            "a.py": "x",
            "src/b.py": "x",
            "src/c.ts": "x",
            "out/d.py": "x",
            ".hidden/e.py": "x",
        },
    )
    assert await matching(acting, "x") == ["a.py:1:x", "src/b.py:1:x", "src/c.ts:1:x"]
    assert await matching(acting, "x", include="*.py") == ["a.py:1:x", "src/b.py:1:x"]
    assert await matching(acting, "x", include="src/*.{py,ts}") == ["src/b.py:1:x", "src/c.ts:1:x"]
    assert await matching(acting, "x", include="nowhere/*") == []
    assert await matching(acting, "x", include="..hidden/*") == []
    assert await matching(acting, "x", include="*.py", hidden=True) == [
        ".hidden/e.py:1:x",
        "a.py:1:x",
        "src/b.py:1:x",
    ]
    assert await matching(acting, "x", include="*.py", respect_gitignore=False) == [
        "a.py:1:x",
        "out/d.py:1:x",
        "src/b.py:1:x",
    ]
    assert await matching(acting, "x", path="out") == ["out/d.py:1:x"]


async def test_a_single_file_is_searched_whatever_it_is_called(acting: Acting) -> None:
    plant(acting.directory, {".hidden": "x\ny\n", "-": "x\n", "-e": "x\n"})
    assert await matching(acting, "x", path=".hidden", include="*.py") == [".hidden:1:x"]
    assert await matching(acting, "x") == ["-:1:x", "-e:1:x"]
    (acting.directory / "link").symlink_to(".hidden")
    assert await matching(acting, "y", path="link") == ["link:2:y"]


async def test_context_surrounds_each_match(acting: Acting) -> None:
    plant(acting.directory, {"file": "1\n2\nx3\n4\nx5\n6\n7\n8\nx9", "next": "x"})
    answer = await acting.do(GrepAction(pattern="x", context=1))
    assert [(match.before, match.after) for match in answer.matches] == [
        (["2"], ["4"]),
        (["4"], ["6"]),
        (["8"], []),
        ([], []),
    ]
    path, following = acting.directory / "file", acting.directory / "next"
    assert answer.content.splitlines() == [
        f"{path}-2-2",
        f"{path}:3:x3",
        f"{path}-4-4",
        f"{path}:5:x5",
        f"{path}-6-6",
        "--",
        f"{path}-8-8",
        f"{path}:9:x9",
        "--",
        f"{following}:1:x",
    ]
    answer = await acting.do(GrepAction(pattern="x5", context=2, before=3, after=0))
    assert (answer.matches[0].before, answer.matches[0].after) == (["2", "x3", "4"], [])


async def test_pages_follow_each_other(acting: Acting) -> None:
    plant(acting.directory, {"a": "x\n" * 3, "b": "x\n" * 4})
    pages = [await acting.do(GrepAction(pattern="x", limit=3))]
    while (offset := pages[-1].next_offset) is not None:
        pages.append(await acting.do(GrepAction(pattern="x", limit=3, offset=offset)))
    assert [len(page.matches) for page in pages] == [3, 3, 1]
    assert {(page.total, page.files) for page in pages} == {(7, 2)}
    assert [match.line for page in pages for match in page.matches] == [1, 2, 3, 1, 2, 3, 4]
    assert (
        pages[0].content.splitlines()[-1]
        == "[1-3 of 7 matching lines in 2 files. The next page is at offset 3.]"
    )
    beyond = await acting.do(GrepAction(pattern="x", offset=50))
    assert (beyond.matches, beyond.total, beyond.next_offset) == ([], 7, None)


async def test_a_page_of_much_text_ends_early(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "_MAX_PAGE", 5_000)
    plant(acting.directory, {"a": ("x" * 900 + "\n") * 20})
    first = await acting.do(GrepAction(pattern="x"))
    assert first.next_offset is not None
    assert len(first.matches) == first.next_offset < 10
    second = await acting.do(GrepAction(pattern="x", offset=first.next_offset))
    assert second.matches[0].line == first.next_offset + 1


async def test_long_lines_are_cut_around_the_match(acting: Acting) -> None:
    plant(
        acting.directory,
        {
            "a": "é" * 50_000 + "needle" + "ü" * 50_000 + "\n",
            "b": "needle" + "x" * 5_000,
            "c": "x" * 5_000 + "needle\r\n",
            "d": "x" * 994 + "needle\n",
        },
    )
    answer = await acting.do(GrepAction(pattern="needle"))
    middle, start, end, whole = (match.text for match in answer.matches)
    assert middle.startswith("[…]éé")
    assert middle.endswith("üü[…]")
    assert "éneedleü" in middle
    assert start.startswith("needlexx")
    assert start.endswith("x[…]")
    assert end.startswith("[…]xx")
    assert end.endswith("xneedle")
    assert {len(text.replace("[…]", "")) for text in (middle, start, end, whole)} == {1000}


async def test_long_lines_of_context_are_cut_too(acting: Acting) -> None:
    plant(acting.directory, {"a": "x" * 300_000 + "\nneedle\n" + "y" * 300_000 + "\n"})
    (match,) = (await acting.do(GrepAction(pattern="needle", context=2))).matches
    assert match.before == ["[…]" + "x" * 1000]
    assert match.after == ["y" * 1000 + "[…]"]


async def test_names_that_are_not_utf8_are_searched(acting: Acting) -> None:
    plant_bytes_name(acting.directory, b"bad\xff.txt", b"x\n")
    assert await matching(acting, "x") == ["bad\N{REPLACEMENT CHARACTER}.txt:1:x"]


async def test_pipes_devices_and_links_are_passed_by(acting: Acting) -> None:
    os.mkfifo(acting.directory / "pipe")
    plant(acting.directory, {"a": "x\n"})
    (acting.directory / "link").symlink_to("a")
    (acting.directory / "loop").symlink_to(".")
    assert await matching(acting, "x") == ["a:1:x"]
    refused = await acting.refused(GrepAction(pattern="x", path="pipe"))
    assert refused.error_id == "not_a_file"


@needs_permissions
async def test_what_cannot_be_read_is_counted(acting: Acting) -> None:
    plant(acting.directory, {"open": "x", "closed": "x", "directory/a": "x"})
    (acting.directory / "closed").chmod(0)
    (acting.directory / "directory").chmod(0)
    try:
        answer = await acting.do(GrepAction(pattern="x"))
        alone = await acting.refused(GrepAction(pattern="x", path="closed"))
    finally:
        (acting.directory / "directory").chmod(0o700)
    assert alone.error_id == "permission_denied"
    assert (answer.total, answer.skipped) == (1, 2)
    assert "could not be read" in answer.content


@pytest.mark.parametrize(
    ("pattern", "where"),
    [
        ("", 1),
        ("a(b", 2),
        ("a)b", 2),
        ("a[b", 2),
        ("a\\", 2),
        ("*a", 1),
        ("a|*", 3),
        ("a{3,2}", 2),
        ("(?=a)", 1),
        ("x(?<!a)b", 2),
        ("(a)\\1", 4),
        ("a\\nb", 2),
        ("a\nb", 2),
        ("[z-a]", 2),
        ("[a-\\d]", 4),
        ("\\y", 1),
        ("(?#a)", 3),
        ("(?P=a)", 3),
        ("a.*$\\x{110000}", 5),
        ("(" * 300 + ")" * 300, 250),
        ("a" * 10_001, 10_001),
    ],
)
async def test_a_pattern_that_is_wrong_is_told_where(acting: Acting, pattern: str, where: int) -> None:
    refused = await acting.refused(GrepAction(pattern=pattern))
    assert refused.error_id == "invalid_pattern"
    assert f"at character {where}:" in refused.content


@pytest.mark.parametrize(
    ("action", "error_id"),
    [
        (GrepAction(pattern="^" * 10_000), "invalid_pattern"),
        (GrepAction(pattern="\\w{1000}{1000}"), "invalid_pattern"),
        (GrepAction(pattern="x", limit=0), "invalid_argument"),
        (GrepAction(pattern="x", limit=10_001), "invalid_argument"),
        (GrepAction(pattern="x", offset=-1), "invalid_argument"),
        (GrepAction(pattern="x", context=-1), "invalid_argument"),
        (GrepAction(pattern="x", before=101), "invalid_argument"),
        (GrepAction(pattern="x", path=""), "invalid_argument"),
        (GrepAction(pattern="x", path="\0"), "invalid_argument"),
        (GrepAction(pattern="x", include="/etc/*"), "invalid_argument"),
        (GrepAction(pattern="x", include="../*"), "invalid_argument"),
        (GrepAction(pattern="x", include="[a"), "invalid_pattern"),
        (GrepAction(pattern="a\nb", literal=True), "invalid_pattern"),
        (GrepAction(pattern="", literal=True), "invalid_pattern"),
        (GrepAction(pattern="x", path="missing"), "not_found"),
        (GrepAction(pattern="x", path="file/below"), "not_a_directory"),
        (GrepAction(pattern="x", path="/dev/null"), "not_a_file"),
    ],
)
async def test_what_cannot_be_searched_is_refused(acting: Acting, action: GrepAction, error_id: str) -> None:
    plant(acting.directory, {"file": ""})
    assert (await acting.refused(action)).error_id == error_id


async def test_a_file_that_a_command_is_still_writing_is_found(acting: Acting) -> None:
    async def finish() -> None:
        plant(acting.directory, {"late": "x"})

    acting.shell.when_asked = finish
    answer = await acting.do(GrepAction(pattern="x", path="late"))
    assert answer.total == 1
    assert acting.shell.asked == 1


async def test_nothing_found_is_said(acting: Acting) -> None:
    answer = await acting.do(GrepAction(pattern="x"))
    assert (answer.matches, answer.total, answer.incomplete) == ([], 0, False)
    assert answer.content == f"No line in {acting.directory} matches x."
