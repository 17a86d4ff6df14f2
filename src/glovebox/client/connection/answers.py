"""Responses of a box: errors as exceptions, observations as typed messages."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from glovebox.errors import (
    BackendError,
    BadAnswer,
    ClientError,
    GloveboxError,
    InvalidKey,
    UnknownEvent,
    WindowError,
    WrongArguments,
    by_code,
)
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Action, Message, Observation
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.openhands import decode_observation, expected_observations

ERROR_HEADER = "X-Glovebox-Error"
#: Characters of an unexpected response in messages.
_SHOWN = 200

ObservationT = TypeVar("ObservationT", bound=Observation)
MessageT = TypeVar("MessageT", bound=Message)


class UnknownAnswer(BadAnswer):
    """An error without a known code, with its response."""

    def __init__(self, message: str, http_status: int, text: str) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.text = text


class _Detail(Message):
    detail: str


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> GloveboxError:
    """The exception for an error response, by its code."""
    text = body.decode("utf-8", "replace")
    try:
        detail = decode_json(body, _Detail).detail
    except (msgspec.DecodeError, UnicodeDecodeError):
        detail = ""
    return failure(status, headers.get(ERROR_HEADER, ""), detail, text)


def failure(status: int, code: str, detail: str, text: str = "") -> GloveboxError:
    """The exception for a code of the box."""
    kind = by_code().get(code)
    if kind is not None and not issubclass(
        kind, ClientError | BackendError
    ):  # the client raises those itself
        return kind(detail or text)
    if status == 403 and detail == "Invalid API Key":  # the contract's words, of a server without codes
        return InvalidKey(detail)
    said = detail or _shown(text)
    return UnknownAnswer(
        f"The box answered {status}: {said}" if said else f"The box answered {status}", status, text
    )


def decode(body: bytes, kind: type[MessageT]) -> MessageT:
    """Decode the response of an endpoint.

    Raises:
        BadAnswer: it is something else.
    """
    try:
        return decode_json(body, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(
            f"That is not what a box answers: {_shown(body.decode('utf-8', 'replace'))}"
        ) from error


def decode_list(body: bytes, kind: type[MessageT]) -> list[MessageT]:
    """Decode the response of an endpoint that lists something.

    Raises:
        BadAnswer: it is something else.
    """
    try:
        return decode_json(body, list[kind])  # type: ignore[valid-type]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(f"That is not a list of a box: {_shown(body.decode('utf-8', 'replace'))}") from error


def envelope(body: bytes) -> dict[str, Any]:
    """The JSON object of a response.

    Raises:
        BadAnswer: it is something else.
    """
    try:
        return decode_json(body, dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"That is no observation: {_shown(body.decode('utf-8', 'replace'))}") from error


def observation_of(action: Action[ObservationT], answered: dict[str, Any]) -> ObservationT | ErrorObservation:
    """The observation of an action. Unknown fields, of later versions, are ignored.

    Raises:
        BadAnswer: it is none, or not one of this action.
        WindowError: a VS Code window could not be asked.
    """
    try:
        observation = decode_observation(answered, expected_observations(type(action)))
    except UnknownEvent as error:
        name = _shown(repr(answered.get("observation")))
        raise BadAnswer(f"The box answered {action.action} with {name}.") from error
    except WrongArguments as error:
        raise BadAnswer(f"The box answered {action.action} with something else: {error}") from error
    if isinstance(observation, ErrorObservation):
        kind = by_code().get(observation.error_id, GloveboxError)
        if issubclass(kind, WindowError):
            raise kind(observation.content)
    return typing.cast("ObservationT | ErrorObservation", observation)


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
