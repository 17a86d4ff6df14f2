"""Headers of every response: the id of the request, and what keeps browsers from running or framing it."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glovebox import tracing

REQUEST_ID_HEADER = "X-Request-ID"
_HEADER = REQUEST_ID_HEADER.lower().encode()
_ACCEPTED = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
#: What begins an answer, on HTTP and on a WebSocket that is accepted or refused.
_BEGINNINGS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})

#: New ids are a random part of this process and a number.
_PROCESS = os.urandom(6).hex()
_numbers = itertools.count(1)


Header = tuple[bytes, bytes]

POLICY = "Content-Security-Policy"
#: Nothing may be loaded; no page may show it in a frame, and no form in it may be sent.
CLOSED = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
#: In lower case, as ASGI has them.
HEADERS = (
    (POLICY.lower().encode(), CLOSED.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
_NAMES = frozenset(name for name, _ in HEADERS)


def with_security(headers: Collection[Header]) -> list[Header]:
    """The headers of an answer, and those of these that are not among them."""
    names = {name for name, _ in headers}
    missing = HEADERS if names.isdisjoint(_NAMES) else [one for one in HEADERS if one[0] not in names]
    return [*headers, *missing]


class RequestIds:
    """ASGI middleware that goes around everything else, so that also the last resort for errors is inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = trace = b""
        for name, value in scope["headers"]:
            if name == _HEADER:
                given = value
            elif name == b"traceparent":
                trace = value
        if not _ACCEPTED.fullmatch(given):
            given = b"%b-%d" % (_PROCESS.encode(), next(_numbers))
        # Never reset: what the server logs about the request after this returned belongs to it as well, and
        # the next request on the connection sets its own.
        tracing.request_id.set(given.decode("ascii"))
        tracing.traceparent.set(trace.decode("latin-1"))
        header = (_HEADER, given)

        async def send_with_id(message: Message) -> None:
            if message["type"] in _BEGINNINGS:
                message = {**message, "headers": with_security([*message.get("headers", ()), header])}
            await send(message)

        await self._app(scope, receive, send_with_id)


class SecurityHeaders:
    """ASGI middleware that adds the headers. A page that needs more brings a policy of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] in _BEGINNINGS:
                message = {**message, "headers": with_security(message.get("headers", ()))}
            await send(message)

        await self._app(scope, receive, send_with_headers)
