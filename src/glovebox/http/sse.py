"""Answers that go on: each piece is sent the moment it is there, and a slow reader holds back only itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glovebox.errors import GloveboxError
from glovebox.http.responses import NEXT_HEADER, to_json

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Proxies close what is silent for longer.
KEEP_ALIVE_SECONDS = 15.0
EVENTS = "text/event-stream"
RAW = "application/octet-stream"
#: How much of a log is read at a time.
_PIECE = 262_144
#: `read(offset, limit)` gives some of the bytes there; it raises OutputGone.
ReadBytes = Callable[[int, int], Awaitable[bytes]]
#: Caches and proxies must pass everything on at once.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def message(event: str, data: Any, message_id: str = "") -> bytes:
    """One server-sent event; `data` is JSON already, or becomes it."""
    body = data if isinstance(data, bytes) else to_json(data)
    name = f"id: {message_id}\nevent: {event}" if message_id else f"event: {event}"
    return b"%b\ndata: %b\n\n" % (name.encode(), body)


def described(*events: str) -> dict[str, Any]:
    """The schema of one event of a stream; its data is JSON."""
    text = {"type": "string"}
    properties = {"event": {"enum": list(events)}, "data": text, "id": text}
    return {"type": "object", "required": ["event", "data"], "properties": properties}


class Stream(Response):
    """A body of unknown length.

    It ends with its pieces, with its reader, or when the box closes. A failure cuts the connection, so that
    a part is not taken for the whole.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        media_type: str = EVENTS,
        closing: asyncio.Event | None = None,
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self.init_headers(_HEADERS)
        del self.headers["content-length"]
        self._pieces = pieces
        self._closing = closing
        self._keep_alive = keep_alive
        self._quiet = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(head)
        sending = asyncio.ensure_future(self._send_all(send))
        ends: list[asyncio.Future[Any]] = [sending, asyncio.ensure_future(disconnected(receive))]
        if self._closing is not None:
            ends.append(asyncio.ensure_future(self._closing.wait()))
        others = [asyncio.ensure_future(self._beat(send))] if self.media_type == EVENTS else []
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ends, *others):
                task.cancel()
            await asyncio.gather(*ends, *others, return_exceptions=True)
        failure = None if sending.cancelled() else sending.exception()
        if isinstance(failure, GloveboxError):
            log.warning("An answer was broken off: %s", failure)
            return
        if failure is not None:
            raise failure
        await send({"type": "http.response.body", "body": b""})

    async def _send_all(self, send: Send) -> None:
        async with contextlib.aclosing(self._pieces) as pieces:
            async for piece in pieces:
                self._quiet = False
                await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _beat(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._keep_alive)
            if self._quiet:
                await send({"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True})
            self._quiet = True


class RawBytes(Response):
    """Bytes of a log, a piece at a time; their number is known beforehand."""

    media_type = RAW

    def __init__(self, read: ReadBytes, offset: int, first: bytes, length: int) -> None:
        self._read = read
        self._offset = offset
        self._first = first
        self._length = length
        self.status_code = 200
        self.background = None
        self.init_headers({"Content-Length": str(length), NEXT_HEADER: str(offset + length)})

    @classmethod
    async def read_first(cls, read: ReadBytes, offset: int, length: int) -> RawBytes:
        """The answer, its first piece read already: what is gone is an error, not a cut answer."""
        first = await read(offset, min(_PIECE, length)) if length else b""
        return cls(read, offset, first, length)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it as fast as it is taken."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.ensure_future(disconnected(receive))
        piece, sent = self._first, 0
        try:
            while not gone.done():
                sent += len(piece)
                more = bool(piece) and sent < self._length
                await send({"type": "http.response.body", "body": piece, "more_body": more})
                if not more:
                    return
                piece = await self._read(self._offset + sent, min(_PIECE, self._length - sent))
        except GloveboxError as error:
            # Returning without the rest makes the server close the connection.
            log.warning("An answer was broken off: %s", error)
        finally:
            gone.cancel()


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of some work, which is cancelled when the client goes away.

    Raises:
        ClientDisconnect: it did.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.wait([task, gone])


async def disconnected(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
