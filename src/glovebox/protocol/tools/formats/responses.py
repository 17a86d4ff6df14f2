"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glovebox.protocol.tools.base import Tool, ToolCall, ToolResult
from glovebox.protocol.tools.formats.arguments import make_call
from glovebox.protocol.tools.formats.parts import COMMON_IMAGES, split
from glovebox.protocol.tools.formats.schemas import object_schema


def define(tools: Sequence[tuple[str, Tool]]) -> list[dict[str, Any]]:
    """The value of `tools` in a request; each tool comes with the name it is offered by."""
    return [
        {
            "type": "function",
            "name": name,
            "description": tool.description,
            "parameters": object_schema(tool.input_schema),
            "strict": False,  # else optional arguments would be made required ones
        }
        for name, tool in tools
    ]


def items(body: dict[str, Any]) -> list[Any] | None:
    """What a whole response put out."""
    output = body.get("output")
    return output if isinstance(output, list) else None


def call(item: dict[str, Any]) -> ToolCall | None:
    """An item of the output; there are others, such as reasoning."""
    if item.get("type") != "function_call":
        return None
    return make_call(item.get("name"), item.get("arguments"), item.get("call_id"))


def result(item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The item that answers a call: text, or parts if there are pictures."""
    text, images = split(result, COMMON_IMAGES)
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": text}] if text.strip() else []
    for image in images:
        url = f"data:{image.media_type};base64,{image.data}"
        parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
    return {"type": "function_call_output", "call_id": call.id, "output": parts if images else text}


def appended(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the conversation goes on with."""
    return results
