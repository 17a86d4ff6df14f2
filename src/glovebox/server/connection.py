"""A connection to the server, with limits that hold before a key was shown.

The head of a request has a limit of size and of time, and reading it takes time in proportion to its size.
Connections that have shown no key are counted: when there are too many, the oldest make room.
"""

from __future__ import annotations

import asyncio
import functools
import resource
from collections import OrderedDict
from typing import Any, cast

from glovebox.errors import HeadersTooLarge, RequestError, RequestTimeout, UrlTooLong
from glovebox.http.response_headers import HEADERS
from glovebox.http.responses import error_response
from glovebox.server.uvicorn import STATUS_LINE, Config, HttpToolsProtocol, ServerState
from glovebox.settings import Settings

#: Where an application finds the connection of a request, in the `state` of its scope.
CONNECTION = "glovebox.connection"
#: The names, values and signs of a header take as many bytes more.
_PER_HEADER = 4
#: What a line of a request has besides its address, or besides the name and the value of a header.
_OF_LINE = 16
_MALFORMED = 400
#: How long a caller that was refused has to read that; what it sends meanwhile is thrown away.
_LINGER = 2.0
#: Who came more recently than this may still be about to send a request.
_FRESH = 5.0


class Strangers:
    """The connections on which no request was let in, the oldest first."""

    def __init__(self, per_peer: int) -> None:
        self._per_peer = per_peer
        # The other half is for those with a key, and for files.
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self._all: OrderedDict[BoundedConnection, None] = OrderedDict()
        self._peers: dict[str, OrderedDict[BoundedConnection, None]] = {}

    def add(self, connection: BoundedConnection) -> None:
        """Another one; if there are too many now, the oldest makes room."""
        peer = self._peers.setdefault(connection.peer, OrderedDict())
        self._all[connection] = peer[connection] = None
        oldest = next(iter(peer))
        if len(peer) > self._per_peer and connection.made - oldest.made > _FRESH:
            self._drop(oldest)
        if len(self._all) > self._most:
            self._drop(next(iter(self._all)))

    def remove(self, connection: BoundedConnection) -> None:
        if connection in self._all:
            del self._all[connection]
            peer = self._peers[connection.peer]
            del peer[connection]
            if not peer:
                del self._peers[connection.peer]

    def _drop(self, connection: BoundedConnection) -> None:
        self.remove(connection)
        connection.transport.abort()


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's protocol, bounded."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        settings: Settings,
        strangers: Strangers,
    ) -> None:
        super().__init__(config, server_state, {**app_state, CONNECTION: self}, _loop)
        self.peer, self.made = "", self.loop.time()
        self._settings = settings
        self._strangers = strangers
        self._is_known = False
        #: What was received since the last part of a request was complete, and what was received last.
        self._unfinished = self._piece = 0
        #: Smaller requests are within all limits.
        self._smallest = min(settings.max_url_size, settings.max_header_size)
        #: Set while the head of a request is awaited, and after a refusal.
        self._timer: asyncio.TimerHandle | None = None
        self._problem: RequestError | None = None
        self._is_refused = False
        self._discarded = 0

    def accept_caller(self) -> None:
        """A request on this connection was let in, so it is no stranger's."""
        if not self._is_known:
            self._is_known = True
            self._strangers.remove(self)

    def forget(self) -> None:
        self._strangers.remove(self)
        self._stop_timer()
        self.app_state = {}

    # Called by the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self._strangers.add(self)
        self._timer = self.loop.call_later(self._settings.request_head_seconds, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._piece = len(data)
        self._unfinished += self._piece
        super().data_received(data)
        if self._unfinished or self._is_in_head():
            self._bound_rest()

    # Called by the parser.

    def on_headers_complete(self) -> None:
        if self._unfinished + self._piece > self._smallest:  # so it may be too large
            self._check_head()
        self._unfinished = self._discarded = 0
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body. What comes after the answer is thrown away, so that callers can read that."""
        self._unfinished = 0
        super().on_body(body)
        if self._is_answered():
            self._discarded += len(body)
            if self._discarded > self._settings.max_body_size:
                self.transport.abort()
            elif self._timer is None:
                self._timer = self.loop.call_later(self._settings.request_head_seconds, self._too_late)

    def on_message_complete(self) -> None:
        """The request is there; if it was answered before, the connection may be used again."""
        self._unfinished = 0
        super().on_message_complete()
        if self._is_answered():
            self._stop_timer()
            self._timer = self.loop.call_later(self.timeout_keep_alive, self._too_late)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection on to another protocol, which is silent about requests that it cannot read."""
        from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS

        most = MAX_LINE_LENGTH - _OF_LINE
        if len(self.url) > most:
            self._refuse(UrlTooLong.status, UrlTooLong(f"The address has more than {most:,} bytes."))
        elif len(self.headers) > MAX_NUM_HEADERS or any(
            len(name) + len(value) > most for name, value in self.headers
        ):
            self._refuse(
                HeadersTooLarge.status, HeadersTooLarge("A header is too long, or there are too many.")
            )
        else:
            super().handle_websocket_upgrade()
            if not cast("Any", self.transport.get_protocol()).handshake_initiated:
                self._refuse(_MALFORMED, RequestError("A WebSocket cannot be opened like this."))

    # Refusals.

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser could not read, or was not allowed to."""
        if self._problem is not None:
            self._refuse(self._problem.status, self._problem)
        else:
            self._refuse(_MALFORMED, RequestError(msg))

    def _is_in_head(self) -> bool:
        return self.scope is not None and "method" not in self.scope

    def _is_answered(self) -> bool:
        return self._is_idle() and not self.parser.should_upgrade()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _bound_rest(self) -> None:
        """Bound what is received and not a whole part of a request yet."""
        if self._is_refused:
            return
        if self._is_in_head() and len(self.url) > self._settings.max_url_size:
            self._refuse(UrlTooLong.status, self._url_too_long())
        elif self._unfinished > self._settings.max_header_size + self._settings.max_url_size:
            self._refuse(HeadersTooLarge.status, self._headers_too_large())
        elif self._timer is None and (self._is_in_head() or self._is_idle()):
            self._timer = self.loop.call_later(self._settings.request_head_seconds, self._too_late)

    def _check_head(self) -> None:
        """Have the parser stop if the head is too large; an error in what it calls does that."""
        if len(self.url) > self._settings.max_url_size:
            self._problem = self._url_too_long()
        elif (
            sum(len(name) + len(value) + _PER_HEADER for name, value in self.headers)
            > self._settings.max_header_size
        ):
            self._problem = self._headers_too_large()
        if self._problem is not None:
            raise self._problem

    def _url_too_long(self) -> UrlTooLong:
        return UrlTooLong(f"The address has more than {self._settings.max_url_size:,} bytes.")

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(f"The headers have more than {self._settings.max_header_size:,} bytes.")

    def _too_late(self) -> None:
        self._timer = None
        if not self._is_idle():  # there is time until it is answered
            self._timer = self.loop.call_later(self._settings.request_head_seconds, self._too_late)
        elif self._unfinished or self._is_in_head():
            seconds = f"{self._settings.request_head_seconds:g}"
            self._refuse(RequestTimeout.status, RequestTimeout(f"No whole request came within {seconds} s."))
        else:
            self.transport.close()

    def _refuse(self, status: int, problem: RequestError) -> None:
        """Say what is wrong, and close the connection once the caller can have read it."""
        self._is_refused = True
        self._stop_timer()
        if not self._is_idle():
            self.transport.abort()  # an answer is under way, and another one would be taken for a part of it
            return
        response = error_response(status, problem)
        headers = [
            *self.server_state.default_headers,
            *response.raw_headers,
            *HEADERS,
            (b"connection", b"close"),
        ]
        head = [STATUS_LINE[status], *(b"%b: %b\r\n" % header for header in headers), b"\r\n"]
        self.transport.write(b"".join([*head, bytes(response.body)]))
        self.transport.write_eof()
        self.flow.resume_reading()
        self._timer = self.loop.call_later(_LINGER, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bounded(settings: Settings) -> type[asyncio.Protocol]:
    """The protocol for a server, as uvicorn takes it."""
    strangers = Strangers(settings.connections_per_peer)
    made = functools.partial(BoundedConnection, settings=settings, strangers=strangers)
    return cast("type[asyncio.Protocol]", made)
