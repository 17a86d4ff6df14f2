"""A connection that has become a WebSocket. Import this with the first one: it loads a library."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from glovebox.server.connection import CONNECTION, Connection


class WebSocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's protocol; the connection that it came from hears of its end."""

    def __init__(self, *, app_state: dict[str, Any], **parts: Any) -> None:
        super().__init__(app_state=app_state, **parts)
        self._connection: Connection = app_state[CONNECTION]

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._connection.forget()
        super().connection_lost(exc)
