"""Every Python that the project promises to run on can have the packages that are pinned."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

from packaging.specifiers import SpecifierSet

import glovebox

ROOT = Path(glovebox.__file__).parents[2]
#: Also Debian's Python, whose fixes of years do not change its version.
OLDEST = "3.11.0"


def test_no_pinned_package_asks_for_a_newer_python() -> None:
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    asks = {one.name: one.metadata["Requires-Python"] or "" for one in distributions()}
    looked_at = {name: asked for name, asked in asks.items() if name.lower() in pinned}
    assert len(looked_at) > 50
    assert [name for name, asked in looked_at.items() if not SpecifierSet(asked).contains(OLDEST)] == []
