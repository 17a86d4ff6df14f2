"""What processes print, as it is printed: raw, as server-sent events, and over a WebSocket."""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
from collections.abc import AsyncGenerator
from typing import Literal

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from glovebox.box.processes.registry import BoxProcess, ProcessRegistry
from glovebox.errors import GloveboxError, OutputGone, RequestError, StdinFull
from glovebox.http.requests import too_deep
from glovebox.http.responses import to_json
from glovebox.http.sse import message
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.protocol.processes import Encoding, ProcessInfo, ProcessOutput

STREAMS = ("stdout", "stderr")
#: How much is read at a time: as bytes, and as text or base64.
_PIECE = 1 << 20
_TEXT_PIECE = 65_536
#: How much may wait for a process to read its standard input, and for how many seconds.
MOST_WAITING = 1 << 20
STDIN_PATIENCE = 30.0
#: Codes a WebSocket is closed with.
_ENDED, _UNKNOWN = 1000, 4404


class StreamGap(Message):
    """Output that is not kept any more was skipped."""

    stream: Literal["stdout", "stderr"]
    offset: int
    end: int


async def follow(
    process: BoxProcess, offsets: list[int], limit: int = _PIECE, streams: tuple[int, ...] = (0, 1)
) -> AsyncGenerator[tuple[int, int, bytes], None]:
    """Pieces of output with their streams and offsets, until the process has ended. No bytes: some are gone.

    What processes in the background print later is not waited for.
    """
    program, at = process.program, list(offsets)
    final: tuple[int, int] | None = None
    while True:
        if final is None and process.ended:
            final = program.sizes
        sizes = final or program.sizes
        behind = [stream for stream in streams if at[stream] < sizes[stream]]
        for stream in behind:
            try:
                data = await program.read(stream, at[stream], min(limit, sizes[stream] - at[stream]))
            except OutputGone:
                data = b""
            yield stream, at[stream], data
            at[stream] = at[stream] + len(data) if data else program.following(stream, at[stream])
        if not behind:
            if final is not None:
                return
            await program.changed()


async def follow_raw(process: BoxProcess, stream: int, offset: int) -> AsyncGenerator[bytes, None]:
    """The bytes of one stream.

    Raises:
        OutputGone: the reader is too slow, so that some are not kept any more.
    """
    offsets = [offset, offset]
    async with contextlib.aclosing(follow(process, offsets, streams=(stream,))) as pieces:
        async for _, at, data in pieces:
            if not data:
                raise OutputGone(f"The output at {at} is not kept any more.")
            yield data


class _Text:
    """Turns the bytes of one stream into text or base64; characters stay whole."""

    def __init__(self, encoding: Encoding, offset: int) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if encoding == "utf-8" else None
        self._sent = offset

    def feed(self, data: bytes, offset: int, *, final: bool = False) -> ProcessOutput | None:
        end = offset + len(data)
        if self._decoder is None:
            text = base64.b64encode(data).decode()
        else:
            text = self._decoder.decode(data, final)
            end -= len(self._decoder.getstate()[0])
        if not text:
            return None
        part = ProcessOutput(offset=self._sent, end=end, data=text)
        self._sent = end
        return part

    def skip(self, offset: int) -> None:
        self._sent = offset
        if self._decoder is not None:
            self._decoder.reset()


async def events(process: BoxProcess, offsets: list[int], encoding: Encoding) -> AsyncGenerator[bytes, None]:
    """Server-sent events: `started`, `stdout`, `stderr`, `gap`, and last `end`."""
    yield message("started", process.info())
    texts = [_Text(encoding, offset) for offset in offsets]
    ends = list(offsets)

    def event(stream: int, part: ProcessOutput) -> bytes:
        ends[stream] = part.end
        return message(STREAMS[stream], part, f"{ends[0]}-{ends[1]}")

    at = list(offsets)
    async with contextlib.aclosing(follow(process, offsets, _TEXT_PIECE)) as pieces:
        async for stream, offset, data in pieces:
            if not data:
                gap = _gap(process, stream, offset)
                texts[stream].skip(gap.end)
                yield message("gap", gap)
            elif part := texts[stream].feed(data, offset):
                yield event(stream, part)
            at[stream] = offset + len(data)
    for stream, text in enumerate(texts):
        if encoding == "utf-8" and (part := text.feed(b"", at[stream], final=True)):
            yield event(stream, part)
    yield message("end", process.info())


def _gap(process: BoxProcess, stream: int, offset: int) -> StreamGap:
    end = process.program.following(stream, offset)
    return StreamGap(stream="stderr" if stream else "stdout", offset=offset, end=end)


async def write_stdin(process: BoxProcess, data: bytes) -> None:
    """Write to the standard input as fast as the process reads it.

    Raises:
        StdinClosed: nothing more can be written.
        StdinFull: it does not read.
    """
    program, view = process.program, memoryview(data)
    while view:
        process.need_stdin()
        room = MOST_WAITING - program.stdin_waiting
        if room > 0:
            program.write(bytes(view[:room]))
            view = view[room:]
            continue
        try:
            async with asyncio.timeout(STDIN_PATIENCE):
                await program.changed()
        except TimeoutError:
            raise StdinFull(
                f"The process {process.id} does not read its standard input. {program.stdin_taken} bytes "
                "were taken so far; go on there later."
            ) from None


class SocketRequest(Message):
    """What a client of the WebSocket wants, besides the standard input that it sends as bytes."""

    type: Literal["close_stdin", "resize", "signal"]
    signal: str = ""
    rows: int = 0
    columns: int = 0


class SocketNotice(Message):
    """A message to the client of a WebSocket, besides the output, which is sent as bytes."""

    type: Literal["started", "end", "refused", "gap"]
    process: ProcessInfo | None = None
    code: str = ""
    reason: str = ""
    gap: StreamGap | None = None


class ProcessSocket:
    """`WS /processes/{id}/stream`: output as bytes after a byte 1 or 2 for the stream; input as bytes."""

    def __init__(self, registry: ProcessRegistry) -> None:
        self._registry = registry

    async def __call__(self, socket: WebSocket) -> None:
        """Serve one client until it goes away or the process ends."""
        await socket.accept()
        try:
            process = self._registry.process(socket.path_params["id"])
            offsets = [_offset(socket, name) for name in STREAMS]
        except GloveboxError as error:
            await _close(socket, SocketNotice(type="refused", code=error.code, reason=str(error)), _UNKNOWN)
            return
        tasks = [
            asyncio.create_task(_print(socket, process, offsets)),
            asyncio.create_task(_listen(socket, process)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        if results[0] is None:
            await _close(socket, SocketNotice(type="end", process=process.info()), _ENDED)
        for failure in results:
            if isinstance(failure, Exception) and not isinstance(failure, WebSocketDisconnect):
                raise failure


def _offset(socket: WebSocket, name: str) -> int:
    text = socket.query_params.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RequestError(f"`{name}` is not an offset: {text!r}")
    return int(text)


async def _print(socket: WebSocket, process: BoxProcess, offsets: list[int]) -> None:
    await _send(socket, SocketNotice(type="started", process=process.info()))
    async with contextlib.aclosing(follow(process, offsets, _PIECE // 4)) as pieces:
        async for stream, offset, data in pieces:
            if data:
                await _send(socket, bytes([stream + 1]) + data)
            else:
                await _send(socket, SocketNotice(type="gap", gap=_gap(process, stream, offset)))


async def _listen(socket: WebSocket, process: BoxProcess) -> None:
    while True:
        received = await socket.receive()
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(1000)
        try:
            data = received.get("bytes")
            if data is not None:
                async with process.writing:
                    await write_stdin(process, data)
            else:
                _obey(process, decode_json(received.get("text") or "", SocketRequest))
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            await _refuse(socket, RequestError(str(error)))
        except RecursionError:
            await _refuse(socket, too_deep())
        except GloveboxError as error:
            await _refuse(socket, error)


def _obey(process: BoxProcess, wanted: SocketRequest) -> None:
    if wanted.type == "close_stdin":
        process.program.close_stdin()
    elif wanted.type == "resize":
        process.resize(wanted.rows, wanted.columns)
    else:
        process.signal(wanted.signal)


async def _refuse(socket: WebSocket, error: GloveboxError) -> None:
    await _send(socket, SocketNotice(type="refused", code=error.code, reason=str(error)))


async def _send(socket: WebSocket, data: bytes | Message) -> None:
    try:
        if isinstance(data, bytes):
            await socket.send_bytes(data)
        else:
            await socket.send_text(to_json(data).decode())
    except RuntimeError as error:  # the server has closed the connection: its pings got no answer
        raise WebSocketDisconnect(1006) from error


async def _close(socket: WebSocket, notice: SocketNotice, code: int) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        await _send(socket, notice)
        await socket.close(code)
