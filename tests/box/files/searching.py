"""Searches with every engine there is here."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from glovebox.protocol.files import GrepAction, GrepObservation
from tests.box.files.acting import Acting, below

needs_ripgrep = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is what is compared with")


class Engines:
    """Every engine there is here, asked the same question."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.python = Acting(directory, ripgrep=None)
        self.ripgrep = Acting(directory) if shutil.which("rg") else None

    async def do(self, action: GrepAction) -> GrepObservation:
        """The one answer they give."""
        answer = await self.python.do(action)
        if self.ripgrep is not None:
            assert await self.ripgrep.do(action) == answer
        return answer

    async def lines(self, pattern: str, **options: object) -> list[str]:
        """What matches, as `path:line:text` below the test's directory."""
        answer = await self.do(msgspec.convert({"pattern": pattern, **options}, GrepAction))
        paths = below(self.directory, [match.path for match in answer.matches])
        return [
            f"{path}:{match.line}:{match.text}" for path, match in zip(paths, answer.matches, strict=True)
        ]

    def close(self) -> None:
        self.python.close()
        if self.ripgrep is not None:
            self.ripgrep.close()
