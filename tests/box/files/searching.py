"""Searches lines in a directory of the test's own."""

from __future__ import annotations

import msgspec

from glovebox.protocol.files import GrepAction
from tests.box.files.acting import Acting, below


async def matching(acting: Acting, pattern: str, **options: object) -> list[str]:
    """What matches, as `path:line:text` below the test's directory."""
    answer = await acting.do(msgspec.convert({"pattern": pattern, **options}, GrepAction))
    paths = below(acting.directory, [match.path for match in answer.matches])
    return [f"{path}:{match.line}:{match.text}" for path, match in zip(paths, answer.matches, strict=True)]
