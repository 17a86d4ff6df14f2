"""Names that providers take, for tools that others have named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from glovebox.protocol.tools.aliases import ALIASES
from glovebox.protocol.tools.base import Tool

LONGEST = 64
#: OpenAI and Anthropic.
COMMON = re.compile(r"[a-zA-Z0-9_-]{1,64}")
#: Names that begin with a digit or a dash are refused.
GEMINI = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_HASH = 8


def offered(tools: Sequence[Tool], rule: re.Pattern[str] | None) -> list[tuple[str, Tool]]:
    """The tools by names that keep the rule; no two are the same, and valid ones stay as they are."""
    taken = {*ALIASES, *(tool.name for tool in tools)}
    named: list[tuple[str, Tool]] = []
    for tool in tools:
        name = tool.name
        if rule is not None and not rule.fullmatch(name):
            name = _plain(name)
            if name in taken or len(tool.name) > LONGEST:
                name = _marked(tool.name)
            taken.add(name)
        named.append((name, tool))
    return named


def meant(name: str, tools: Sequence[Tool]) -> str | None:
    """The tool that is offered by a name which is not its own; None if there is none."""
    for spelled in (_marked, _plain):
        for tool in tools:
            if not GEMINI.fullmatch(tool.name) and spelled(tool.name) == name:
                return tool.name
    return None


def _plain(name: str) -> str:
    """The name with everything replaced that some provider refuses."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:LONGEST]
    return plain if re.match(r"[a-zA-Z_]", plain) else f"_{plain}"[:LONGEST]


def _marked(name: str) -> str:
    """The same, with a mark that no other name has."""
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{_plain(name)[: LONGEST - _HASH - 1]}_{mark}"
