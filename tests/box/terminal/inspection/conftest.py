from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.terminal.inspection.shells import Shell
from tests.box.terminal.inspection.shells import shell as opened


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A fresh bash at its prompt."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    with opened(tmp_path) as started:
        yield started
