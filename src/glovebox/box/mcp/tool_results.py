"""The result of an MCP tool as the contract's observation has it: each field, null where there is none."""

from __future__ import annotations

from typing import Any

_KNOWN: dict[str, tuple[str, ...]] = {
    "text": ("type", "text", "annotations", "meta"),
    "image": ("type", "data", "mimeType", "annotations", "meta"),
    "audio": ("type", "data", "mimeType", "annotations", "meta"),
    "resource": ("type", "resource", "annotations", "meta"),
    "resource_link": (
        "name", "title", "uri", "description", "mimeType", "size", "annotations", "meta", "type",
    ),
}  # fmt: skip


def observed(result: dict[str, Any]) -> str:
    """A result, given as it is on the wire."""
    return _json(
        {
            "meta": result.get("_meta"),
            "content": [_block(block) for block in result.get("content", [])],
            "structuredContent": result.get("structuredContent"),
            "isError": bool(result.get("isError")),
        }
    )


def failed(text: str) -> str:
    """A call that came to no result."""
    return _json({"isError": True, "error": text, "content": []})


def _json(value: dict[str, Any]) -> str:
    import json

    return json.dumps(value)  # spaced and escaped as the contract's observations are


def _block(block: dict[str, Any]) -> dict[str, Any]:
    given = {("meta" if key == "_meta" else key): value for key, value in block.items()}
    known = _KNOWN.get(given.get("type", ""), ())
    return {**{key: given.get(key) for key in known}, **given}


def timed_out(name: str, seconds: float | None) -> str:
    """What is said of a call that took too long."""
    shown = int(seconds) if seconds is not None and float(seconds).is_integer() else seconds
    return f'Tool "{name}" timed out after {shown} seconds'
