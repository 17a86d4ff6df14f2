"""Ignore rules, with git itself as the judge."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glovebox.box.files.search.glob_pattern import GlobMatcher, parse_glob
from glovebox.box.files.search.walk import Budget, IgnoreFile, Walk, parse_rules
from tests.box.files.acting import plant

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge")

FILES = [
    "a",
    "b.log",
    "a b ",
    "#c",
    "!d",
    "build/a",
    "build/b.log",
    "src/a",
    "src/b.log",
    "src/build/a",
    "src/build/x/y.log",
    "src/x/build/a",
    "doc/a/b/c",
    "doc/[x]",
    "doc/back\\slash",
]


def not_ignored(root: Path) -> set[str]:
    """What a walk finds."""
    matcher = GlobMatcher(parse_glob("*"), hidden=False)
    return {path for path, _ in Walk(str(root), matcher, gitignore=True, budget=Budget(30))}


def not_ignored_by_git(root: Path) -> set[str]:
    command = ["git", "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True, timeout=30).stdout
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    return {name for name in names if not any(part.startswith(".") for part in name.split("/"))}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True, timeout=30)
    plant(root, dict.fromkeys(FILES, ""))
    return root


def agrees(root: Path, top: str, below: str = "") -> None:
    (root / ".gitignore").write_text(top)
    (root / "src/.gitignore").write_text(below)
    assert not_ignored(root) == not_ignored_by_git(root), (top, below)


@needs_git
@pytest.mark.parametrize(
    "rules",
    [
        "*.log",
        "*.log\n!src/b.log",
        "build",
        "build/",
        "/build",
        "/build/\n!/build/a",
        "src/build",
        "src/*/build",
        "**/build/a",
        "src/**",
        "src/**/a",
        "doc/**/c",
        "**",
        "/**",
        "/*\n!/src",
        "/*\n!/src/\n/src/*\n!/src/build/",
        "a**",
        "# a comment\n\\#c",
        "\\!d",
        "a b ",
        "a b\\ ",
        "a\r\nbuild/\r\n",
        "\ufeffa",
        "doc/\\[x]",
        "doc/[[]x]",
        "doc/[",
        "[!a]",
        "[^ab]*",
        "[[:alpha:]]",
        "b?log",
        "doc/back\\\\slash",
        "a\\",
        "/",
        "//a",
        "src//a",
        "",
        "!",
        "  ",
        "*/",
        "*/a",
        "src/*",
        "?",
        "x/**/",
        "**/x/**",
        "**/**/a",
        "a/**/b",
    ],
)
def test_rules_leave_out_what_git_leaves_out(repository: Path, rules: str) -> None:
    agrees(repository, rules)


ATOMS = ["a", "b.log", "build", "src", "x", "doc", "*", "?", "**", "*.log", "[ab]", "[!a]*", "b*", "\\a", "c"]
LINES = st.builds(
    lambda negated, anchored, parts, directory: f"{negated}{anchored}{'/'.join(parts)}{directory}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(st.sampled_from(ATOMS), min_size=1, max_size=4),
    st.sampled_from(["", "", "/"]),
)


@needs_git
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=st.lists(LINES, max_size=4), below=st.lists(LINES, max_size=3))
def test_any_rules_leave_out_what_git_leaves_out(repository: Path, top: list[str], below: list[str]) -> None:
    agrees(repository, "\n".join(top), "\n".join(below))


def test_rules_made_to_take_forever_do_not() -> None:
    rules = IgnoreFile(parse_rules("**/a/" * 30 + "b\n" + "*a" * 60 + "b\n" + "a/" * 3 + "**/" * 30 + "x"))
    started = time.process_time()
    assert rules.decides("a" * 250, "a/" * 100 + "c", directory=False) is None
    assert time.process_time() - started < 1
