from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.box.notebook.skills.text_files import OPEN


@pytest.fixture(autouse=True)
def nothing_open() -> None:
    """Every test starts as a fresh kernel does."""
    OPEN.path, OPEN.line = None, 1


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A fresh current directory."""
    with contextlib.chdir(tmp_path):
        yield tmp_path
