"""JSON schemas of arguments in the form that providers take: plainly an object with properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

COMBINING = ("allOf", "anyOf", "oneOf")
#: References that lead on to others, and combinations within others, are followed so far.
_HOPS, _LEVELS = 16, 3


def object_schema(schema: Any, *, level: int = 0) -> dict[str, Any]:
    """A schema whose top is an object's, without the combinations that are refused there.

    `level`: so many combinations are around it.
    """
    given = resolved(schema, schema) if isinstance(schema, dict) else {}
    plain = {key: value for key, value in given.items() if key not in (*COMBINING, "$schema")}
    properties = given.get("properties")
    plain["type"] = "object"
    plain["properties"] = dict(properties) if isinstance(properties, dict) else {}
    required = _names(given.get("required"))
    for keyword in COMBINING:
        options = given.get(keyword)
        if isinstance(options, list) and level < _LEVELS:
            parts = [{**_definitions(schema), **one} for one in options if isinstance(one, dict)]
            required += _joined(
                plain["properties"], keyword, [object_schema(part, level=level + 1) for part in parts]
            )
    plain.pop("required", None)
    if required := [name for name in dict.fromkeys(required) if name in plain["properties"]]:
        plain["required"] = required
    return plain


def _joined(properties: dict[str, Any], keyword: str, parts: list[dict[str, Any]]) -> list[str]:
    """Add what the parts of a combination have, and tell what all of them require."""
    for part in parts:
        for name, value in part["properties"].items():
            properties.setdefault(name, value)
    required = [_names(part.get("required")) for part in parts]
    if keyword == "allOf":
        return [name for names in required for name in names]
    return [name for name in required[0] if all(name in names for names in required)] if required else []


def _definitions(root: Any) -> dict[str, Any]:
    """Where references of a part lead to, if it is looked at alone."""
    return {key: root[key] for key in ("$defs", "definitions") if key in root}


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def resolved(schema: Mapping[str, Any], root: Any) -> dict[str, Any]:
    """A schema with what its own `$ref` leads to; keys beside the reference come before those behind it."""
    found = dict(schema)
    for _ in range(_HOPS):
        reference = found.pop("$ref", None)
        if reference is None:
            break
        target = target_of(reference, root)
        found = {**target, **found} if isinstance(target, dict) else found
    found.pop("$ref", None)
    return found


def target_of(reference: Any, root: Any) -> Any:
    """What a reference within the same document leads to; None if it leads nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for step in unquote(reference[1:]).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found
