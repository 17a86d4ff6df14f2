"""Ways to an MCP server: its process, server-sent events, or streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from glovebox.box.keeping import Kept
from glovebox.box.mcp.servers import RemoteServer, Server, StdioServer
from glovebox.errors import McpError

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

#: How long a connection may take, and how long a stream without events is kept: servers may be silent.
_CONNECT = 30.0
_SILENCE = 24 * 3600.0
#: Begins the names that programs of servers have with their keeper.
PROCESS_PREFIX = "mcp-"


def load_sdk() -> None:
    """Import what speaks MCP: it takes a second, so it is done in a thread, when it is first needed."""
    import mcp.client.sse
    import mcp.client.streamable_http
    import mcp.server.lowlevel
    import mcp.server.sse  # noqa: F401

    # At lower levels these write down messages, headers and addresses, and what is secret in them.
    for name in ("mcp", "httpx2", "httpcore2", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.WARNING)


def process_name(name: str) -> str:
    """What the process of a server is kept as; names of servers have no dots."""
    return PROCESS_PREFIX + name.replace("_", ".")


@contextlib.asynccontextmanager
async def reached(server: Server, kept: Kept | None, lost: asyncio.Event) -> AsyncIterator[TransportStreams]:
    """The streams of a connection; `lost` is set when it ends from the other side."""
    async with _way(server, kept) as (read, write):
        yield _Watched(read, lost), write


def _way(server: Server, kept: Kept | None) -> contextlib.AbstractAsyncContextManager[TransportStreams]:
    if isinstance(server, StdioServer):
        from glovebox.box.mcp.pipes import piped

        assert kept is not None
        return piped(kept)
    if server.transport == "sse":
        from mcp.client.sse import sse_client

        return sse_client(server.url, headers(server), timeout=_CONNECT, sse_read_timeout=_SILENCE)
    return _streamable(server)


@contextlib.asynccontextmanager
async def _streamable(server: RemoteServer) -> AsyncIterator[TransportStreams]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(_CONNECT, read=_SILENCE)
    async with (
        httpx2.AsyncClient(
            headers=headers(server), timeout=timeout, event_hooks={"response": [_heed]}
        ) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


async def _heed(response: httpx2.Response) -> None:
    """Make of a status what the SDK does not: the key is wrong, or the session is over."""
    if response.status_code in (401, 403):
        raise McpError(f"It answered {response.status_code} {response.reason_phrase}".rstrip())
    if response.status_code == 404 and "mcp-session-id" in response.request.headers:
        response.headers["content-type"] = ""  # servers word it differently; without a text, the SDK has one


def headers(server: RemoteServer) -> dict[str, str]:
    """What requests carry: the key the way the contract's clients send it, and what was asked for."""
    key = server.api_key
    known = {"Authorization": f"Bearer {key}", "s": key, "X-Session-API-Key": key} if key else {}
    return {**known, **server.headers}


class _Watched:
    """A stream of messages whose end is noticed."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], lost: asyncio.Event) -> None:
        self._stream = stream
        self._lost = lost

    @property
    def last_context(self) -> Any:
        """What the SDK keeps beside a message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        return await self.__anext__()

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        import anyio

        try:
            return await self._stream.__anext__()
        except (StopAsyncIteration, anyio.EndOfStream, anyio.ClosedResourceError):
            self._lost.set()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)
