"""Speaks to an MCP server over its standard input and output: one JSON message a line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from typing import IO, TYPE_CHECKING, Any, Literal

from glovebox.box.keeping import Kept
from glovebox.errors import McpError

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

log = logging.getLogger(__name__)

#: The longest message: beyond it, a server is taken for broken.
LONGEST = 64 << 20


@contextlib.asynccontextmanager
async def piped(kept: Kept) -> AsyncIterator[TransportStreams]:
    """The streams of a process that was started with pipes. They end when it does.

    Raises:
        McpError: it ended before it began.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    reader, writer = await _opened(kept)
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with heard:
            while (line := await _line(reader)) is not None:
                message = _message(kept.name, line)
                if message is None:
                    continue
                try:
                    await heard.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

    async def write() -> None:
        async with said:
            async for message in said:
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
        for stream in (heard, incoming, outgoing, said):
            stream.close()
        writer.close()


def _message(name: str, line: bytes) -> Any:
    """The message of a line; None for one that is none, which some servers print among them."""
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
    """The next line; None at the end, and for one that has none in sight."""
    try:
        return await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError:
        log.warning("an MCP server printed a line of more than %d bytes; it is given up", LONGEST)
        return None


async def _opened(kept: Kept) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
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
            await _begun(reader, kept)
        except (McpError, OSError, asyncio.CancelledError):
            reading.close()
            raise
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), _end(inward, "wb")
        )
    finally:
        os.close(both)
    return reader, _Writer(transport, protocol, reader, loop, reading)


async def _begun(reader: asyncio.StreamReader, kept: Kept) -> None:
    """Wait for the empty line that a process begins with."""
    first = asyncio.ensure_future(reader.readline())
    ends: list[asyncio.Future[Any]] = [first, kept.exited]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not first.done() or not first.result():
            raise McpError("it ended before it began")
    finally:
        first.cancel()


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
        """Close both ways."""
        super().close()
        self._reading.close()
