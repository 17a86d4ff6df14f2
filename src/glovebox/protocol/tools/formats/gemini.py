"""Google's Gemini."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glovebox.protocol.tools.base import Tool, ToolCall, ToolResult
from glovebox.protocol.tools.formats.arguments import make_call
from glovebox.protocol.tools.formats.gemini_schema import gemini_schema
from glovebox.protocol.tools.formats.parts import split
from glovebox.protocol.tools.formats.schemas import object_schema

_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})


def define(tools: Sequence[tuple[str, Tool]]) -> list[dict[str, Any]]:
    """The value of `tools` in a request; each tool comes with the name it is offered by."""
    declarations = []
    for name, tool in tools:
        declaration: dict[str, Any] = {"name": name, "description": tool.description}
        parameters = gemini_schema(object_schema(tool.input_schema))
        if parameters.get("properties"):  # an object without any is refused
            declaration["parameters"] = parameters
        declarations.append(declaration)
    return [{"functionDeclarations": declarations}] if declarations else []


def items(body: dict[str, Any]) -> list[Any] | None:
    """The parts of a content, of a candidate or of a whole response."""
    candidates = body.get("candidates")
    if isinstance(candidates, list) and candidates:
        body = candidates[0] if isinstance(candidates[0], dict) else {}
    content = body.get("content")
    parts = (content if isinstance(content, dict) else body).get("parts")
    return parts if isinstance(parts, list) else None


def call(item: dict[str, Any]) -> ToolCall | None:
    """A part of a content, or the call alone; there are other parts, such as text."""
    found = item.get("functionCall", item.get("function_call"))
    if found is None and isinstance(item.get("name"), str) and "args" in item:
        found = item
    if not isinstance(found, dict):
        return None
    return make_call(found.get("name"), found.get("args"), found.get("id"))


def result(item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The part that answers a call, with its pictures within."""
    text, images = split(result, _IMAGES)
    answer: dict[str, Any] = {"id": call.id} if call.id else {}
    answer |= {"name": call.name, "response": {"error" if result.is_error else "output": text}}
    if images:
        answer["parts"] = [
            {"inlineData": {"mimeType": image.media_type, "data": image.data}} for image in images
        ]
    return {"functionResponse": answer}


def appended(results: list[dict[str, Any]]) -> dict[str, Any]:
    """What the conversation goes on with: pictures follow their results, as every model takes them."""
    parts: list[dict[str, Any]] = []
    for one in results:
        answer = dict(one["functionResponse"])
        images = answer.pop("parts", [])
        parts += [{"functionResponse": answer}, *images]
    return {"role": "user", "parts": parts}
