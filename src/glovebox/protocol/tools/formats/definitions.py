"""The tools of a box as each kind of model is offered them, by names that its provider accepts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from glovebox.errors import RequestError
from glovebox.protocol.tools.actions import ALIASES
from glovebox.protocol.tools.base import Tool
from glovebox.protocol.tools.formats.base import NamedTool
from glovebox.protocol.tools.formats.gemini import GeminiFormat
from glovebox.protocol.tools.formats.providers import AnthropicFormat, ChatFormat, McpFormat, ResponsesFormat

LONGEST = 64
#: OpenAI and Anthropic.
COMMON = re.compile(r"[a-zA-Z0-9_-]{1,64}")
#: Names that begin with a digit or a dash are refused.
GEMINI = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_HASH = 8


def offered(tools: Sequence[Tool], rule: re.Pattern[str] | None) -> list[NamedTool]:
    """The tools by names that keep the rule; no two are the same, and valid ones stay as they are."""
    taken = {*ALIASES, *(tool.name for tool in tools)}
    named: list[NamedTool] = []
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


def definitions(
    tools: Sequence[Tool],
    kind: str,
    *,
    api: str = "chat",
    builtin: bool = False,
    names: Sequence[str] | None = None,
) -> Any:
    """What is passed on to a provider: `kind` is openai, anthropic, mcp or gemini; `names` chooses some.

    Raises:
        RequestError: there is no tool of such a name.
    """
    rule = {"gemini": GEMINI, "mcp": None}.get(kind, COMMON)
    named = _choose(offered(tools, rule), names)
    if kind == "anthropic":
        return AnthropicFormat().define(named, builtin=builtin)
    if kind == "gemini":
        return GeminiFormat().define(named)
    if kind == "mcp":
        return McpFormat().define(named)
    return (ResponsesFormat() if api == "responses" else ChatFormat()).define(named)


def _choose(named: list[NamedTool], names: Sequence[str] | None) -> list[NamedTool]:
    if names is None:
        return named
    known = {spelled for name, tool in named for spelled in (name, tool.name)}
    if unknown := [name for name in names if name not in known]:
        there = ", ".join(name for name, _ in named)
        raise RequestError(f"There is no tool named {', '.join(unknown)}. There are: {there}.")
    return [(name, tool) for name, tool in named if name in names or tool.name in names]
