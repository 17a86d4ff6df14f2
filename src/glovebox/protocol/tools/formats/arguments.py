"""Reads the arguments of a call: an object, or text that should be one."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from glovebox.decoding import decode_json
from glovebox.protocol.tools.base import ToolCall

#: No tool takes arguments that are nested deeper, and most programs fail on some that are.
DEEPEST = 64
#: So much of arguments that cannot be read is shown again.
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
    """What a JSON value is called."""
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "an object")
