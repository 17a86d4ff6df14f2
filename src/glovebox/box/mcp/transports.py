"""Connections to MCP servers: over pipes of a process, server-sent events, or streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar

from glovebox.box.mcp.config import RemoteServer, Server, StdioServer
from glovebox.box.services import ServiceProcess
from glovebox.box.supervised import race
from glovebox.errors import McpError

if TYPE_CHECKING:
    import httpx2
    import mcp_types
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.client.session import ClientSession
    from mcp.shared.message import SessionMessage

PageT = TypeVar("PageT", bound="mcp_types.PaginatedResult")

#: Seconds that a connection may take, and that a stream may stay open without events.
_CONNECT = 30.0
_SILENCE = 24 * 3600.0
#: Begins the names of processes of MCP servers.
PROCESS_PREFIX = "mcp-"


def load_sdk() -> None:
    """Import the MCP SDK. It takes a second, so it is called in a thread, when the SDK is first needed."""
    import mcp.client.sse
    import mcp.client.streamable_http
    import mcp.server.lowlevel
    import mcp.server.sse  # noqa: F401

    # At lower levels these log messages, headers and addresses, with their secrets.
    for name in ("mcp", "httpx2", "httpcore2", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.WARNING)


def process_name(name: str) -> str:
    """The name of the process of a server. Names of servers have no dots, those of processes no _."""
    return PROCESS_PREFIX + name.replace("_", ".")


@contextlib.asynccontextmanager
async def open_transport(
    server: Server, kept: ServiceProcess | None, lost: asyncio.Event
) -> AsyncIterator[TransportStreams]:
    """Connect; `lost` is set when the other side closes the connection."""
    async with _transport(server, kept) as (read, write):
        yield _Watched(read, lost), write


def _transport(
    server: Server, kept: ServiceProcess | None
) -> contextlib.AbstractAsyncContextManager[TransportStreams]:
    if isinstance(server, StdioServer):
        assert kept is not None
        return open_pipes(kept)
    if server.transport == "sse":
        from mcp.client.sse import sse_client

        return sse_client(server.url, headers(server), timeout=_CONNECT, sse_read_timeout=_SILENCE)
    return open_streamable(server)


@contextlib.asynccontextmanager
async def open_streamable(server: RemoteServer, *, use_proxy: bool = True) -> AsyncIterator[TransportStreams]:
    """Connect over streamable HTTP; `use_proxy` allows the proxies of the environment."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(_CONNECT, read=_SILENCE)
    async with (
        httpx2.AsyncClient(
            headers=headers(server),
            timeout=timeout,
            event_hooks={"response": [_check_status]},
            trust_env=use_proxy,
        ) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


async def _check_status(response: httpx2.Response) -> None:
    """Handle statuses that the SDK does not: a wrong key, or a session that has expired."""
    if response.status_code in (401, 403):
        raise McpError(f"It answered {response.status_code} {response.reason_phrase}".rstrip())
    if response.status_code == 404 and "mcp-session-id" in response.request.headers:
        response.headers["content-type"] = (
            ""  # servers word it differently; without a text, the SDK uses its own
        )


def headers(server: RemoteServer) -> dict[str, str]:
    """The headers of requests: the key as the contract's clients send it, and those of the configuration."""
    key = server.api_key
    known = {"Authorization": f"Bearer {key}", "s": key, "X-Session-API-Key": key} if key else {}
    return {**known, **server.headers}


class _Watched:
    """A stream of messages that sets an event at its end."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], lost: asyncio.Event) -> None:
        self._stream = stream
        self._lost = lost

    @property
    def last_context(self) -> Any:
        """The SDK reads this beside a message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def aclose(self) -> None:
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


log = logging.getLogger(__name__)

#: The longest message in bytes; a server that sends a longer one is broken.
LONGEST = 64 << 20


@contextlib.asynccontextmanager
async def open_pipes(kept: ServiceProcess) -> AsyncIterator[TransportStreams]:
    """Connect to a process that was started with pipes.

    Raises:
        McpError: it ended before it began.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    reader, writer = await _open_streams(kept)
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with received:
            while (line := await _line(reader)) is not None:
                message = _message(kept.name, line)
                if message is None:
                    continue
                try:
                    await received.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

    async def write() -> None:
        async with sent:
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                try:
                    await writer.drain()
                except ConnectionError:
                    return

    tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        yield incoming, outgoing
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (received, incoming, outgoing, sent):
            stream.close()
        writer.close()


def _message(name: str, line: bytes) -> Any:
    """The message of a line; None for other lines, which some servers print too."""
    import mcp_types
    from mcp.shared.message import SessionMessage

    if not line.strip():
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        log.debug("%s printed a line of %d bytes that is no message", name, len(line))
        return None


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line; None at the end, and for a line that is too long."""
    try:
        return await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError:
        log.warning("an MCP server printed a line of more than %d bytes; it is given up", LONGEST)
        return None


async def _open_streams(kept: ServiceProcess) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Both pipes, once the process has opened them too."""
    loop = asyncio.get_running_loop()
    inward, outward = os.path.join(kept.directory, "in"), os.path.join(kept.directory, "out")
    # Open at both ends, so that neither side has to wait for the other.
    both = os.open(inward, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        reader = asyncio.StreamReader(limit=LONGEST)
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), _end(outward, "rb")
        )
        try:
            await _wait_for_start(reader, kept)
        except (McpError, OSError, asyncio.CancelledError):
            reading.close()
            raise
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), _end(inward, "wb")
        )
    finally:
        os.close(both)
    return reader, _Writer(transport, protocol, reader, loop, reading)


async def _wait_for_start(reader: asyncio.StreamReader, kept: ServiceProcess) -> None:
    """Wait for the empty line that the process prints first."""
    first = asyncio.create_task(reader.readline())
    await race(first, asyncio.wait([kept.exited]))
    if not first.done() or not first.result():
        raise McpError("it ended before it began")


def _end(path: str, mode: Literal["rb", "wb"]) -> IO[bytes]:
    """One end of a pipe, without waiting for the other."""
    flags = os.O_RDONLY if mode == "rb" else os.O_WRONLY
    return open(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC), mode, buffering=0)


class _Writer(asyncio.StreamWriter):
    """A writer that closes the way back as well."""

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        protocol: asyncio.streams.FlowControlMixin,
        reader: asyncio.StreamReader,
        loop: asyncio.AbstractEventLoop,
        reading: asyncio.ReadTransport,
    ) -> None:
        super().__init__(transport, protocol, reader, loop)
        self._reading = reading

    def close(self) -> None:
        super().close()
        self._reading.close()


#: The most pages of a list: some servers never end one.
_MOST_PAGES = 100


async def greet(session: ClientSession) -> None:
    """Agree on a version, first in the older way, which nearly all servers understand."""
    import mcp_types
    from mcp.shared.exceptions import MCPError

    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in (mcp_types.UNSUPPORTED_PROTOCOL_VERSION, mcp_types.METHOD_NOT_FOUND):
            raise
        await session.discover()


async def list_tools(session: ClientSession) -> list[mcp_types.Tool]:
    """All tools of a server."""
    capabilities = session.server_capabilities
    if capabilities is not None and capabilities.tools is None:
        return []
    pages = list_pages(lambda at: session.list_tools(params=at))
    return [tool async for page in pages for tool in page.tools]


async def list_pages(
    ask: Callable[[mcp_types.PaginatedRequestParams], Awaitable[PageT]],
) -> AsyncIterator[PageT]:
    """All pages of a list; `ask` gets one."""
    import mcp_types

    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await ask(mcp_types.PaginatedRequestParams(cursor=cursor))
        yield page
        cursor = page.next_cursor
        if not cursor:
            break


def first_error(group: BaseExceptionGroup[Any]) -> BaseException:
    """The first of several exceptions, however deep."""
    one = group.exceptions[0]
    return first_error(one) if isinstance(one, BaseExceptionGroup) else one


def is_closed(error: BaseException) -> bool:
    """Whether the SDK reports a closed connection; servers use the same code for other errors."""
    import mcp_types
    from mcp.shared.exceptions import MCPError

    closed = (mcp_types.CONNECTION_CLOSED, "Connection closed")
    return isinstance(error, MCPError) and (error.code, error.message) == closed


def is_forgotten(error: BaseException) -> bool:
    """Whether a remote server has forgotten the session; it has done nothing then."""
    import mcp_types
    from mcp.shared.exceptions import MCPError

    forgotten = (mcp_types.INVALID_REQUEST, "Session terminated")
    return isinstance(error, MCPError) and (error.code, error.message) == forgotten
