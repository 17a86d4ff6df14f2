"""The Model Context Protocol, as JSON-RPC has it or bare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glovebox.protocol.tools.base import TextPart, Tool, ToolCall, ToolResult
from glovebox.protocol.tools.formats.arguments import make_call


def define(tools: Sequence[tuple[str, Tool]]) -> dict[str, Any]:
    """What `tools/list` answers; each tool comes with the name it is offered by."""
    return {"tools": [_defined(name, tool) for name, tool in tools]}


def _defined(name: str, tool: Tool) -> dict[str, Any]:
    defined: dict[str, Any] = {"name": name}
    if tool.title:
        defined["title"] = tool.title
    defined["description"] = tool.description
    defined["inputSchema"] = tool.input_schema
    defined["annotations"] = {
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent,
        "openWorldHint": tool.open_world,
    }
    return defined


def items(body: dict[str, Any]) -> list[Any] | None:
    """Nothing carries calls of this format."""
    return None


def call(item: dict[str, Any]) -> ToolCall | None:
    """The request `tools/call`, or its parameters alone."""
    if item.get("method") == "tools/call":
        params = item.get("params")
        params = params if isinstance(params, dict) else {}
        return make_call(params.get("name"), params.get("arguments"), item.get("id"))
    if isinstance(item.get("name"), str) and "arguments" in item:
        return make_call(item["name"], item["arguments"])
    return None


def result(item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """A `CallToolResult`; a request of JSON-RPC with an id gets its response."""
    answer: dict[str, Any] = {
        "content": [
            {"type": "text", "text": part.text}
            if isinstance(part, TextPart)
            else {"type": "image", "data": part.data, "mimeType": part.media_type}
            for part in result.parts
        ]
    }
    if result.structured is not None:
        answer["structuredContent"] = result.structured
    answer["isError"] = result.is_error
    if "method" in item and item.get("id") is not None:
        return {"jsonrpc": "2.0", "id": item["id"], "result": answer}
    return answer


def appended(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All results."""
    return results
