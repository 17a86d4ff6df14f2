"""Programs without a terminal: separate streams of bytes, standard input, an exit status."""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import shlex
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

from glovebox.client.capabilities.outcomes import ExecOutcome, failure_text, shortened
from glovebox.client.connection.answers import decode
from glovebox.client.connection.link import Link, new_key
from glovebox.errors import GloveboxError, ProcessTimeout
from glovebox.protocol.processes import ExecResult, ProcessInfo, ProcessOutput
from glovebox.protocol.terminal import Limits

StreamName = Literal["stdout", "stderr"]
_STREAMS: tuple[StreamName, StreamName] = ("stdout", "stderr")
#: Seconds of one request; longer waits are several.
_STEP = 30.0
_GRACE = 15.0
#: Seconds in which a program is found and ended whose caller was cancelled.
_ABANDONED_LIMIT, _ABANDONED_PAUSE = 3.0, 0.02


@dataclass(frozen=True)
class OutputPiece:
    """Bytes that a program wrote."""

    stream: StreamName
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


class AsyncProcessHandle:
    """A program that was started. At the end of `async with`, it is killed if it still runs."""

    def __init__(self, link: Link, command: str, info: ProcessInfo) -> None:
        self.id = info.id
        #: Its process id in the box.
        self.pid = info.pid
        self.command = command
        self._link = link
        self._written = 0
        self._path = f"/processes/{quote(info.id)}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shortened(self.command)}, pid {self.pid}>"

    async def wait(self, timeout: float | None = None) -> ExecOutcome:
        """Wait until the program has ended.

        Raises:
            TimeoutError: `timeout` seconds are over; the program goes on.
        """
        async with asyncio.timeout(timeout):
            info = await self._info()
            while info.state != "ended":
                info = await self._link.ask(
                    ProcessInfo, "POST", f"{self._path}/wait",
                    body={"timeout": _STEP}, limit=_STEP + _GRACE, repeatable=True,
                )  # fmt: skip
        return _outcome(self.command, info, await self.stdout(), await self.stderr())

    async def running(self) -> bool:
        """Whether the program still runs."""
        return (await self._info()).state != "ended"

    async def stdout(self, offset: int = 0) -> bytes:
        """What it has written to standard output so far, from `offset` on."""
        return await self._read("stdout", offset)

    async def stderr(self, offset: int = 0) -> bytes:
        """What it has written to standard error so far, from `offset` on."""
        return await self._read("stderr", offset)

    async def write(self, data: str | bytes) -> None:
        """Write to its standard input.

        Raises:
            GloveboxError: the program has ended or closed it.
        """
        content = data.encode() if isinstance(data, str) else data
        await self._stdin(content, close=False)
        self._written += len(content)

    async def close_stdin(self) -> None:
        """Close its standard input, so that it reads the end of the file."""
        await self._stdin(b"", close=True)

    async def signal(self, name: str) -> None:
        """Send a signal, such as `"TERM"`, to the program and its children."""
        await self._link.send("POST", f"{self._path}/signal", None, {"signal": name})

    async def kill(self) -> None:
        """End the program and its children. Idempotent."""
        if await self.running():
            with contextlib.suppress(GloveboxError):  # it has ended meanwhile
                await self.signal("KILL")

    def __aiter__(self) -> AsyncGenerator[OutputPiece, None]:
        return self.live_output()

    async def live_output(self) -> AsyncGenerator[OutputPiece, None]:
        """What the program writes, from its beginning to its end, as it comes."""
        position = {"stdout": 0, "stderr": 0}

        def where() -> dict[str, str]:
            return {"encoding": "base64"} | {name: str(offset) for name, offset in position.items()}

        events = self._link.follow(f"{self._path}/events", where, last="end")
        async with contextlib.aclosing(events):
            async for event in events:
                for name in _STREAMS:
                    if event.event == name:
                        piece = decode(event.data, ProcessOutput)
                        position[name] = piece.end
                        yield OutputPiece(name, base64.b64decode(piece.data))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    async def _info(self) -> ProcessInfo:
        return await self._link.ask(ProcessInfo, "GET", self._path)

    async def _read(self, stream: StreamName, offset: int) -> bytes:
        return await self._link.send("GET", f"{self._path}/{stream}", {"offset": str(offset)}, limit=None)

    async def _stdin(self, content: bytes, *, close: bool) -> None:
        connection = await self._link.connection()
        query = {"offset": str(self._written)} | ({"close": "true"} if close else {})
        await connection.request(
            "POST", f"{self._path}/stdin",
            query=query, body=content, headers={"Content-Type": "application/octet-stream"}, repeatable=True,
        )  # fmt: skip


Command = str | Sequence[str]


async def start_process(
    link: Link,
    command: Command,
    *,
    stdin: str | bytes | None = None,
    stdin_open: bool = False,
    cwd: str = "",
    env: Mapping[str, str] | None = None,
    user: str = "",
    timeout: float | None = None,
    limits: Limits | None = None,
) -> AsyncProcessHandle:
    body = _body(command, stdin, cwd, env, user, timeout, limits) | {"stdin_open": stdin_open}
    info = await link.ask(ProcessInfo, "POST", "/processes", body=body, repeatable=True)
    return AsyncProcessHandle(link, _shown(command), info)


async def run_process(
    link: Link,
    command: Command,
    *,
    stdin: str | bytes | None = None,
    cwd: str = "",
    env: Mapping[str, str] | None = None,
    user: str = "",
    timeout: float | None = None,
    limits: Limits | None = None,
    on_stdout: Callable[[str], object] | None = None,
    on_stderr: Callable[[str], object] | None = None,
) -> ExecOutcome:
    """Run a program to its end, whatever that is."""
    if on_stdout is not None or on_stderr is not None:
        handle = await start_process(
            link, command, stdin=stdin, cwd=cwd, env=env, user=user, timeout=timeout, limits=limits
        )
        return await _with_output(handle, {"stdout": on_stdout, "stderr": on_stderr})
    body = _body(command, stdin, cwd, env, user, timeout, limits)
    body |= {"output_encoding": "base64", "tag": new_key()}
    limit = None if timeout is None else timeout + _GRACE
    try:
        done = await link.ask(ExecResult, "POST", "/exec", body=body, limit=limit, repeatable=True)
    except asyncio.CancelledError:
        await _end_abandoned(link, body["tag"])
        raise
    handle = AsyncProcessHandle(link, _shown(command), done.process)
    stdout, stderr = base64.b64decode(done.stdout), base64.b64decode(done.stderr)
    if done.stdout_truncated:
        stdout += await handle.stdout(len(stdout))
    if done.stderr_truncated:
        stderr += await handle.stderr(len(stderr))
    return _outcome(handle.command, done.process, stdout, stderr)


async def _end_abandoned(link: Link, tag: str) -> None:
    """End a program whose caller does not wait any more, as `subprocess.run` does."""
    with contextlib.suppress(GloveboxError, TimeoutError):
        async with asyncio.timeout(_ABANDONED_LIMIT):
            # It may be just starting, and be listed in a moment.
            while not (found := await link.ask_list(ProcessInfo, "/processes", {"tag": tag})):  # noqa: ASYNC110
                await asyncio.sleep(_ABANDONED_PAUSE)
            for info in found:
                await link.send("DELETE", f"/processes/{quote(info.id)}")


def checked_time(outcome: ExecOutcome, timeout: float | None) -> ExecOutcome:
    """The outcome of a program that was not ended by its time limit.

    Raises:
        ProcessTimeout: it was.
    """
    if outcome.reason == "timeout":
        what = f"killed after {timeout:g} s" if timeout is not None else "killed, as its time was over"
        raise ProcessTimeout(
            failure_text(outcome.command, what, outcome.stderr or outcome.stdout),
            exit_code=outcome.exit_code,
            output=outcome.output,
        )
    return outcome


async def _with_output(
    handle: AsyncProcessHandle, callbacks: Mapping[StreamName, Callable[[str], object] | None]
) -> ExecOutcome:
    """The outcome, after everything was reported; a character is reported when all its bytes are there."""
    decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in _STREAMS}
    written: dict[StreamName, list[bytes]] = {"stdout": [], "stderr": []}
    async for piece in handle.live_output():
        written[piece.stream].append(piece.data)
        callback, text = callbacks[piece.stream], decoders[piece.stream].decode(piece.data)
        if callback is not None and text:
            callback(text)
    info = await handle._info()
    return _outcome(handle.command, info, *(b"".join(written[name]) for name in _STREAMS))


def _body(
    command: Command,
    stdin: str | bytes | None,
    cwd: str,
    env: Mapping[str, str] | None,
    user: str,
    timeout: float | None,
    limits: Limits | None,
) -> dict[str, Any]:
    what: dict[str, Any] = {"shell": command} if isinstance(command, str) else {"argv": list(command)}
    if isinstance(stdin, bytes):
        what |= {"stdin": base64.b64encode(stdin).decode(), "stdin_encoding": "base64"}
    elif stdin is not None:
        what |= {"stdin": stdin}
    return what | {
        "cwd": cwd,
        "env": dict(env or {}),
        "user": user,
        "timeout": timeout,
        "limits": limits,
        "idempotency_key": new_key(),
    }


def _outcome(command: str, info: ProcessInfo, stdout: bytes, stderr: bytes) -> ExecOutcome:
    return ExecOutcome(
        command=command,
        exit_code=_exit_code(info),
        stdout_bytes=stdout,
        stderr_bytes=stderr,
        seconds=max((info.ended or info.started) - info.started, 0.0),
        signal=info.signal,
        reason=info.reason or "exit",
    )


def _exit_code(info: ProcessInfo) -> int:
    if info.exit_code is not None:
        return info.exit_code
    known = signal.Signals.__members__.get(info.signal or "")
    return -1 if known is None else 128 + known


def _shown(command: Command) -> str:
    return command if isinstance(command, str) else shlex.join(command)
