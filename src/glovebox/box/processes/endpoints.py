"""`/exec` and `/processes`: programs to start, look at, read, write and end."""

from __future__ import annotations

import asyncio
import base64
import signal
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.processes.live import (
    STREAMS,
    ProcessSocket,
    events,
    follow_raw,
    write_stdin,
)
from glovebox.box.processes.registry import BoxProcess, ProcessRegistry
from glovebox.errors import OutputGone, ProcessError, RequestError, WrongOffset
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply, Socket
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import ErrorBody, error_response, json_response
from glovebox.http.sse import EVENTS, RAW, RawBytes, Stream, described, disconnected
from glovebox.protocol.processes import (
    Encoding,
    ExecRequest,
    ExecResult,
    ProcessInfo,
    ProcessRequest,
    ProcessSignal,
    ProcessWait,
    PtySize,
    StdinTaken,
)

#: Base64 of the largest first standard input, and the rest of the request.
_MOST_BODY = 32 << 20
_MOST_OUTPUT = 32 << 20
_LONGEST_WAIT = 86_400.0
#: Whether its caller has gone is not asked of a process that takes less.
_QUICK = 0.5
_ABANDONED = "Its caller went away."


class ProcessEndpoints:
    """The endpoints."""

    def __init__(self, registry: ProcessRegistry, closing: asyncio.Event) -> None:
        self._registry = registry
        self._closing = closing

    async def exec(self, request: Request) -> Response:
        """Run a process to its end."""
        asked = await requests.body(request, ExecRequest, _MOST_BODY)
        if not 0 <= asked.max_output <= _MOST_OUTPUT:
            problem = f"`max_output` is from 0 to {_MOST_OUTPUT}"
            raise InvalidParameter("out_of_range", ("body", "max_output"), problem, asked.max_output)
        key = _key(request, asked)
        process = await self._registry.start(asked, key)
        owned = not (key or asked.detached)
        if EVENTS in request.headers.get("accept", ""):
            return Stream(_owned_events(process, asked.output_encoding, owned), closing=self._closing)
        await self._finish(request, process, owned)
        return json_response(await _result(process, asked))

    async def _finish(self, request: Request, process: BoxProcess, owned: bool) -> None:
        """Wait for the end of a process; one that is its caller's own ends with it."""
        await process.wait(_QUICK)
        if process.ended:
            return
        await self._wait(request, process, None)
        if process.ended:
            return
        if not self._closing.is_set() and owned:
            process.program.signal(signal.SIGTERM, "signal", _ABANDONED)
        raise ProcessError("The box is being stopped." if self._closing.is_set() else _ABANDONED)

    async def _wait(self, request: Request, process: BoxProcess, timeout: float | None) -> None:
        """Wait until a process has ended, the time is over, the caller has gone, or the box closes."""
        ends: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(disconnected(request.receive)),
            asyncio.ensure_future(self._closing.wait()),
        ]
        try:
            await asyncio.wait(
                [process.program.ended, *ends], timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for end in ends:
                end.cancel()

    async def start(self, request: Request) -> Response:
        asked = await requests.body(request, ProcessRequest, _MOST_BODY)
        process = await self._registry.start(asked, _key(request, asked))
        return json_response(process.info(), 201)

    async def every(self, request: Request) -> Response:
        found = self._registry.processes(request.query_params.get("tag"))
        return json_response([process.info() for process in found])

    async def info(self, request: Request) -> Response:
        return json_response(self._process(request).info())

    async def wait(self, request: Request) -> Response:
        """What is known of a process when it has ended, or the time is over."""
        process = self._process(request)
        asked = await requests.body(request, ProcessWait)
        if asked.timeout is not None and not 0 <= asked.timeout <= _LONGEST_WAIT:
            problem = f"`timeout` is from 0 to {_LONGEST_WAIT:.0f} seconds"
            raise InvalidParameter("out_of_range", ("body", "timeout"), problem, asked.timeout)
        if not process.ended:
            await self._wait(request, process, asked.timeout)
        return json_response(process.info())

    async def stdout(self, request: Request) -> Response:
        return await self._output(request, 0)

    async def stderr(self, request: Request) -> Response:
        return await self._output(request, 1)

    async def _output(self, request: Request, stream: int) -> Response:
        process = self._process(request)
        program = process.program
        offset = requests.integer(request, "offset", 0)
        size = program.sizes[stream]
        if offset > size:
            problem = f"There is no output beyond {size}"
            raise InvalidParameter("out_of_range", ("query", "offset"), problem, str(offset))
        if offset < program.oldest(stream):
            raise OutputGone(f"The output before {program.oldest(stream)} is not kept any more.")
        if requests.flag(request, "follow"):
            return Stream(follow_raw(process, stream, offset), media_type=RAW, closing=self._closing)
        limit = requests.integer(request, "limit", size, 1)

        async def read(at: int, most: int) -> bytes:
            return await program.read(stream, at, most)

        return await RawBytes.read_first(read, offset, min(limit, size - offset))

    async def events(self, request: Request) -> Response:
        """Everything that a process prints, as events."""
        process = self._process(request)
        seen = request.headers.get("last-event-id", "").split("-")
        if len(seen) == 2 and all(one.isascii() and one.isdigit() and len(one) < 19 for one in seen):
            offsets = [int(one) for one in seen]
        else:
            offsets = [requests.integer(request, name, 0) for name in STREAMS]
        wanted = requests.choice(request, "encoding", _ENCODINGS)
        encoding: Encoding = "base64" if wanted == "base64" else "utf-8"
        return Stream(events(process, offsets, encoding), closing=self._closing)

    async def stdin(self, request: Request) -> Response:
        """Write to the standard input of a process; with an offset, bytes that came before are skipped."""
        process = self._process(request)
        program = process.program
        close = requests.flag(request, "close")
        async with process.writing:
            at = requests.integer(request, "offset", program.stdin_taken)
            if "offset" not in request.query_params:
                process.need_stdin()
            if at > program.stdin_taken:
                raise WrongOffset(f"{program.stdin_taken} bytes were taken so far; go on there.")
            async for piece in request.stream():
                fresh = piece[max(0, program.stdin_taken - at) :]
                at += len(piece)
                await write_stdin(process, fresh)
            if close and program.stdin_open:
                program.close_stdin()
        return json_response(StdinTaken(offset=program.stdin_taken, closed=not program.stdin_open))

    async def signal(self, request: Request) -> Response:
        process = self._process(request)
        process.signal((await requests.body(request, ProcessSignal)).signal)
        return json_response(process.info())

    async def resize(self, request: Request) -> Response:
        process = self._process(request)
        size = await requests.body(request, PtySize)
        process.resize(size.rows, size.columns)
        return json_response(process.info())

    async def remove(self, request: Request) -> Response:
        process = self._process(request)
        await self._registry.remove(process)
        return json_response(process.info())

    async def upgrade(self, request: Request) -> Response:
        """What a client gets that does not ask for a WebSocket."""
        self._process(request)
        return error_response(426, RequestError("This is a WebSocket; ask for an upgrade of the connection."))

    def _process(self, request: Request) -> BoxProcess:
        return self._registry.process(request.path_params["id"])


_ENCODINGS = ("utf-8", "base64")


def _key(request: Request, asked: ProcessRequest) -> str:
    return asked.idempotency_key or request.headers.get("idempotency-key", "")


async def _owned_events(process: BoxProcess, encoding: Encoding, owned: bool) -> AsyncGenerator[bytes, None]:
    try:
        async for event in events(process, [0, 0], encoding):
            yield event
    finally:
        if owned and not process.ended:
            process.program.signal(signal.SIGTERM, "signal", _ABANDONED)


async def _result(process: BoxProcess, asked: ExecRequest) -> ExecResult:
    texts, truncated = [], []
    for stream, size in enumerate(process.program.sizes):
        data = await _beginning(process, stream, min(size, asked.max_output))
        truncated.append(len(data) < size)
        if asked.output_encoding == "base64":
            texts.append(base64.b64encode(data).decode())
        else:
            texts.append(data.decode("utf-8", "replace"))
    return ExecResult(
        process=process.info(), stdout=texts[0], stderr=texts[1], encoding=asked.output_encoding,
        stdout_truncated=truncated[0], stderr_truncated=truncated[1],
    )  # fmt: skip


async def _beginning(process: BoxProcess, stream: int, limit: int) -> bytes:
    """The first bytes of a stream that are kept."""
    if not limit:
        return b""
    program = process.program
    at = program.oldest(stream)
    data = await program.read(stream, at, limit)
    while len(data) < limit and (more := await program.read(stream, at + len(data), limit - len(data))):
        data += more
    return data


_NUMBER: dict[str, Any] = {"type": "integer", "minimum": 0}
_YES: dict[str, Any] = {"type": "boolean"}
_PATH = (Parameter("id", {"type": "string"}, "The id of the process."),)
_BEGINNINGS = (
    Parameter("stdout", _NUMBER, "Where to begin in the standard output. Default: 0."),
    Parameter("stderr", _NUMBER, "Where to begin in the standard error. Default: 0."),
)
_UNKNOWN = Reply("No process has that id, or it is forgotten.", ErrorBody)
_INVALID = Reply("A parameter or the body is not of the right form.", ErrorBody)
_ENDED = Reply("It has ended.", ErrorBody)
_INFO = Reply("The process.", ProcessInfo)


def process_endpoints(registry: ProcessRegistry, closing: asyncio.Event) -> list[Endpoint | Socket]:
    """What is served of processes."""
    own = ProcessEndpoints(registry, closing)
    return [
        *_starting(own),
        *_looking(own),
        *_reading(own),
        *_changing(own),
        Socket("/processes/{id}/stream", ProcessSocket(registry).__call__),
    ]


def _starting(own: ProcessEndpoints) -> list[Endpoint]:
    answers = {
        409: Reply("The idempotency key was used for another process.", ErrorBody),
        422: Reply("There is no such program, directory or user, or the body is wrong.", ErrorBody),
        429: Reply("As many processes run as the box allows.", ErrorBody),
        500: Reply("It could not be started.", ErrorBody),
    }
    return [
        Endpoint(
            "POST", "/exec", own.exec, "Run a program to its end",
            {200: Reply("What it printed and how it ended.", ExecResult), **answers},
            description="With `Accept: text/event-stream` the answer is a stream of events: `started`, "
            "`stdout`, `stderr` and last `end`.",
            body=ExecRequest,
        ),
        Endpoint(
            "POST", "/processes", own.start, "Start a program", {201: _INFO, **answers}, body=ProcessRequest
        ),
    ]  # fmt: skip


def _looking(own: ProcessEndpoints) -> list[Endpoint]:
    return [
        Endpoint(
            "GET", "/processes", own.every, "The processes, the newest first",
            {200: Reply("Those that run, and those that are remembered.",
                         {"type": "array", "items": {"$ref": "#/components/schemas/ProcessInfo"}})},
            parameters=(Parameter("tag", {"type": "string"}, "Only those with this tag."),),
        ),
        Endpoint(
            "GET", "/processes/{id}", own.info, "A process: its state, how it ended, and its bill",
            {200: _INFO, 404: _UNKNOWN}, path_parameters=_PATH,
        ),
        Endpoint(
            "POST", "/processes/{id}/wait", own.wait, "Wait until a process has ended",
            {200: Reply("It has ended, or the time is over.", ProcessInfo), 404: _UNKNOWN, 422: _INVALID},
            path_parameters=_PATH, body=ProcessWait,
        ),
    ]  # fmt: skip


def _reading(own: ProcessEndpoints) -> list[Endpoint]:
    outputs = (("stdout", own.stdout, "standard output"), ("stderr", own.stderr, "standard error"))
    events = described("started", "stdout", "stderr", "gap", "end")
    return [
        *(
            Endpoint(
                "GET", f"/processes/{{id}}/{name}", handle, f"The {what} of a process, from any place of it",
                {200: Reply("Bytes.", {"type": "string", "format": "binary"}, RAW), 404: _UNKNOWN,
                 410: Reply("This part is not kept any more.", ErrorBody), 422: _INVALID},
                path_parameters=_PATH,
                parameters=(
                    Parameter("offset", _NUMBER, "Where to begin, in bytes. Default: 0."),
                    Parameter("limit", {"type": "integer", "minimum": 1},
                              "At most so many bytes. Default: all there are; not with `follow`."),
                    Parameter("follow", _YES, "Go on until the process has ended."),
                ),
            )
            for name, handle, what in outputs
        ),
        Endpoint(
            "GET", "/processes/{id}/events", own.events, "Follow a process: output and end, as events",
            {200: Reply("`started`, `stdout`, `stderr`, `gap`, and last `end`.", events, EVENTS),
             404: _UNKNOWN, 422: _INVALID},
            path_parameters=_PATH,
            parameters=(
                *_BEGINNINGS,
                Parameter("encoding", {"enum": list(_ENCODINGS)}, "How the data of events is written."),
            ),
        ),
        Endpoint(
            "GET", "/processes/{id}/stream", own.upgrade,
            "A WebSocket: output, input and signals of a process",
            {404: _UNKNOWN, 426: Reply("The client did not ask for a WebSocket.", ErrorBody)},
            description="Bytes from the box are output, after one byte for the stream: 1 is standard "
            "output, 2 is standard error. Bytes to the box are standard input. Text is JSON: to the box "
            "`close_stdin`, `resize` or `signal` as `type`, from the box `started`, `end`, `gap` or "
            "`refused`.",
            path_parameters=_PATH, parameters=_BEGINNINGS,
        ),
    ]  # fmt: skip


def _changing(own: ProcessEndpoints) -> list[Endpoint]:
    return [
        Endpoint(
            "POST", "/processes/{id}/stdin", own.stdin, "Write to the standard input of a process",
            {200: Reply("How much was taken.", StdinTaken), 404: _UNKNOWN, 422: _INVALID,
             409: Reply("It has ended, its input is closed or full, or bytes before the offset are missing.",
                        ErrorBody)},
            path_parameters=_PATH,
            parameters=(
                Parameter("offset", _NUMBER, "Where these bytes belong; those that came before are skipped."),
                Parameter("close", _YES, "Nothing follows."),
            ),
            body={"type": "string", "format": "binary"}, body_media_type=RAW,
        ),
        Endpoint(
            "POST", "/processes/{id}/signal", own.signal, "Send a signal to the group of a process",
            {200: _INFO, 404: _UNKNOWN, 409: _ENDED, 422: _INVALID},
            path_parameters=_PATH, body=ProcessSignal,
        ),
        Endpoint(
            "POST", "/processes/{id}/resize", own.resize, "Change the size of the terminal of a process",
            {200: _INFO, 404: _UNKNOWN, 409: Reply("It has ended, or has no terminal.", ErrorBody),
             422: _INVALID},
            path_parameters=_PATH, body=PtySize,
        ),
        Endpoint(
            "DELETE", "/processes/{id}", own.remove, "Kill a process and all it started, and forget it",
            {200: _INFO, 404: _UNKNOWN}, path_parameters=_PATH,
        ),
    ]  # fmt: skip
