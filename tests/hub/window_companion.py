"""The companion box of a window that tests make: a real box, to which requests are forwarded."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator

import httpx

from glovebox.protocol.window import BodyPiece, FetchBody, Forward, Forwarded


class WindowCompanion:
    """Forwards requests to a box."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"X-Session-API-Key": key, "Authorization": f"Bearer {key}"}
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=120, trust_env=False)
        self._streams: dict[str, tuple[contextlib.AsyncExitStack, AsyncIterator[bytes]]] = {}

    async def forward(self, order: Forward) -> Forwarded:
        """Send a request; server-sent events are fetched afterwards."""
        stack = contextlib.AsyncExitStack()
        sent = self._client.stream(order.method, order.path, headers=order.headers, content=order.body)
        response = await stack.enter_async_context(sent)
        headers = dict(response.headers)
        if not headers.get("content-type", "").startswith("text/event-stream"):
            body = await response.aread()
            await stack.aclose()
            return Forwarded(status=response.status_code, headers=headers, body=body)
        stream = uuid.uuid4().hex
        self._streams[stream] = stack, response.aiter_bytes()
        return Forwarded(status=response.status_code, headers=headers, stream=stream)

    async def fetch(self, order: FetchBody) -> BodyPiece:
        """The next piece of a body."""
        if order.close:
            await self._close(order.stream)
            return BodyPiece(data=b"", last=True)
        _, pieces = self._streams[order.stream]
        async for piece in pieces:
            return BodyPiece(data=piece, last=False)
        await self._close(order.stream)
        return BodyPiece(data=b"", last=True)

    @property
    def open_streams(self) -> int:
        """How many bodies are not fetched to their end."""
        return len(self._streams)

    async def close(self) -> None:
        """End all requests."""
        for stream in list(self._streams):
            await self._close(stream)
        await self._client.aclose()

    async def _close(self, stream: str) -> None:
        stack, _ = self._streams.pop(stream, (contextlib.AsyncExitStack(), None))
        await stack.aclose()
