"""Reads requests within bounds: bodies, query parameters, JSON; and answers those that are wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive

from glovebox.errors import GloveboxError, MethodNotAllowed, NotFound, RequestError, TooDeep, TooLarge
from glovebox.http.endpoints import Handle
from glovebox.http.responses import error_response, invalid_request, refused, unexpected
from glovebox.json_codec import json_decoder

#: No message of the box is nested so deeply, and everything here can follow it so far.
DEEPEST = 200
_DECODER = json_decoder(Any)


def check_depth(data: bytes, value: Any) -> None:
    """That JSON is not nested too deeply, by its text and the lists and dictionaries that it became.

    Raises:
        TooDeep: it is.
    """
    if data.count(b"[") + data.count(b"{") <= DEEPEST:  # which nearly all are
        return
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise too_deep()


async def json_body(request: Request) -> Any:
    """What the body of a request says; raises what `decode_json` does."""
    return decode_json(await request.body())


def decode_json(data: bytes) -> Any:
    """What JSON says, as lists and dictionaries.

    Raises:
        TooDeep: it is nested too deeply.
        msgspec.DecodeError: it is not JSON; or UnicodeDecodeError.
    """
    try:
        value = _DECODER.decode(data)
    except RecursionError:
        raise too_deep() from None
    check_depth(data, value)
    return value


def too_deep() -> TooDeep:
    """What is said of JSON that cannot be followed."""
    return TooDeep(f"The JSON is nested more than {DEEPEST} levels deep.")


def limited(handle: Handle, most_bytes: int) -> Handle:
    """The same endpoint, which takes no larger bodies."""

    def too_large() -> TooLarge:
        return TooLarge(f"The body has more than {most_bytes:,} bytes.")

    def counted(receive: Receive) -> Receive:
        """The same with an end: of a body in pieces, the length is known once they are there."""
        received = 0

        async def counted_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most_bytes:
                raise too_large()
            return message

        return counted_receive

    async def limited_handle(request: Request) -> Response:
        for name, value in request.scope["headers"]:
            if name == b"content-length" and int(value) > most_bytes:
                return refused(too_large())
            if name == b"transfer-encoding":
                request = Request(request.scope, counted(request.receive))
        return await handle(request)

    return limited_handle


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


async def body(request: Request, kind: type[T], most_bytes: int = MOST_BYTES) -> T:
    """The JSON body; an empty one is an empty object.

    Raises:
        InvalidParameter: it is not JSON, or not of that form.
        TooDeep: it is nested too deeply.
        TooLarge: nothing of that form is so large.
    """
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > most_bytes:
            raise TooLarge(f"The body has more than {most_bytes:,} bytes.")
    try:
        return json_decoder(kind).decode(bytes(data) or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            decode_json(bytes(data))  # it may be wrong in another way, and nested too deeply at that
        raise InvalidParameter("value_error", ("body",), str(error), None) from error


_NO_ENDPOINT: dict[int, type[GloveboxError]] = {404: NotFound, 405: MethodNotAllowed}


# How an application answers exceptions.


async def _no_endpoint(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _NO_ENDPOINT.get(error.status_code, RequestError)
    return error_response(error.status_code, kind(error.detail))


async def _invalid_parameter(request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidParameter)
    return invalid_request(error.problem)


async def _known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GloveboxError)
    return refused(error)


async def _disconnected(request: Request, error: Exception) -> Response:
    """The client is gone, so this response is not read."""
    return Response(status_code=400)


async def unexpected_error(request: Request, error: Exception) -> Response:
    """Answer a defect without a word of what was raised."""
    return unexpected()


HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _no_endpoint,
    InvalidParameter: _invalid_parameter,
    GloveboxError: _known_error,
    ClientDisconnect: _disconnected,
    Exception: unexpected_error,
}
