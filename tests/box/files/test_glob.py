from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st

from glovebox.box.files.search import glob
from glovebox.box.files.search.glob_pattern import GlobMatcher, parse_glob
from glovebox.protocol.files import GlobAction, GlobObservation
from tests.box.files.acting import Acting, below, needs_permissions, plant, plant_bytes_name


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    acting = Acting(tmp_path)
    yield acting
    acting.close()


async def found(
    acting: Acting, pattern: str, path: str = ".", hidden: bool = False, gitignore: bool = True
) -> set[str]:
    """What a pattern finds, relative to the test's directory."""
    answer = await acting.do(
        GlobAction(pattern=pattern, path=path, hidden=hidden, respect_gitignore=gitignore)
    )
    assert len(set(answer.matches)) == len(answer.matches) == answer.total
    return set(below(acting.directory, answer.matches))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", {"a.py", "src/b.py", "src/deep/c.py", "test/d.py"}),
        ("**/*.py", {"a.py", "src/b.py", "src/deep/c.py", "test/d.py"}),
        ("./*.py", {"a.py"}),
        ("src/*.py", {"src/b.py"}),
        ("src/**", {"src/b.py", "src/b.ts", "src/deep/c.py"}),
        ("src/**/*.py", {"src/b.py", "src/deep/c.py"}),
        ("**/deep/*", {"src/deep/c.py"}),
        ("*/deep/*", {"src/deep/c.py"}),
        ("{src,test}/*.{py,ts}", {"src/b.py", "src/b.ts", "test/d.py"}),
        ("{src/{deep/c,b},a}.py", {"src/deep/c.py", "src/b.py", "a.py"}),
        ("[ab].py", {"a.py", "src/b.py"}),
        ("[!ab].py", {"src/deep/c.py", "test/d.py"}),
        ("[^ab].py", {"src/deep/c.py", "test/d.py"}),
        ("[a-c].??", {"a.py", "src/b.py", "src/b.ts", "src/deep/c.py"}),
        ("[[:alpha:]].ts", {"src/b.ts"}),
        ("src//b.py", {"src/b.py"}),
        ("no/such/place/*", set()),
        ("a.py/*", set()),
        ("B.py", set()),
        ("b", set()),
    ],
)
async def test_a_pattern_finds_what_it_describes(acting: Acting, pattern: str, expected: set[str]) -> None:
    plant(
        acting.directory,
        dict.fromkeys(["a.py", "src/b.py", "src/b.ts", "src/deep/c.py", "test/d.py", "test/readme"], ""),
    )
    assert await found(acting, pattern) == expected


async def test_signs_are_taken_literally_behind_a_backslash_or_in_a_set(acting: Acting) -> None:
    plant(acting.directory, dict.fromkeys(["a*b", "axb", "{c}", "[d]", "e]", "f,g"], ""))
    assert await found(acting, r"a\*b") == {"a*b"}
    assert await found(acting, "a[*]b") == {"a*b"}
    assert await found(acting, r"\{c\}") == {"{c}"}
    assert await found(acting, r"\[d]") == {"[d]"}
    assert await found(acting, "e[]]") == {"e]"}
    assert await found(acting, r"{f\,g,a*b}") == {"f,g", "a*b", "axb"}


async def test_a_slash_at_the_end_finds_directories(acting: Acting) -> None:
    plant(acting.directory, dict.fromkeys(["src/a/x", "src/b/a/x", "a.txt"], ""))
    (acting.directory / "link").symlink_to("src")
    assert await found(acting, "a/") == {"src/a", "src/b/a"}
    assert await found(acting, "src/*/") == {"src/a", "src/b"}
    assert await found(acting, "*/") == {"src", "src/a", "src/b", "src/b/a", "link"}


async def test_paths_are_absolute_and_a_pattern_may_be(acting: Acting) -> None:
    plant(acting.directory, dict.fromkeys(["src/a.py", "src/deep/b.py"], ""))
    answer = await acting.do(GlobAction(pattern="*.py", path="src/deep"))
    assert answer.matches == [str(acting.directory / "src/deep/b.py")]
    assert answer.path == str(acting.directory / "src/deep")
    answer = await acting.do(GlobAction(pattern=f"{acting.directory}/src/*.py", path="/nowhere"))
    assert answer.matches == [str(acting.directory / "src/a.py")]
    assert answer.path == str(acting.directory / "src")
    answer = await acting.do(GlobAction(pattern="../*.py", path="src/deep"))
    assert answer.matches == [str(acting.directory / "src/a.py")]


async def test_the_newest_come_first_and_pages_follow_each_other(acting: Acting) -> None:
    plant(acting.directory, {f"{index}.txt": "" for index in range(7)})
    pages: list[GlobObservation] = []
    offset: int | None = 0
    while offset is not None:
        pages.append(await acting.do(GlobAction(pattern="*.txt", offset=offset, limit=3)))
        offset = pages[-1].next_offset
    names = [os.path.basename(match) for page in pages for match in page.matches]
    assert names == [f"{index}.txt" for index in reversed(range(7))]
    assert [page.total for page in pages] == [7, 7, 7]
    assert pages[0].content.splitlines()[:3] == pages[0].matches
    assert "offset 3" in pages[0].content.splitlines()[-1]
    beyond = await acting.do(GlobAction(pattern="*.txt", offset=100))
    assert (beyond.matches, beyond.total, beyond.next_offset) == ([], 7, None)


async def test_files_of_the_same_age_are_ordered_by_path(acting: Acting) -> None:
    plant(acting.directory, dict.fromkeys(["b", "a/z", "c", "a.txt"], ""))
    for path in acting.directory.rglob("*"):
        os.utime(path, (5, 5))
    answer = await acting.do(GlobAction(pattern="*"))
    assert below(acting.directory, answer.matches) == ["a.txt", "a/z", "b", "c"]


async def test_hidden_names_must_be_asked_for(acting: Acting) -> None:
    plant(acting.directory, dict.fromkeys([".env", "a/.env", ".github/ci.yml", ".git/config", "b"], ""))
    assert await found(acting, "*") == {"b"}
    assert await found(acting, "*", hidden=True) == {".env", "a/.env", ".github/ci.yml", "b"}
    assert await found(acting, ".env") == {".env", "a/.env"}
    assert await found(acting, ".e*") == {".env", "a/.env"}
    assert await found(acting, ".github/**") == {".github/ci.yml"}
    assert await found(acting, "{b,.github/*}") == {"b", ".github/ci.yml"}
    assert await found(acting, ".git/*") == {".git/config"}
    assert await found(acting, "*", path=".git") == {".git/config"}


async def test_what_git_ignores_is_left_out_unless_asked_for(acting: Acting) -> None:
    plant(
        acting.directory,
        {
            ".git/HEAD": "",
            ".git/info/exclude": "secret.txt\n",
            ".gitignore": "*.log\n/build/\nnode_modules\n!keep.log\n",
            "sub/.gitignore": "!special.log\n*.tmp\n",
            "a.log": "",
            "keep.log": "",
            "secret.txt": "",
            "build/out.js": "",
            "sub/build/out.js": "",
            "sub/special.log": "",
            "sub/x.tmp": "",
            "x.tmp": "",
            "node_modules/pkg/index.js": "",
        },
    )
    shown = {"keep.log", "sub/build/out.js", "sub/special.log", "x.tmp"}
    assert await found(acting, "*") == shown
    assert await found(acting, "*", gitignore=False) == shown | {
        "a.log",
        "secret.txt",
        "build/out.js",
        "sub/x.tmp",
        "node_modules/pkg/index.js",
    }
    assert await found(acting, "*.log", path="sub") == {"sub/special.log"}


async def test_a_directory_that_is_ignored_can_be_searched_by_naming_it(acting: Acting) -> None:
    plant(
        acting.directory, {".git/HEAD": "", ".gitignore": "node_modules/\n", "node_modules/pkg/index.js": ""}
    )
    assert await found(acting, "*.js") == set()
    assert await found(acting, "*.js", path="node_modules") == {"node_modules/pkg/index.js"}
    assert await found(acting, "node_modules/pkg/*.js") == {"node_modules/pkg/index.js"}
    answer = await acting.do(GlobAction(pattern="*.js"))
    assert "respect_gitignore" in answer.content


async def test_a_gitignore_means_nothing_outside_a_repository(acting: Acting) -> None:
    plant(acting.directory, {".gitignore": "*.log\n", "a.log": "", "repo/.git/HEAD": "", "repo/a.log": ""})
    assert await found(acting, "*.log") == {"a.log", "repo/a.log"}
    plant(acting.directory, {"repo/.gitignore": "*.log\n"})
    assert await found(acting, "*.log") == {"a.log"}


async def test_the_rules_of_a_repository_end_where_another_begins(acting: Acting) -> None:
    plant(
        acting.directory,
        {".git/HEAD": "", ".gitignore": "*.log\n", "a.log": "", "inner/.git/HEAD": "", "inner/b.log": ""},
    )
    assert await found(acting, "*.log") == {"inner/b.log"}


async def test_links_to_files_are_listed_and_links_to_directories_not_entered(acting: Acting) -> None:
    plant(acting.directory, {"real/a.txt": ""})
    (acting.directory / "file.txt").symlink_to("real/a.txt")
    (acting.directory / "broken.txt").symlink_to("nowhere")
    (acting.directory / "directory.txt").symlink_to("real")
    (acting.directory / "loop.txt").symlink_to("loop.txt")
    (acting.directory / "real/up").symlink_to("..")
    assert await found(acting, "*.txt") == {"real/a.txt", "file.txt", "broken.txt", "loop.txt"}
    # A link that is named leads on.
    assert await found(acting, "directory.txt/*") == {"directory.txt/a.txt"}
    assert await found(acting, "*", path="real/up/real") == {"real/up/real/a.txt"}


async def test_names_that_are_not_utf8_can_be_sent(acting: Acting) -> None:
    plant_bytes_name(acting.directory, b"bad\xff.txt")
    answer = await acting.do(GlobAction(pattern="*.txt"))
    assert answer.matches == [f"{acting.directory}/bad\N{REPLACEMENT CHARACTER}.txt"]
    assert "not UTF-8" in answer.content
    assert "bad" in msgspec.json.encode(answer).decode()


@pytest.mark.skipif(not os.path.exists("/proc/version"), reason="there is no /proc")
async def test_views_of_the_running_system_are_entered_only_when_named(acting: Acting) -> None:
    assert (await acting.do(GlobAction(pattern="/?roc/version"))).total == 0
    assert (await acting.do(GlobAction(pattern="/proc/versio?"))).total == 1


async def test_a_link_into_a_repository_is_searched_by_its_rules(acting: Acting) -> None:
    plant(
        acting.directory,
        {"repo/.git/HEAD": "", "repo/.gitignore": "*.log\n", "repo/src/a.log": "", "repo/src/b": ""},
    )
    (acting.directory / "link").symlink_to("repo/src")
    assert await found(acting, "*", path="link") == {"link/b"}


@needs_permissions
async def test_directories_that_cannot_be_read_are_counted(acting: Acting) -> None:
    plant(acting.directory, {"open/a": "", "closed/b": ""})
    (acting.directory / "closed").chmod(0)
    try:
        answer = await acting.do(GlobAction(pattern="*"))
        closed = await acting.refused(GlobAction(pattern="*", path="closed"))
    finally:
        (acting.directory / "closed").chmod(0o700)
    assert answer.matches == [str(acting.directory / "open/a")]
    assert answer.skipped == 1
    assert "could not be read" in answer.content
    assert closed.error_id == "permission_denied"


@pytest.mark.parametrize(
    ("action", "error_id"),
    [
        (GlobAction(pattern="*", limit=0), "invalid_argument"),
        (GlobAction(pattern="*", limit=10_001), "invalid_argument"),
        (GlobAction(pattern="*", offset=-1), "invalid_argument"),
        (GlobAction(pattern="*", path=""), "invalid_argument"),
        (GlobAction(pattern="*", path="a\0b"), "invalid_argument"),
        (GlobAction(pattern="*", path="\ud800"), "invalid_argument"),
        (GlobAction(pattern=""), "invalid_pattern"),
        (GlobAction(pattern="/"), "invalid_pattern"),
        (GlobAction(pattern="a\0"), "invalid_pattern"),
        (GlobAction(pattern="src/[a"), "invalid_pattern"),
        (GlobAction(pattern="src/{a,b"), "invalid_pattern"),
        (GlobAction(pattern="src/a}"), "invalid_pattern"),
        (GlobAction(pattern="a\\"), "invalid_pattern"),
        (GlobAction(pattern="*/../b"), "invalid_pattern"),
        (GlobAction(pattern="{/a,b}"), "invalid_pattern"),
        (GlobAction(pattern="{a,b}" * 12), "invalid_pattern"),
        (GlobAction(pattern="{" * 500 + "}" * 500), "invalid_pattern"),
        (GlobAction(pattern="*", path="missing"), "not_found"),
        (GlobAction(pattern="*", path="file"), "not_a_directory"),
        (GlobAction(pattern="*", path="file/below"), "not_a_directory"),
    ],
)
async def test_what_cannot_be_searched_is_refused(acting: Acting, action: GlobAction, error_id: str) -> None:
    plant(acting.directory, {"file": ""})
    assert (await acting.refused(action)).error_id == error_id


async def test_a_refused_pattern_is_told_where_it_is_wrong(acting: Acting) -> None:
    refused = await acting.refused(GlobAction(pattern="src/[a"))
    assert "character 5" in refused.content
    assert refused.content.splitlines()[1:] == ["  src/[a", "      ^"]


async def test_a_directory_that_a_command_is_still_making_is_found(acting: Acting) -> None:
    async def finish() -> None:
        plant(acting.directory, {"late/a": ""})

    acting.shell.when_asked = finish
    assert await found(acting, "*", path="late") == {"late/a"}
    assert acting.shell.asked == 1
    assert await found(acting, "*", path="late") == {"late/a"}
    assert await found(acting, "nothing*") == set()
    assert acting.shell.asked == 1, "what exists waits for nobody"


async def test_a_search_without_time_answers_what_it_has(acting: Acting) -> None:
    plant(acting.directory, {"a": ""})
    answer = await acting.do(GlobAction(pattern="*", timeout=0))
    assert answer.incomplete
    assert answer.matches == []
    assert "ended early" in answer.content


async def test_a_search_ends_at_its_limit_of_results(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glob, "MAX_RESULTS", 3)
    plant(acting.directory, {str(index): "" for index in range(4)})
    answer = await acting.do(GlobAction(pattern="*"))
    assert (answer.total, answer.incomplete) == (3, True)
    answer = await acting.do(GlobAction(pattern="[012]"))
    assert (answer.total, answer.incomplete) == (3, False)


async def test_a_search_does_not_block_the_event_loop(acting: Acting) -> None:
    plant(acting.directory, {".git/HEAD": "", ".gitignore": "c", "a/b": ""})
    with blockbuster_ctx():
        answer = await acting.do(GlobAction(pattern="*"))
    assert answer.total == 1


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    matcher = GlobMatcher(parse_glob("*a" * 40 + "b"), hidden=False)
    started = time.process_time()
    assert not matcher.matches("a" * 250)
    assert time.process_time() - started < 1


COMPONENTS = st.sampled_from(["*", "?", "a", "b", "ab", "*a", "a*", "*a*b", "[ab]", "[!a]", ".a", ".*", "**"])
NAMES = st.sampled_from(["a", "b", "ab", "ba", "aab", ".a", ".b", ".git", "x"])


@given(st.lists(COMPONENTS, min_size=1, max_size=4), st.lists(NAMES, min_size=1, max_size=4), st.booleans())
def test_a_matcher_agrees_with_the_definition(components: list[str], names: list[str], hidden: bool) -> None:
    pattern = "/".join(components)
    glob = parse_glob("x/" + pattern)  # a base, so that there is a slash and nothing is taken off twice
    matcher = GlobMatcher(parse_glob("{x,y}/" + pattern), hidden=hidden)
    assert glob.base.split("/")[0] == "x"
    assert matcher.matches("/".join(["x", *names])) == _matches(components, names, hidden)


def _matches(components: list[str], names: list[str], hidden: bool) -> bool:
    """The meaning of a pattern, written down as plainly as possible."""
    if not components:
        return not names
    first, rest = components[0], components[1:]
    if first == "**":
        if not rest:
            rest = ["*"]
        deeper = bool(names) and _wild(names[0], "*", hidden) and _matches(components, names[1:], hidden)
        return deeper or _matches(rest, names, hidden)
    return bool(names) and _wild(names[0], first, hidden) and _matches(rest, names[1:], hidden)


def _wild(name: str, pattern: str, hidden: bool) -> bool:
    plain = not set(pattern) & set("*?[")
    if not plain and (name == ".git" or (name.startswith(".") and not hidden and pattern[0] != ".")):
        return False
    return _plainly(name, pattern)


def _plainly(name: str, pattern: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_plainly(name[index:], pattern[1:]) for index in range(len(name) + 1))
    if not name:
        return False
    if pattern[0] == "[":
        end = pattern.index("]")
        negated = pattern[1] == "!"
        return ((name[0] in pattern[1:end]) != negated) and _plainly(name[1:], pattern[end + 1 :])
    return (pattern[0] == "?" or pattern[0] == name[0]) and _plainly(name[1:], pattern[1:])
