from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.box.terminal.console import Console, console


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Console]:
    """A fresh shell."""
    async with console(tmp_path) as opened:
        yield opened


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[Console]:
    """A fresh shell whose silence is reported soon."""
    async with console(tmp_path, no_change_timeout=0.3) as opened:
        yield opened
