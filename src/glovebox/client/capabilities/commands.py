"""Commands in sessions: persistent shells on terminals."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import msgspec

from glovebox.client.capabilities.outcomes import (
    CommandOutcome,
    CommandStatus,
    ending,
    failure_text,
    shortened,
)
from glovebox.client.connection.answers import decode
from glovebox.client.connection.link import Link, new_key
from glovebox.errors import (
    CommandEnded,
    CommandTimeout,
    CommandWaits,
    NoSuchSession,
    PortClosed,
)
from glovebox.protocol.events import Output
from glovebox.protocol.terminal import CommandInfo, CommandResult, Limits

#: `raise` when the command waits for input, or go on waiting.
WaitPolicy = Literal["raise", "wait"]
#: Seconds of one request; longer waits are several.
_STEP = 30.0
#: Seconds for the answer beyond the time that the box waits.
_GRACE = 15.0
#: Seconds in which a command has to yield to a signal that ends it.
_KILL_STEP = 1.0
#: Seconds for the rest of the output when a command turns out to wait.
_CATCH_UP = 5.0


class AsyncCommandHandle:
    """A command that was started in a session.

    At the end of `async with`, the command is waited for. It is killed instead if the block failed, if it
    waits for input, or if it is a server (`wait_for_port` was called).
    """

    def __init__(self, link: Link, info: CommandInfo, *, own_session: bool = False) -> None:
        self.id = info.id
        self.text = info.command
        self.session = info.session
        self._link = link
        self._own_session = own_session
        self._is_server = False
        self._is_killed = False
        self._end: CommandResult | None = None

    def __repr__(self) -> str:
        state = "" if self._end is None else f", {ending(self._end.command.exit_code)}"
        state = ", killed" if self._is_killed else state
        return f"<{type(self).__name__} {shortened(self.text)} in {self.session}{state}>"

    async def wait(self, timeout: float | None = None) -> CommandStatus:
        """Wait until the command has ended or waits for input.

        Raises:
            CommandTimeout: `timeout` seconds are over; the command goes on.
        """
        return _status(await self._wait(timeout, "return"))

    async def result(self, timeout: float | None = None, *, on_wait: WaitPolicy = "raise") -> CommandOutcome:
        """Wait until the command has ended.

        Raises:
            CommandTimeout: `timeout` seconds are over; the command goes on.
            CommandWaits: it waits for input.
        """
        return self._outcome(await self._wait(timeout, "return" if on_wait == "raise" else "wait"))

    async def status(self) -> CommandStatus:
        """What the command does right now."""
        return _status(self._end or await self._ask(0, "return"))

    async def info(self) -> CommandInfo:
        """Everything that the box knows of the command: times, program, what it used."""
        return await self._link.ask(CommandInfo, "GET", f"/commands/{quote(self.id)}")

    async def output(self) -> str:
        """What the command has printed so far."""
        return (await self.status()).output

    async def send(self, text: str) -> None:
        r"""Type a text; `"yes\n"` answers a question.

        Raises:
            CommandEnded: the command has ended.
        """
        await self._post("input", {"text": text})

    async def keys(self, *names: str) -> None:
        """Press keys: `"C-c"`, `"Enter"`, `"Up"`, `"F1"`, `"q"`.

        Raises:
            CommandEnded: the command has ended.
        """
        await self._post("input", {"keys": list(names)})

    async def signal(self, name: str) -> None:
        """Send a signal, such as `"INT"`, to what runs in the foreground.

        Raises:
            CommandEnded: the command has ended.
        """
        await self._post("signal", {"signal": name})

    async def kill(self) -> None:
        """End the command. Idempotent.

        A session of its own ends with everything that it started. Another one ends only if the command does
        not yield to signals.
        """
        for name in () if self._own_session else ("INT", "KILL"):
            with contextlib.suppress(CommandEnded):
                await self._post("signal", {"signal": name})
            if (await self._ask(_KILL_STEP, "wait")).command.state == "ended":
                return
        last = self._end or await self._ask(0, "return")
        if last.command.state != "ended":
            await self._end_session()
            self._is_killed = True
            info = msgspec.structs.replace(last.command, state="ended", exit_code=-1, ended=time.time())
            self._end = msgspec.structs.replace(last, command=info, timed_out=False)

    async def wait_for_port(self, port: int, timeout: float = 60.0) -> None:
        """Wait until something in the box accepts connections on a port.

        Raises:
            PortClosed: the command ended before, or `timeout` seconds are over; the text has its output.
        """
        self._is_server = True
        opened = asyncio.create_task(_wait_for_port(self._link, port, timeout))
        ended = asyncio.create_task(self._wait(None, "wait"))
        try:
            await asyncio.wait({opened, ended}, return_when=asyncio.FIRST_COMPLETED)
            if opened.done() and opened.result():
                return
            why = f"was not reached within {timeout:g} s" if opened.done() else "will not be: it has ended"
        finally:
            for task in (opened, ended):
                task.cancel()
            await asyncio.gather(opened, ended, return_exceptions=True)
        output = await self.output()
        raise PortClosed(failure_text(self.text, f"port {port} {why}", output))

    def __aiter__(self) -> AsyncGenerator[str, None]:
        return self.live_output()

    async def live_output(self) -> AsyncGenerator[str, None]:
        """What the command prints, from its beginning to its end, as it comes."""
        async with contextlib.aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                yield piece.text

    async def _pieces(self) -> AsyncGenerator[Output, None]:
        position = 0
        path = f"/commands/{quote(self.id)}/output"
        events = self._link.follow(path, lambda: {"follow": "true", "offset": str(position)}, last="end")
        async with contextlib.aclosing(events):
            async for event in events:
                if event.event == "output":
                    piece = decode(event.data, Output)
                    position = piece.end
                    yield piece

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end is None and (error is not None or self._is_server or (await self.wait()).waits):
            await self.kill()

    async def _wait(self, timeout: float | None, on_wait: str, began: float | None = None) -> CommandResult:
        if self._end is not None:
            return self._end
        end = None if timeout is None else (time.monotonic() if began is None else began) + timeout
        while True:
            step = _STEP if end is None else max(min(end - time.monotonic(), _STEP), 0)
            result = await self._ask(step, on_wait)
            if not result.timed_out:
                return result
            if end is not None and time.monotonic() >= end:
                raise CommandTimeout(
                    failure_text(self.text, f"still runs after {timeout:g} s", result.output),
                    command=self,
                    output=result.output,
                )

    async def _ask(self, seconds: float, on_wait: str) -> CommandResult:
        result = await self._link.ask(
            CommandResult, "POST", f"/commands/{quote(self.id)}/wait",
            body={"timeout": seconds, "on_wait": on_wait}, limit=seconds + _GRACE, repeatable=True,
        )  # fmt: skip
        await self._saw(result)
        return result

    async def _saw(self, result: CommandResult) -> None:
        if result.command.state == "ended" and self._end is None:
            self._end = result
            if self._own_session:
                await self._end_session()

    async def _end_session(self) -> None:
        with contextlib.suppress(NoSuchSession):
            await self._link.send("DELETE", f"/sessions/{quote(self.session, safe='')}")

    async def _post(self, what: str, body: dict[str, Any]) -> None:
        if self._end is not None:
            raise CommandEnded(f"{shortened(self.text)} has ended.")
        await self._link.send("POST", f"/commands/{quote(self.id)}/{what}", None, body)

    def _outcome(self, result: CommandResult) -> CommandOutcome:
        status, info = _status(result), result.command
        if not status.ended or info.exit_code is None:
            raise CommandWaits(
                failure_text(self.text, status.description, ""),
                command=self,
                output=result.output,
                prompt=status.prompt,
                password=status.asks_password,
            )
        return CommandOutcome(
            command=self.text,
            exit_code=info.exit_code,
            output=result.output,
            seconds=max((info.ended or info.started) - info.started, 0.0),
            id=self.id,
            session=self.session,
            truncated=result.truncated,
            bill=info.bill,
            notes=result.notes,
        )


async def start_command(
    link: Link, command: str, *, session: str, own_session: bool = False, limits: Limits | None = None
) -> AsyncCommandHandle:
    """Start a command in a session, which is opened if there is none of that name.

    Raises:
        SessionBusy: something runs in that session.
    """
    info = (await _begin(link, command, session, limits, wait=False, timeout=None)).command
    return AsyncCommandHandle(link, info, own_session=own_session)


async def run_command(
    link: Link,
    command: str,
    *,
    session: str,
    timeout: float | None,
    on_wait: WaitPolicy,
    on_output: Callable[[str], object] | None,
    limits: Limits | None,
) -> CommandOutcome:
    """Run a command to its end.

    Raises:
        CommandTimeout: the time is over; the command goes on.
        CommandWaits: it waits for input.
        SessionBusy: something runs in that session.
    """
    if on_output is not None:
        handle = await start_command(link, command, session=session, limits=limits)
        return await _with_output(handle, timeout, on_wait, on_output)
    began = time.monotonic()
    step = _STEP if timeout is None else min(timeout, _STEP)
    result = await _begin(link, command, session, limits, wait=True, timeout=step, on_wait=on_wait)
    handle = AsyncCommandHandle(link, result.command)
    if result.timed_out:
        result = await handle._wait(timeout, "return" if on_wait == "raise" else "wait", began)
    return handle._outcome(result)


async def _begin(
    link: Link,
    command: str,
    session: str,
    limits: Limits | None,
    *,
    wait: bool,
    timeout: float | None,
    on_wait: WaitPolicy = "raise",
) -> CommandResult:
    body = {
        "command": command,
        "session": session,
        "wait": wait,
        "timeout": timeout,
        "on_wait": "return" if on_wait == "raise" else "wait",
        "limits": limits,
        "idempotency_key": new_key(),
    }
    limit = (timeout or 0) + _GRACE + _GRACE
    return await link.ask(CommandResult, "POST", "/commands", body=body, limit=limit, repeatable=True)


async def _with_output(
    handle: AsyncCommandHandle, timeout: float | None, on_wait: WaitPolicy, on_output: Callable[[str], object]
) -> CommandOutcome:
    """The outcome, after everything that was printed before was reported."""
    reporter = _Reporter(handle, on_output)
    reporting = asyncio.create_task(reporter.report())
    outcome = asyncio.create_task(handle.result(timeout, on_wait=on_wait))
    try:
        await asyncio.wait({outcome, reporting}, return_when=asyncio.FIRST_COMPLETED)
        if not reporting.done() and outcome.exception() is not None:
            await reporter.wait_for((await handle.info()).output_bytes)
        else:
            await reporting  # a failure of the callback ends it all
        return await outcome
    finally:
        for task in (outcome, reporting):
            task.cancel()
        await asyncio.gather(outcome, reporting, return_exceptions=True)


class _Reporter:
    """Reports the output of a command that runs."""

    def __init__(self, handle: AsyncCommandHandle, on_output: Callable[[str], object]) -> None:
        self._handle = handle
        self._on_output = on_output
        self._position = 0
        self._moved = asyncio.Event()

    async def report(self) -> None:
        async for piece in self._handle._pieces():
            self._on_output(piece.text)
            self._position = piece.end
            self._moved.set()

    async def wait_for(self, position: int) -> None:
        """Wait until the output up to a position was reported, a few seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP):
                while self._position < position:
                    self._moved.clear()
                    await self._moved.wait()


#: Runs in the box: bash can connect without any other program, and a server may listen on either address.
_PROBE = (
    "until (exec 3<>/dev/tcp/127.0.0.1/{0}) 2>/dev/null || (exec 3<>/dev/tcp/::1/{0}) 2>/dev/null; "
    "do sleep 0.05; done"
)


async def _wait_for_port(link: Link, port: int, timeout: float) -> bool:
    """Whether something listens on a port of the box within some time."""
    from glovebox.client.capabilities.processes import run_process

    done = await run_process(link, _PROBE.format(int(port)), timeout=timeout)
    return done.exit_code == 0


def _status(result: CommandResult) -> CommandStatus:
    info = result.command
    return CommandStatus(
        command=info.command,
        state=info.state,
        output=result.output,
        prompt=info.prompt,
        asks_password=info.echo_off and info.state == "waiting_for_input",
        exit_code=info.exit_code,
        program=info.program,
    )
