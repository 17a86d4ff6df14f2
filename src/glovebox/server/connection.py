"""A connection to the server, with limits that hold before anybody has shown a key.

The head of a request has a limit of size and of time, and reading it takes time in proportion to its size.
Connections that have shown no key are counted: when there are too many, the oldest make room.
"""

from __future__ import annotations

import asyncio
import functools
import resource
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec

from glovebox.errors import HeadersTooLarge, RequestError, RequestTimeout, UrlTooLong
from glovebox.http.responses import error_response
from glovebox.http.security_headers import HEADERS
from glovebox.server.quick_uvicorn import STATUS_LINE, Config, HttpToolsProtocol, ServerState
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


class Limits(msgspec.Struct, frozen=True):
    """What is taken from callers before their key is known."""

    header_bytes: int
    url_bytes: int
    body_bytes: int
    head_seconds: float
    connections: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Those that were asked for."""
        return cls(
            header_bytes=settings.max_header_size,
            url_bytes=settings.max_url_size,
            body_bytes=settings.max_body_size,
            head_seconds=settings.request_head_seconds,
            connections=settings.connections_per_peer,
        )


class Strangers:
    """The connections that have not shown a key, those first that have said nothing for longest."""

    def __init__(self, per_peer: int, clock: Callable[[], float]) -> None:
        self._per_peer = per_peer
        # The other half is for those with a key, and for files.
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self._clock = clock
        self._heard: dict[Connection, float] = {}
        self._peers: dict[str, dict[Connection, None]] = {}

    def add(self, connection: Connection) -> None:
        """A connection that is new, or that was answered without a key."""
        peer = self._peers.setdefault(connection.peer, {})
        for known in (self._heard, peer):
            known.pop(connection, None)
        self._heard[connection] = self._clock()
        peer[connection] = None
        oldest = next(iter(peer))
        if len(peer) > self._per_peer and self._clock() - self._heard[oldest] > _FRESH:
            self._drop(oldest)
        elif len(self._heard) > self._most:
            self._drop(next(iter(self._heard)))

    def remove(self, connection: Connection) -> None:
        """One that has shown a key, or is gone."""
        if self._heard.pop(connection, None) is not None:
            peer = self._peers[connection.peer]
            del peer[connection]
            if not peer:
                del self._peers[connection.peer]

    def _drop(self, connection: Connection) -> None:
        self.remove(connection)
        connection.transport.abort()


class Connection(HttpToolsProtocol):
    """uvicorn's protocol, bounded."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: Limits,
        strangers: Strangers,
    ) -> None:
        super().__init__(config, server_state, {**app_state, CONNECTION: self}, _loop)
        self.peer = ""
        self._limits = limits
        self._strangers = strangers
        self._is_known = False
        #: What was received since the last part of a request was complete; 0 if nothing is under way.
        self._unfinished = 0
        self._expects_head = True
        #: Set while the head of a request is awaited, and while somebody who was refused is.
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
        """The connection is gone."""
        self._strangers.remove(self)
        self._stop_timer()
        self.app_state = {}

    # What the transport tells.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self._strangers.add(self)
        self._timer = self.loop.call_later(self._limits.head_seconds, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self.forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless it is too much."""
        if self._is_refused:
            return
        self._unfinished += len(data)
        super().data_received(data)
        if not self._unfinished or self._is_refused:
            return
        if self._unfinished > self._limits.header_bytes + self._limits.url_bytes:
            self._refuse(HeadersTooLarge.status, self._headers_too_large())
        elif self._expects_head and self._timer is None:
            self._timer = self.loop.call_later(self._limits.head_seconds, self._too_late)

    # What the parser tells.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._unfinished = 1
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of its address."""
        super().on_url(url)
        if len(self.url) > self._limits.url_bytes:
            self._fail(UrlTooLong(f"The address has more than {self._limits.url_bytes:,} bytes."))

    def on_headers_complete(self) -> None:
        """The head of the request is there."""
        if (
            sum(len(name) + len(value) + _PER_HEADER for name, value in self.headers)
            > self._limits.header_bytes
        ):
            self._fail(self._headers_too_large())
        self._unfinished = 0
        self._expects_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body. What comes after the answer is not wanted, but callers read it more easily."""
        self._unfinished = 0
        super().on_body(body)
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > self._limits.body_bytes:
                self.transport.abort()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._unfinished = self._discarded = 0
        self._expects_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered."""
        super().on_response_complete()
        if not self._is_known and not self.transport.is_closing():
            self._strangers.add(self)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection on to another protocol, which does not say so if a line is too long for it."""
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

    # What becomes of those who ask for too much.

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser could not read, or was not allowed to."""
        if self._problem is not None:
            self._refuse(self._problem.status, self._problem)
        else:
            self._refuse(_MALFORMED, RequestError(msg))

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(f"The headers have more than {self._limits.header_bytes:,} bytes.")

    def _fail(self, problem: RequestError) -> None:
        """Have the parser stop."""
        self._problem = problem
        raise problem

    def _too_late(self) -> None:
        self._timer = None
        if self.cycle is not None and not self.cycle.response_complete:  # there is time until it is answered
            self._timer = self.loop.call_later(self._limits.head_seconds, self._too_late)
        elif self._unfinished:
            seconds = f"{self._limits.head_seconds:g}"
            self._refuse(RequestTimeout.status, RequestTimeout(f"No whole request came within {seconds} s."))
        else:
            self.transport.close()

    def _refuse(self, status: int, problem: RequestError) -> None:
        """Say what is wrong, and close the connection once the caller can have read it."""
        self._is_refused = True
        self._stop_timer()
        if self.cycle is not None and not self.cycle.response_complete:
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


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol for a server, as uvicorn takes it."""
    made = functools.partial(
        Connection, limits=limits, strangers=Strangers(limits.connections, time.monotonic)
    )
    return cast("type[asyncio.Protocol]", made)
