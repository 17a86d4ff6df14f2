"""Answers of the HTTP edge: compact JSON, and errors with the contract's bodies and our codes."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from glovebox.errors import GloveboxError, RequestError
from glovebox.protocol.base import Message

#: Carries the stable code of an error; bodies stay as the contract has them.
ERROR_HEADER = "X-Glovebox-Error"
#: Says where the next piece of raw output begins.
NEXT_HEADER = "X-Glovebox-Next-Offset"
UNEXPECTED = "An unexpected error occurred. Please try again later."


class ErrorBody(Message):
    """Why a request failed."""

    detail: str


class ValidationErrorBody(Message):
    """Why a request could not be understood; `errors` is text."""

    detail: str
    errors: str


def to_json(value: Any) -> bytes:
    """Compact UTF-8. Text that is not valid Unicode (odd file names) is shown with replacement marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_printable(msgspec.to_builtins(value)))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return value


def json_response(value: Any, status: int = 200) -> Response:
    """A response whose body is the JSON of a value."""
    return Response(to_json(value), status, media_type="application/json")


def error_response(status: int, error: GloveboxError) -> Response:
    """An error with the contract's body and our code beside it."""
    response = json_response(ErrorBody(detail=str(error)), status)
    response.headers[ERROR_HEADER] = error.code
    return response


def action_failed(error: GloveboxError) -> Response:
    """An action that could not be carried out: 500, as the contract's clients expect."""
    response = json_response(ErrorBody(detail=f"Internal server error: {error}"), 500)
    response.headers[ERROR_HEADER] = error.code
    return response


def unexpected() -> Response:
    """The contract's answer where it does not say what was wrong."""
    return error_response(500, RequestError(UNEXPECTED))


def invalid_request(*errors: dict[str, Any]) -> Response:
    """A request whose parameters or body are not of the right form; the list travels as text."""
    body = ValidationErrorBody(detail="Invalid request parameters", errors=repr(list(errors)))
    response = json_response(body, 422)
    response.headers[ERROR_HEADER] = RequestError.code
    return response


def refused(error: GloveboxError) -> Response:
    """An error with the status that belongs to its kind."""
    return error_response(error.status, error)
