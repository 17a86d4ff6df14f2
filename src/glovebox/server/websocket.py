"""A connection that has become a WebSocket. Import this with the first one: it loads a library."""

from __future__ import annotations

import http
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Response

from glovebox.errors import RequestError
from glovebox.http.response_headers import HEADERS
from glovebox.http.responses import ERROR_HEADER
from glovebox.server.connection import CONNECTION, BoundedConnection


class WebSocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's protocol. It takes the HTTP connection that it came from off the books at its end."""

    def __init__(self, *, app_state: dict[str, Any], **parts: Any) -> None:
        super().__init__(app_state=app_state, **parts)
        self._connection: BoundedConnection = app_state[CONNECTION]
        self._reject_plainly = self.conn.reject
        self.conn.reject = self._reject  # type: ignore[method-assign]

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.forget()
        super().connection_lost(exc)

    def _reject(self, status: http.HTTPStatus | int, text: str) -> Response:
        """What the library itself answers to a handshake that is none, with the headers of all answers."""
        response = self._reject_plainly(status, text)
        for name, value in HEADERS:
            response.headers[name.decode()] = value.decode()
        response.headers[ERROR_HEADER] = RequestError.code
        return response
