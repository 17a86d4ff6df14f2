"""An endpoint is declared once: what it does, what it takes and what it answers.

The router, the OpenAPI document and the documentation check are all made from these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from glovebox.http.responses import ErrorBody, ValidationErrorBody

Handle = Callable[[Request], Awaitable[Response]]
HandleSocket = Callable[[WebSocket], Awaitable[None]]
EndpointT = TypeVar("EndpointT", bound="Endpoint | Socket")


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of the query, or a part of the path."""

    name: str
    schema: Mapping[str, Any]
    help: str
    required: bool = False


class Reply(msgspec.Struct, frozen=True):
    """A status an endpoint may answer with: a struct type, a JSON schema, or another media type."""

    help: str
    body: type | Mapping[str, Any] | None = None
    media_type: str = "application/json"


class Endpoint(msgspec.Struct, frozen=True):
    """One method of one path."""

    method: str
    path: str
    handle: Handle
    summary: str
    answers: Mapping[int, Reply]
    description: str = ""
    #: Exempt from the key: for probes that have none.
    open: bool = False
    #: The key may also be shown as a bearer token, for clients that can do nothing else.
    bearer: bool = False
    parameters: tuple[Parameter, ...] = ()
    #: The parts of the path in braces.
    path_parameters: tuple[Parameter, ...] = ()
    body: type | Mapping[str, Any] | None = None
    body_media_type: str = "application/json"
    #: It takes its body piece by piece, and limits the size by itself.
    streamed: bool = False
    #: A request is activity of the box, as an action is.
    active: bool = False


class Socket(msgspec.Struct, frozen=True):
    """A WebSocket at a path."""

    path: str
    handle: HandleSocket
    active: bool = False


def all_active(endpoints: Iterable[EndpointT]) -> list[EndpointT]:
    """Endpoints whose requests are activity of the box."""
    return [msgspec.structs.replace(endpoint, active=True) for endpoint in endpoints]


UNEXPECTED = Reply("The request could not be understood.", ErrorBody)
INVALID = Reply("A parameter or the body is not of the right form.", ValidationErrorBody)
FAILED = Reply("It could not be done; `detail` says why.", ErrorBody)
