from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.box.terminal.console import Console, console


@pytest.fixture(params=["pty", "tmux"])
def kind(request: pytest.FixtureRequest) -> str:
    """Every implementation of a terminal: what is promised holds for each."""
    kind: str = request.param
    return kind


@pytest.fixture
async def shell(tmp_path: Path, kind: str) -> AsyncIterator[Console]:
    """A fresh shell with the contract's patience."""
    async with console(tmp_path, kind=kind) as started:
        yield started


@pytest.fixture
async def impatient(tmp_path: Path, kind: str) -> AsyncIterator[Console]:
    """A shell that reports silence soon."""
    async with console(tmp_path, kind=kind, no_change_timeout=0.3) as started:
        yield started
