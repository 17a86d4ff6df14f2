"""What the formats share: how calls are read, how results are split into parts, and schemas as objects."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import unquote

import msgspec

from glovebox.json_codec import decode_json
from glovebox.protocol.tools.base import ImagePart, TextPart, Tool, ToolCall, ToolResult

#: A tool, with the name that it is offered by.
NamedTool = tuple[str, Tool]


class Format:
    """How one kind of model writes calls and reads results."""

    #: Whether its results are observations of the OpenHands contract.
    contract = False

    def define(self, tools: Sequence[NamedTool]) -> Any:
        """The value of `tools` in a request."""
        raise NotImplementedError

    def items(self, body: dict[str, Any]) -> list[Any] | None:
        """What a message or a whole response holds; None if the body is neither."""
        return None

    def call(self, item: dict[str, Any]) -> ToolCall | None:
        """The call that an item is; None if it is something else."""
        raise NotImplementedError

    def result(self, item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
        """The answer to the item."""
        raise NotImplementedError

    def append(self, results: list[dict[str, Any]]) -> Any:
        """The answer to a message or a whole response."""
        return results


# Calls.

#: No tool takes arguments that are nested deeper, and most programs fail on some that are.
DEEPEST = 64
#: How many characters of unreadable arguments an error shows.
_SHOWN = 60


class _Unreadable(ValueError):
    """Text that is not one JSON object; the words say why."""


def make_call(name: Any, arguments: Any, call_id: Any = "") -> ToolCall:
    """A call, with the problem there is with it."""
    shown_id = call_id if isinstance(call_id, str) else "" if call_id is None else str(call_id)
    if not isinstance(name, str) or not name:
        problem = "The call names no tool." if not name else f"The name of a tool is text, not {_kind(name)}."
        return ToolCall(name="", id=shown_id, problem=problem)
    try:
        return ToolCall(name=name, arguments=_object(arguments), id=shown_id)
    except _Unreadable as error:
        return ToolCall(name=name, id=shown_id, problem=f"The arguments of {name} {error}")


def _object(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
        if isinstance(arguments, str):  # some models encode them twice
            arguments = _parsed(arguments)
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise _Unreadable(f"are {_kind(arguments)}. Send one JSON object.")
    if _deeper(arguments, DEEPEST):
        raise _Unreadable(f"are nested more than {DEEPEST} levels deep.")
    return arguments


def _parsed(text: str) -> Any:
    """What the text says; none at all is no arguments."""
    if not text.strip():
        return None
    try:
        return decode_json(text)
    except RecursionError:
        raise _Unreadable(f"are nested more than {DEEPEST} levels deep.") from None
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _tolerated(text)


def _tolerated(text: str) -> Any:
    """Line breaks as they are within text are the one mistake that leaves no doubt about what is meant."""
    try:
        value = json.loads(text, strict=False, parse_constant=_refuse_constant)
        msgspec.json.encode(value)
    except json.JSONDecodeError as error:
        raise _Unreadable(_explained(text, error)) from None
    except UnicodeEncodeError:
        raise _Unreadable("hold half of a surrogate pair, which is not text.") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise _Unreadable(f"are not JSON: {error}.") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _explained(text: str, error: json.JSONDecodeError) -> str:
    where = f"line {error.lineno} column {error.colno}"
    if error.msg == "Extra data":
        rest = text[error.pos : error.pos + _SHOWN]
        return (
            f"are followed by something else at {where}: {rest!r}. Send one JSON object and nothing after it."
        )
    if error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()):
        end = text[-_SHOWN:]
        return f"are cut off: they end in {end!r}. Send the whole JSON object, or less at a time."
    near = text[error.pos : error.pos + _SHOWN]
    hint = " Names and text are in double quotes." if "'" in near[:2] else ""
    return f"are not JSON: {error.msg} at {where}, near {near!r}. Send one JSON object.{hint}"


def _deeper(value: Any, levels: int) -> bool:
    """Whether a value is nested deeper, found without recursion."""
    waiting = [(value, 1)]
    while waiting:
        one, level = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if level > levels:
            return True
        waiting += [(item, level + 1) for item in inner if isinstance(item, dict | list)]
    return False


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "an object")


# Results.

#: Providers refuse results without any content.
NOTHING = "(no output)"
#: What models of most providers can look at.
COMMON_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def split(result: ToolResult, images: Collection[str]) -> tuple[str, list[ImagePart]]:
    """The text of a result, never empty, and the pictures of the kinds that can be shown.

    The text says of every other picture that it was left out.
    """
    shown: list[ImagePart] = []
    lines: list[str] = []
    for part in result.parts:
        if isinstance(part, TextPart):
            lines.append(part.text)
        elif part.media_type in images:
            shown.append(part)
        else:
            lines.append(left_out(part))
    text = "\n".join(lines)
    return text if text.strip() or shown else NOTHING, shown


def left_out(part: ImagePart) -> str:
    """What is said in place of a picture."""
    return (
        f"[A picture ({part.media_type}) is part of this result, but it cannot be passed on in this format.]"
    )


# JSON schemas of arguments.

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
