"""What a tool of an MCP server answered, which an observation carries as a JSON text."""

from __future__ import annotations

from typing import Any

import msgspec

from glovebox.decoding import decode_json
from glovebox.protocol.observations import MCPObservation
from glovebox.protocol.tools.base import Part, TextPart, ToolResult
from glovebox.protocol.tools.results import blob_part


def mcp_result(observation: MCPObservation) -> ToolResult:
    """The parts of the answer; a text that is none is shown as it is."""
    try:
        answer = decode_json(observation.content)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return ToolResult(parts=[TextPart(text=observation.content)], observation=observation)
    content = answer.get("content")
    parts = [_part(block) for block in content] if isinstance(content, list) else []
    if isinstance(answer.get("error"), str):
        parts.append(TextPart(text=answer["error"]))
    structured = answer.get("structuredContent")
    if not parts:
        empty = "[The tool answered with nothing.]"
        parts.append(TextPart(text=_json(structured) if structured is not None else empty))
    return ToolResult(
        parts=parts,
        is_error=answer.get("isError") is True,
        observation=observation,
        structured=structured if isinstance(structured, dict) else None,
    )


def _part(block: Any) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text)
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return blob_part(_media_type(block, f"some {kind}"), data)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return TextPart(text=text)
        case {"type": "resource", "resource": {"blob": str(data)} as resource}:
            part = blob_part(_media_type(resource, "application/octet-stream"), data)
            uri = resource.get("uri")
            return TextPart(text=f"{uri} {part.text}") if uri and isinstance(part, TextPart) else part
        case {"type": "resource_link", "uri": str(uri)}:
            said = [block.get("title") or block.get("name"), block.get("description")]
            return TextPart(text=": ".join([uri, *(one for one in said if isinstance(one, str) and one)]))
    return TextPart(text=_json(block))


def _media_type(block: dict[str, Any], otherwise: str) -> str:
    given = block.get("mimeType")
    return given if isinstance(given, str) and given else otherwise


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
