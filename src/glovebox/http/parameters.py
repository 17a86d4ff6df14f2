"""Reads what a request says beside its path: query parameters and small JSON bodies."""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from glovebox.errors import RequestError, TooLarge
from glovebox.http.bodies import decode_json

T = TypeVar("T")

#: Larger than any body of these endpoints.
MOST_BYTES = 1 << 16
#: Offsets are counted in 63 bits.
LARGEST = (1 << 63) - 1
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})


class InvalidParameter(RequestError):
    """A parameter or a body that is not of the right form."""

    def __init__(self, kind: str, where: tuple[str, ...], message: str, value: Any) -> None:
        super().__init__(message)
        self.problem = {"type": kind, "loc": where, "msg": message, "input": value}


def integer(request: Request, name: str, default: int, low: int = 0, high: int = LARGEST) -> int:
    """A whole number of the query.

    Raises:
        InvalidParameter: it is none, or too small or too large.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and low <= int(text) <= high):
        problem = f"Input should be a whole number from {low} to {high}"
        raise InvalidParameter("int_parsing", ("query", name), problem, text)
    return int(text)


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A yes or no of the query.

    Raises:
        InvalidParameter: it is neither.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    value = boolean(text)
    if value is None:
        raise InvalidParameter("bool_parsing", ("query", name), NOT_BOOLEAN, text)
    return value


NOT_BOOLEAN = "Input should be a valid boolean, unable to interpret input"


def boolean(text: str) -> bool | None:
    """Yes or no; None if it is neither."""
    lowered = text.lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None


def choice(request: Request, name: str, among: tuple[str, ...]) -> str:
    """One of several words of the query, by default the first.

    Raises:
        InvalidParameter: it is none of them.
    """
    text = request.query_params.get(name, among[0])
    if text not in among:
        problem = f"Input should be one of: {', '.join(among)}"
        raise InvalidParameter("enum", ("query", name), problem, text)
    return text


async def body(request: Request, kind: type[T]) -> T:
    """The JSON body.

    Raises:
        InvalidParameter: it is not JSON, or not of that form.
        TooDeep: it is nested too deeply.
        TooLarge: nothing of that form is so large.
    """
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MOST_BYTES:
            raise TooLarge(f"The body has more than {MOST_BYTES:,} bytes.")
    try:
        return msgspec.json.decode(bytes(data), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            decode_json(bytes(data))  # it may be wrong in another way, and nested too deeply at that
        raise InvalidParameter("value_error", ("body",), str(error), None) from error
