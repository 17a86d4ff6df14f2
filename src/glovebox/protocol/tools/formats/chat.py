"""OpenAI's Chat Completions, which many other providers speak too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glovebox.protocol.tools.base import Tool, ToolCall, ToolResult
from glovebox.protocol.tools.formats.arguments import make_call
from glovebox.protocol.tools.formats.parts import split
from glovebox.protocol.tools.formats.schemas import object_schema


def define(tools: Sequence[tuple[str, Tool]]) -> list[dict[str, Any]]:
    """The value of `tools` in a request; each tool comes with the name it is offered by."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": tool.description,
                "parameters": object_schema(tool.input_schema),
            },
        }
        for name, tool in tools
    ]


def items(body: dict[str, Any]) -> list[Any] | None:
    """The calls of an assistant's message, or of a whole response."""
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return items(message) if isinstance(message, dict) else None
    calls = body.get("tool_calls")
    if isinstance(calls, list):
        return calls
    return [{"function_call": body["function_call"]}] if _is_legacy(body) else None


def call(item: dict[str, Any]) -> ToolCall | None:
    """One of `tool_calls`."""
    if _is_legacy(item):
        legacy = item["function_call"]
        return make_call(legacy.get("name"), legacy["arguments"])
    if item.get("type", "function") not in ("function", None) or "function" not in item:
        return None
    function = item["function"]
    if not isinstance(function, dict):
        return make_call(None, None, item.get("id"))
    if "arguments" not in function and "parameters" in function:
        return None  # the definition of a tool
    return make_call(function.get("name"), function.get("arguments"), item.get("id"))


def _is_legacy(item: dict[str, Any]) -> bool:
    legacy = item.get("function_call")
    return isinstance(legacy, dict) and "arguments" in legacy


def result(item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The message that answers a call. It holds text only."""
    text, _ = split(result, ())
    if _is_legacy(item):
        return {"role": "function", "name": call.name, "content": text}
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def appended(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the conversation goes on with."""
    return results
