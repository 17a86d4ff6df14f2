"""The tools of a box as each kind of model is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glovebox.errors import RequestError
from glovebox.protocol.tools.base import Tool
from glovebox.protocol.tools.formats import anthropic, chat, gemini, mcp, responses
from glovebox.protocol.tools.formats.names import COMMON, GEMINI, offered


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
    if kind == "anthropic":
        return anthropic.define(_chosen(offered(tools, COMMON), names), builtin=builtin)
    if kind == "gemini":
        return gemini.define(_chosen(offered(tools, GEMINI), names))
    if kind == "mcp":
        return mcp.define(_chosen(offered(tools, None), names))
    form = responses if api == "responses" else chat
    return form.define(_chosen(offered(tools, COMMON), names))


def _chosen(named: list[tuple[str, Tool]], names: Sequence[str] | None) -> list[tuple[str, Tool]]:
    if names is None:
        return named
    known = {spelled for name, tool in named for spelled in (name, tool.name)}
    if unknown := [name for name in names if name not in known]:
        there = ", ".join(name for name, _ in named)
        raise RequestError(f"There is no tool named {', '.join(unknown)}. There are: {there}.")
    return [(name, tool) for name, tool in named if name in names or tool.name in names]
