"""A program in a box, with the standard streams and the terminal of this process."""

from __future__ import annotations

import asyncio
import base64
import codecs
import concurrent.futures
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import msgspec

from glovebox.cli.console import print_json, say
from glovebox.cli.options import FAILED
from glovebox.cli.terminal import STDERR, STDIN, STDOUT, ScreenModes, raw_terminal, window_size, write_all
from glovebox.client.connection.events import server_sent_events
from glovebox.client.connection.retry import PATIENCE, Lost, Patience
from glovebox.client.runtime import Runtime
from glovebox.errors import (
    GloveboxError,
    ProcessError,
    ProgramNotExecutable,
    ProgramNotFound,
    StdinFull,
)
from glovebox.json_codec import decode_json
from glovebox.protocol.processes import ProcessInfo, ProcessOutput, ProcessRequest, PtySize

STREAMS = {"stdout": STDOUT, "stderr": STDERR}
#: What timeout(1) and shells end with.
TIMED_OUT = 124
NOT_EXECUTABLE = 126
NOT_FOUND = 127
#: Signals that are passed on; the second of the first three is for this process.
_LEAVING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PASSED_ON = (*_LEAVING, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
#: Seconds for a program to end after SIGTERM or SIGHUP.
_GRACE = 5.0
_PIECE = 1 << 16
#: How many pieces of the standard input wait, and are sent at once.
_MOST_WAITING = 16
#: Seconds for a write to the standard input: the box waits for the program for half of it.
_WRITE_LIMIT = 60.0


def wants_terminal() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def run_program(
    runtime: Runtime, request: ProcessRequest, *, as_json: bool, terminal: bool, forget: bool = True
) -> int:
    """Run a program until it ends, or a signal ends this process; the exit status.

    `forget`: the box stays, and shall not remember it.
    """
    size = window_size() if terminal else None
    if size is not None:
        pty = PtySize(rows=size[0], columns=size[1])
        request = msgspec.structs.replace(request, pty=pty, env={**_terminal_type(), **request.env})
    request = msgspec.structs.replace(request, stdin_open=True)
    program = RemoteProgram(runtime, as_json=as_json)
    began = time.monotonic()
    try:
        with raw_terminal() if size is not None else contextlib.nullcontext():
            try:
                ended = await program.run(request)
            finally:
                program.screen.reset()
                if forget:
                    await program.forget()
    except (ProgramNotFound, ProgramNotExecutable) as error:
        status, problem = NOT_FOUND if isinstance(error, ProgramNotFound) else NOT_EXECUTABLE, str(error)
    else:
        if ended is None:
            return 128 + program.left_by
        status, problem = _status(ended, request)
    if problem:
        say(problem)
    program.tell("ended", exit_code=status, problem=problem, seconds=time.monotonic() - began)
    return status


def _terminal_type() -> dict[str, str]:
    from glovebox.settings import host

    known = host.load().environment
    return {name: known[name] for name in ("TERM", "COLORTERM") if known.get(name)}


def _status(ended: ProcessInfo, request: ProcessRequest) -> tuple[int, str]:
    """The exit status, and what a person should know of it."""
    if ended.reason == "timeout":
        return TIMED_OUT, f"the command took longer than {request.timeout:g} seconds"
    if ended.exit_code is not None:
        return ended.exit_code, ""
    detail = ended.detail if ended.reason != "signal" else ""
    if ended.signal is None:
        return FAILED, detail or "the command has no exit status"
    return 128 + getattr(signal, ended.signal, signal.SIGKILL), detail


class RemoteProgram:
    """A program in a box: what it prints is written here, what is typed here goes to it."""

    def __init__(self, runtime: Runtime, *, as_json: bool) -> None:
        self.screen = ScreenModes()
        #: The signal that ended this process before the program had ended.
        self.left_by = 0
        self._runtime = runtime
        self._as_json = as_json
        self._starting: asyncio.Task[ProcessInfo] | None = None
        #: How much of each stream was written.
        self._ends = dict.fromkeys(STREAMS, 0)
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in STREAMS}
        self._tasks: set[asyncio.Task[None]] = set()
        self._signalled: set[int] = set()

    async def run(self, request: ProcessRequest) -> ProcessInfo | None:
        """Run it to its end; None if a signal ended this process first."""
        task = asyncio.current_task()
        assert task is not None
        self._starting = asyncio.create_task(self._start(request))
        with self._signals(task):
            try:
                info = await asyncio.shield(self._starting)
                self.tell("started", id=info.id, box=self._runtime.name)
                with self._input(info):
                    return await self._show(info)
            except asyncio.CancelledError:
                if not self.left_by or task.uncancel():
                    raise
                return None
            finally:
                for one in self._tasks:
                    one.cancel()

    async def _start(self, request: ProcessRequest) -> ProcessInfo:
        answer = await self._runtime.call("POST", "/processes", body=msgspec.json.encode(request))
        return decode_json(answer, ProcessInfo)

    async def forget(self) -> None:
        """End what still runs of it, and let the box forget it."""
        with contextlib.suppress(GloveboxError):
            await self._call("DELETE", "", limit=_GRACE)

    async def _call(self, method: str, path: str, **options: Any) -> bytes:
        """Call an endpoint of the process, once it has been started."""
        assert self._starting is not None
        info = await asyncio.shield(self._starting)
        return await self._runtime.call(method, f"/processes/{info.id}{path}", **options)

    def tell(self, event: str, **data: object) -> None:
        """An event for programs that read JSON."""
        if self._as_json:
            print_json({"event": event, **data})

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _show(self, info: ProcessInfo) -> ProcessInfo:
        """Write what it prints, across broken connections, until it has ended."""
        patience = Patience(PATIENCE)
        while True:
            query = {name: str(self._ends[name]) for name in STREAMS} | {"encoding": "base64"}
            events = server_sent_events(self._runtime.connection, f"/processes/{info.id}/events", query=query)
            lost = Lost("The box has closed the connection.", sent=True)
            try:
                async with contextlib.aclosing(events):
                    async for event in events:
                        patience.reset()
                        if event.event in STREAMS:
                            output = decode_json(event.data, ProcessOutput)
                            await self._write(event.event, output.offset, base64.b64decode(output.data))
                        elif event.event == "gap":
                            say("some of the output is not kept any more")
                        elif event.event == "end":
                            return decode_json(event.data, ProcessInfo)
            except Lost as error:
                lost = error
            await patience.wait(lost)

    async def _write(self, stream: str, offset: int, data: bytes) -> None:
        self._ends[stream] = end = offset + len(data)
        if self._as_json:
            text = self._decoders[stream].decode(data)
            event = {"event": "output", "stream": stream, "text": text, "offset": offset, "end": end}
            await asyncio.to_thread(print_json, event)
            return
        self.screen.note(data)
        # A terminal that is stopped with Ctrl-S must not stop signals and keys.
        await asyncio.to_thread(write_all, STREAMS[stream], data)

    # Input

    async def _feed(self, pieces: asyncio.Queue[bytes]) -> None:
        """Send the standard input, as the program takes it; an empty piece is its end."""
        offset, is_open = 0, True
        while is_open:
            waiting = [await pieces.get()]
            while waiting[-1] and not pieces.empty() and len(waiting) < _MOST_WAITING:
                waiting.append(pieces.get_nowait())
            is_open = bool(waiting[-1])
            try:
                offset = await self._send(offset, b"".join(waiting), close=not is_open)
            except ProcessError:  # it has ended, or has closed its input
                return
            except GloveboxError as error:
                say(f"the rest of the input is not sent: {error}")
                return

    async def _send(self, offset: int, data: bytes, *, close: bool) -> int:
        """Send input that belongs at an offset; the offset of what follows."""
        end = offset + len(data)
        while True:
            query = {"offset": str(offset), "close": "true" if close else "false"}
            try:
                await self._call("POST", "/stdin", query=query, body=data, limit=_WRITE_LIMIT)
            except (StdinFull, Lost):  # with the offset, it is safe to go on where the box is
                answer = await self._call("GET", "")
                taken = decode_json(answer, ProcessInfo).stdin_bytes
                data, offset = data[taken - offset :], taken
            else:
                return end

    @contextlib.contextmanager
    def _input(self, info: ProcessInfo) -> Iterator[None]:
        """Pass on the standard input, or keys and the size of the window."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[bytes] = asyncio.Queue(0 if info.pty else _MOST_WAITING)
        self._begin(self._feed(pieces))
        if not info.pty:
            threading.Thread(target=_read_stdin, args=(loop, pieces), daemon=True).start()
            yield
            return
        loop.add_reader(STDIN, self._read_keys, pieces)
        loop.add_signal_handler(signal.SIGWINCH, lambda: self._begin(self._resize()))
        try:
            yield
        finally:
            loop.remove_reader(STDIN)
            loop.remove_signal_handler(signal.SIGWINCH)

    def _read_keys(self, pieces: asyncio.Queue[bytes]) -> None:
        try:
            keys = os.read(STDIN, _PIECE)
        except OSError:
            keys = b""
        if keys:
            pieces.put_nowait(keys)
        else:  # the terminal is gone
            asyncio.get_running_loop().remove_reader(STDIN)

    async def _resize(self) -> None:
        if size := window_size():
            body = msgspec.json.encode(PtySize(rows=size[0], columns=size[1]))
            with contextlib.suppress(GloveboxError):
                await self._call("POST", "/resize", body=body)

    # Signals

    @contextlib.contextmanager
    def _signals(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Pass signals on. A second one of those that end programs is for this process."""
        loop = asyncio.get_running_loop()

        def leave(number: int) -> None:
            if not self.left_by:
                self.left_by = number
                task.cancel()

        def receive(number: signal.Signals) -> None:
            if number in self._signalled and number in _LEAVING:
                leave(number)
                return
            self._signalled.add(number)
            if number == signal.SIGINT:
                say("interrupting the command; Ctrl-C again to leave")
            elif number in _LEAVING:
                loop.call_later(_GRACE, leave, number)
            self._begin(self._pass_on(number))

        before = {number: signal.getsignal(number) for number in _PASSED_ON}
        for number in _PASSED_ON:
            loop.add_signal_handler(number, receive, number)
        try:
            yield
        finally:
            for number in _PASSED_ON:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])
            # As before: the box is removed first.
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, task.cancel)

    async def _pass_on(self, number: signal.Signals) -> None:
        body = msgspec.json.encode({"signal": number.name})
        try:
            await self._call("POST", "/signal", body=body)
        except ProcessError:  # it has just ended
            pass
        except GloveboxError as error:
            say(f"{number.name} could not be passed on: {error}")


def _read_stdin(loop: asyncio.AbstractEventLoop, pieces: asyncio.Queue[bytes]) -> None:
    """Read the standard input to its end, an empty piece; no faster than it is sent. Runs in a thread."""
    data = b"-"
    while data:
        try:
            data = os.read(STDIN, _PIECE)
        except OSError:  # closed, or a directory
            data = b""
        try:
            asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()
        except (RuntimeError, concurrent.futures.CancelledError):  # the program has ended
            return
