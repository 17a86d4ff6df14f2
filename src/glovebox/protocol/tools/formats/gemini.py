"""Google's Gemini."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from glovebox.protocol.tools.base import ToolCall, ToolResult
from glovebox.protocol.tools.formats.base import (
    Format,
    NamedTool,
    make_call,
    object_schema,
    split,
    target_of,
)

_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})


class GeminiFormat(Format):
    """Gemini's `generateContent`."""

    def define(self, tools: Sequence[NamedTool]) -> list[dict[str, Any]]:
        declarations = []
        for name, tool in tools:
            declaration: dict[str, Any] = {"name": name, "description": tool.description}
            parameters = gemini_schema(object_schema(tool.input_schema))
            if parameters.get("properties"):  # an object without any is refused
                declaration["parameters"] = parameters
            declarations.append(declaration)
        return [{"functionDeclarations": declarations}] if declarations else []

    def items(self, body: dict[str, Any]) -> list[Any] | None:
        candidates = body.get("candidates")
        if isinstance(candidates, list) and candidates:
            body = candidates[0] if isinstance(candidates[0], dict) else {}
        content = body.get("content")
        parts = (content if isinstance(content, dict) else body).get("parts")
        return parts if isinstance(parts, list) else None

    def call(self, item: dict[str, Any]) -> ToolCall | None:
        """A part of a content, or the call alone; there are other parts, such as text."""
        found = item.get("functionCall", item.get("function_call"))
        if found is None and isinstance(item.get("name"), str) and "args" in item:
            found = item
        if not isinstance(found, dict):
            return None
        return make_call(found.get("name"), found.get("args"), found.get("id"))

    def result(self, item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
        """The part that answers a call, with its pictures within."""
        text, images = split(result, _IMAGES)
        answer: dict[str, Any] = {"id": call.id} if call.id else {}
        answer |= {"name": call.name, "response": {"error" if result.is_error else "output": text}}
        if images:
            answer["parts"] = [
                {"inlineData": {"mimeType": image.media_type, "data": image.data}} for image in images
            ]
        return {"functionResponse": answer}

    def append(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        """What the conversation goes on with: pictures follow their results, as every model takes them."""
        parts: list[dict[str, Any]] = []
        for one in results:
            answer = dict(one["functionResponse"])
            images = answer.pop("parts", [])
            parts += [{"functionResponse": answer}, *images]
        return {"role": "user", "parts": parts}


# Schemas in the dialect of Gemini.

_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_FORMATS = {"number": ("float", "double"), "integer": ("int32", "int64"), "string": ("date-time",)}
#: Keywords that are the same there, by the types they go with.
_KEPT = {
    "array": ("minItems", "maxItems"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
}
#: Types that a schema means without naming them, by a keyword that only goes with these.
_TELLING = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "maxItems": "array",
    "pattern": "string",
    "minLength": "string",
    "maxLength": "string",
    "minimum": "number",
    "maximum": "number",
    "multipleOf": "number",
}
#: So many schemas may be within one, and so deep: definitions that refer to others could grow without end.
_MOST, _DEEPEST = 2_000, 24
_SHOWN = 400


def gemini_schema(schema: Any) -> dict[str, Any]:
    """The same, as far as the dialect can say it."""
    return _Converter(schema).convert(schema)


class _Converter:
    """Converts one document."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MOST

    def convert(self, schema: Any, depth: int = 0, behind: frozenset[str] = frozenset()) -> dict[str, Any]:
        """`behind`: the references that led here."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return {"type": "object"}
        flat, behind = self._flat(schema if isinstance(schema, dict) else {}, depth, behind)
        options, nullable = _options(flat)
        if options:
            made = [self.convert(_merged(flat, option), depth + 1, behind) for option in options]
        else:
            types, nullable = _types(flat)
            made = [self._typed({**flat, "type": one}, depth, behind) for one in types]
        return _any_of(made, nullable)

    def _flat(
        self, schema: dict[str, Any], depth: int, behind: frozenset[str]
    ) -> tuple[dict[str, Any], frozenset[str]]:
        """A schema with its references followed and all parts of `allOf` put together."""
        flat = dict(schema)
        while "$ref" in flat:
            reference = flat.pop("$ref")
            target = target_of(reference, self._root)
            if not isinstance(target, dict) or reference in behind:
                flat.setdefault("type", "object")
            else:
                behind |= {reference}
                flat = _merged(target, flat)
        parts = flat.pop("allOf", None)
        for part in parts if isinstance(parts, list) and depth < _DEEPEST else ():
            if isinstance(part, dict):
                one, behind = self._flat(part, depth + 1, behind)
                flat = _merged(flat, one)
        return flat, behind

    def _typed(self, schema: dict[str, Any], depth: int, behind: frozenset[str]) -> dict[str, Any]:
        kind = schema["type"]
        made: dict[str, Any] = {"type": kind}
        if words := _described(schema, kind):
            made["description"] = words
        if schema.get("format") in _FORMATS.get(kind, ()):
            made["format"] = schema["format"]
        if kind == "string" and (values := _choices(schema)):
            made["enum"] = values
        for keyword in _KEPT.get(kind, ()):
            if isinstance(schema.get(keyword), int | float):
                made[keyword] = schema[keyword]
        if kind == "array":
            made["items"] = self._items(schema, depth, behind)
        if kind == "object":
            made |= self._members(schema, depth, behind)
        return made

    def _items(self, schema: dict[str, Any], depth: int, behind: frozenset[str]) -> dict[str, Any]:
        given = schema.get("items")
        several = schema.get("prefixItems", given if isinstance(given, list) else None)
        if isinstance(several, list) and several:
            made = [self.convert(one, depth + 1, behind) for one in several]
            return _any_of(made, nullable=False)
        return self.convert(given if isinstance(given, dict) else {}, depth + 1, behind)

    def _members(self, schema: dict[str, Any], depth: int, behind: frozenset[str]) -> dict[str, Any]:
        given = schema.get("properties")
        if not isinstance(given, dict) or not given:
            return {}
        properties = {name: self.convert(one, depth + 1, behind) for name, one in given.items()}
        required = schema.get("required")
        names = [name for name in given if name in required] if isinstance(required, list) else []
        return {"properties": properties, **({"required": names} if names else {})}


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Both at once; what the second says counts more."""
    merged = {**first, **second}
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        merged["properties"] = {**first["properties"], **second["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        merged["required"] = [*first["required"], *second["required"]]
    return merged


def _any_of(options: list[dict[str, Any]], nullable: bool) -> dict[str, Any]:
    """What any of these allows. Nothing may stand beside `anyOf`, so each says that it may be null."""
    flat = [inner for one in options for inner in one.get("anyOf", [one])]
    if nullable:
        flat = [{**one, "nullable": True} for one in flat]
    different = [one for place, one in enumerate(flat) if one not in flat[:place]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def _options(schema: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """What a value may be besides null, and whether that too; nothing if the schema leaves no choice."""
    for keyword in ("anyOf", "oneOf"):
        given = schema.pop(keyword, None)
        options = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        some = [one for one in options if one.get("type") != "null" and one != {"const": None}]
        if some and not _is_narrowing(schema, some):
            return some, len(some) < len(options)
    return [], False


def _types(schema: dict[str, Any]) -> tuple[list[str], bool]:
    """The types of a value, and whether it may be null."""
    given = schema.get("type")
    named = given if isinstance(given, list) else [given] if isinstance(given, str) else _meant(schema)
    values = schema.get("enum")
    nullable = "null" in named or schema.get("nullable") is True
    nullable = nullable or (isinstance(values, list) and None in values)
    known = [one for one in _TYPES if one in named]
    # A type has to be named: any value is one of these, and what is only null is called text.
    return known or (["string"] if named else ["string", "number", "boolean", "object"]), nullable


def _is_narrowing(schema: dict[str, Any], options: list[dict[str, Any]]) -> bool:
    """Whether options only say which properties an object needs, which the dialect has no words for."""
    return "properties" in schema and not any({"type", "properties", "$ref"} & set(one) for one in options)


def _meant(schema: dict[str, Any]) -> list[str]:
    """The types of a schema that names none."""
    if "const" in schema or "enum" in schema:
        given = schema.get("enum")
        values = given if isinstance(given, list) else [schema.get("const")]
        return list(dict.fromkeys(_type_of(value) for value in values))
    return list(dict.fromkeys(_TELLING[key] for key in schema if key in _TELLING))[:1]


def _type_of(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _choices(schema: dict[str, Any]) -> list[str]:
    """The values of an enum; only text can be chosen from, and none that is empty."""
    given = [schema["const"]] if "const" in schema else schema.get("enum")
    values = given if isinstance(given, list) else []
    return [value for value in dict.fromkeys(v for v in values if isinstance(v, str)) if value]


def _described(schema: dict[str, Any], kind: str) -> str:
    """The description, with what the dialect has no keyword for."""
    given = schema.get("description", schema.get("title"))
    words = [given] if isinstance(given, str) and given else []
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if kind != "string" and isinstance(values, list) and values:
        words.append(f"One of: {_shown(values)[1:-1]}.")
    default = schema.get("default")
    if default is not None and "default" not in "".join(words).lower():
        words.append(f"Default: {_shown(default)}.")
    return " ".join(words)


def _shown(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()[:_SHOWN]
    except (UnicodeEncodeError, RecursionError, TypeError):
        return "?"
