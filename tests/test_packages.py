"""Every Python from 3.11 on will do, also Debian's, whose fixes do not change its version."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

from packaging.specifiers import SpecifierSet

import glovebox

ROOT = Path(glovebox.__file__).parents[2]
OLDEST = "3.11.0"
#: `(...)*+` and its like: before 3.11.5, what such a group matches is now and then wrong.
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+")


def test_no_pinned_package_asks_for_a_newer_python() -> None:
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    asks = {one.name: one.metadata["Requires-Python"] or "" for one in distributions()}
    looked_at = {name: asked for name, asked in asks.items() if name.lower() in pinned}
    assert len(looked_at) > 50
    assert [name for name, asked in looked_at.items() if not SpecifierSet(asked).contains(OLDEST)] == []


def test_no_group_of_a_pattern_is_repeated_possessively() -> None:
    assert POSSESSIVE_GROUP.search("(?:a|b)*+")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "src").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if POSSESSIVE_GROUP.search(line) and "\\x1b[" not in line
    ]
    assert found == []
