"""An MCP server on the standard streams of this process: its own, or one behind HTTP."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from glovebox.box.threads import Threads

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.server.lowlevel import Server
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

    Incoming = MemoryObjectSendStream[SessionMessage | Exception]

_PIECE = 1 << 20
#: Longer messages are decoded in a thread.
_LARGE = 200_000


class Pipes(NamedTuple):
    """Descriptors of what were standard input and output."""

    reading: int
    writing: int


def claim() -> Pipes:
    """Take the standard streams for messages only.

    From now on standard input is empty and standard output is standard error, here and in every child.
    """
    pipes = Pipes(*(fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1)))
    for descriptor in pipes:
        os.set_blocking(descriptor, True)  # the parent may have made them non-blocking
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no standard error
        os.dup2(nothing, 1)
    os.close(nothing)
    return pipes


async def serve(server: Server[Any], pipes: Pipes) -> None:
    """Serve the client at the other end until it leaves."""
    async with _streams(pipes) as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def relay(pipes: Pipes, server: TransportStreams) -> None:
    """Pass messages on between the client at the other end and a server, until one of them leaves."""
    import anyio
    from mcp.shared.message import SessionMessage

    answers, requests = server
    headers = _Headers()
    async with _streams(pipes) as (read, write), anyio.create_task_group() as tasks, write:

        async def pass_back() -> None:
            async for answer in answers:
                if isinstance(answer, SessionMessage):
                    headers.learn(answer.message)
                    await write.send(answer)
            tasks.cancel_scope.cancel()

        tasks.start_soon(pass_back)
        async for request in read:
            if isinstance(request, SessionMessage):
                await requests.send(headers.added(request))
        tasks.cancel_scope.cancel()


class _Headers:
    """The headers of messages over HTTP, which repeat what is in them."""

    def __init__(self) -> None:
        self._greeting: Any = None
        #: The version that the greeting has settled, for protocols that have one.
        self._version = ""

    def learn(self, answer: JSONRPCMessage) -> None:
        """Take the version from the answer to the greeting."""
        import mcp_types as types

        if isinstance(answer, types.JSONRPCResponse) and answer.id == self._greeting:
            self._version = str(answer.result.get("protocolVersion", ""))

    def added(self, message: SessionMessage) -> SessionMessage:
        """The message with its headers."""
        import mcp_types as types
        from mcp.shared import inbound
        from mcp.shared.message import ClientMessageMetadata, SessionMessage

        said = message.message
        if not isinstance(said, types.JSONRPCRequest | types.JSONRPCNotification):
            return message
        if isinstance(said, types.JSONRPCRequest) and said.method == "initialize":
            self._greeting = said.id
            return message
        values = said.params or {}
        version = (values.get("_meta") or {}).get(types.PROTOCOL_VERSION_META_KEY) or self._version
        headers = {inbound.MCP_METHOD_HEADER: said.method}
        if version:
            headers[inbound.MCP_PROTOCOL_VERSION_HEADER] = str(version)
        if name := values.get(inbound.NAME_BEARING_METHODS.get(said.method, "")):
            headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(str(name))
        return SessionMessage(said, metadata=ClientMessageMetadata(headers=headers))


@asynccontextmanager
async def _streams(
    pipes: Pipes,
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]], None
]:
    """Messages from and to the client. Blocking calls are in daemon threads."""
    import anyio
    from mcp.shared.message import SessionMessage

    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    reader, writer = Threads("glovebox-stdin", 1), Threads("glovebox-stdout", 1)
    try:
        async with anyio.create_task_group() as tasks:

            async def write_all() -> None:
                if not await _write(outgoing, pipes.writing, writer):
                    tasks.cancel_scope.cancel()  # the client does not read any more

            tasks.start_soon(_read, incoming, write.clone(), pipes.reading, reader)
            tasks.start_soon(write_all)
            yield read, write
    finally:
        reader.close()
        writer.close()


async def _read(
    incoming: Incoming, answers: MemoryObjectSendStream[SessionMessage], descriptor: int, threads: Threads
) -> None:
    """Messages, one per line, until the end."""
    import anyio
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    async with incoming, answers:
        async for line in _lines(descriptor, threads):
            try:
                message = await threads.run(_message, line) if len(line) > _LARGE else _message(line)
            except ValueError:
                error = types.ErrorData(code=types.PARSE_ERROR, message="This is not a JSON-RPC message.")
                refusal = types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
                await answers.send(SessionMessage(refusal))
                continue
            try:
                await incoming.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


def _message(line: bytes) -> SessionMessage:
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))


async def _lines(descriptor: int, threads: Threads) -> AsyncGenerator[bytes, None]:
    begun: list[bytes] = []
    while data := await threads.run(os.read, descriptor, _PIECE):
        first, *others = data.split(b"\n")
        begun.append(first)
        for other in others:
            if line := b"".join(begun).strip():
                yield line
            begun = [other]
    if line := b"".join(begun).strip():
        yield line


async def _write(
    outgoing: MemoryObjectReceiveStream[SessionMessage], descriptor: int, threads: Threads
) -> bool:
    """Write messages until there are no more; False if the client is gone."""
    async with outgoing:
        async for message in outgoing:
            try:
                await threads.run(_send, message, descriptor)
            except OSError:
                return False
    return True


def _send(message: SessionMessage, descriptor: int) -> None:
    line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
    left = memoryview(line.encode())
    while left:
        left = left[os.write(descriptor, left) :]
