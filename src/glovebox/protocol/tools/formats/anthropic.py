"""Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glovebox.protocol.tools.base import TextPart, Tool, ToolCall, ToolResult
from glovebox.protocol.tools.formats.arguments import make_call
from glovebox.protocol.tools.formats.parts import COMMON_IMAGES, NOTHING, left_out
from glovebox.protocol.tools.formats.schemas import object_schema

#: Tools that Anthropic's models were trained with, by the tool of the box that each stands for.
BUILT_IN = {
    "run": {"type": "bash_20250124", "name": "bash"},
    "edit": {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
}


def define(tools: Sequence[tuple[str, Tool]], *, builtin: bool = False) -> list[dict[str, Any]]:
    """The value of `tools` in a request; each tool comes with the name it is offered by."""
    return [
        dict(BUILT_IN[tool.name])
        if builtin and tool.name in BUILT_IN
        else {
            "name": name,
            "description": tool.description,
            "input_schema": object_schema(tool.input_schema),
        }
        for name, tool in tools
    ]


def items(body: dict[str, Any]) -> list[Any] | None:
    """The blocks of an assistant's message; a whole response is one."""
    content = body.get("content")
    return content if isinstance(content, list) else None


def call(item: dict[str, Any]) -> ToolCall | None:
    """A block of a message; there are others, such as text."""
    if item.get("type") != "tool_use":
        return None
    return make_call(item.get("name"), item.get("input"), item.get("id"))


def result(item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The block that answers a call."""
    content: list[dict[str, Any]] = []
    for part in result.parts:
        if isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
        elif part.media_type in COMMON_IMAGES:
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
            content.append({"type": "image", "source": source})
        else:
            content.append({"type": "text", "text": left_out(part)})
    # Blocks of text without text are refused.
    content = [block for block in content if block["type"] != "text" or block["text"].strip()]
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": content or [{"type": "text", "text": NOTHING}],
    }
    if result.is_error:
        block["is_error"] = True
    return block


def appended(results: list[dict[str, Any]]) -> dict[str, Any]:
    """What the conversation goes on with."""
    return {"role": "user", "content": results}
