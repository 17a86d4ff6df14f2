"""A command in a box, followed from here: its output, its exit status, and what Ctrl-C does to it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import msgspec

from glovebox.cli.hosting import FAILED
from glovebox.cli.opening import INTERRUPTED
from glovebox.cli.showing import print_json, say
from glovebox.errors import ClientError, GloveboxError, TerminalError
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.streams import Gap, Output, Started

if TYPE_CHECKING:
    from glovebox.client.runtime import Runtime

#: What timeout(1) ends with.
TIMED_OUT = 124
#: A command is only limited by what its caller says, and the box wants some limit.
_NO_LIMIT = 365 * 86_400.0


async def run(runtime: Runtime, arguments: argparse.Namespace, line: str) -> int:
    """Run a line of the shell; the exit status."""
    async with _session(runtime, arguments) as session:
        action = CmdRunAction(
            command=line, blocking=True, session=session, timeout=arguments.timeout or _NO_LIMIT
        )
        return await _Followed(runtime, action, as_json=arguments.json).run()


@contextlib.asynccontextmanager
async def _session(runtime: Runtime, arguments: argparse.Namespace) -> AsyncIterator[str]:
    """The shell to run it in: others may be using those of a box that was there."""
    if not arguments.box:
        yield "main"
        return
    name = f"run-{uuid.uuid4().hex[:8]}"
    try:
        yield name
    finally:
        with contextlib.suppress(TerminalError, ClientError):
            await runtime.call("DELETE", f"/sessions/{name}")


class _Followed:
    """A command and what is to be seen of it."""

    def __init__(self, runtime: Runtime, action: CmdRunAction, *, as_json: bool) -> None:
        self._runtime = runtime
        self._action = action
        self._as_json = as_json
        self._id = ""
        self._interrupting: asyncio.Task[None] | None = None
        self._has_left = False

    async def run(self) -> int:
        """Until it has ended; the exit status."""
        begin = time.monotonic()
        stream = self._runtime.stream(self._action)
        with self._interruptible():
            async with stream:
                async for told in stream:
                    if isinstance(told, Started):
                        self._id = told.id
                        self._tell("started", {"id": told.id, "box": self._runtime.name})
                    elif isinstance(told, Output):
                        self._show(told)
                    elif isinstance(told, Gap):
                        say(f"{told.end - told.offset} bytes of output are not kept any more")
        if self._has_left:
            return INTERRUPTED
        answer = stream.observation
        if isinstance(answer, CmdOutputObservation):
            status = answer.metadata.exit_code
            problem = ""
            if status < 0:
                status, problem = self._ended_without(answer, time.monotonic() - begin)
        else:
            status, problem = FAILED, answer.content if isinstance(answer, ErrorObservation) else "no answer"
        if problem:
            say(problem)
        self._tell("ended", {"exit_code": status, "problem": problem, "seconds": time.monotonic() - begin})
        return status

    def _ended_without(self, answer: CmdOutputObservation, seconds: float) -> tuple[int, str]:
        limit = self._action.timeout or _NO_LIMIT
        if seconds >= limit:
            return TIMED_OUT, f"the command took longer than {limit:g} seconds"
        return FAILED, f"the command has no exit status: {answer.metadata.suffix.strip() or answer.content}"

    def _show(self, output: Output) -> None:
        if self._as_json:
            self._tell("output", {"text": output.text, "offset": output.offset, "end": output.end})
        else:
            sys.stdout.write(output.text)
            sys.stdout.flush()

    def _tell(self, event: str, data: dict[str, object]) -> None:
        if self._as_json:
            print_json({"event": event, **data})

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C is for the command, the second for this process."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupt() -> None:
            if self._interrupting is None and self._id:
                say("interrupting the command; Ctrl-C again to leave")
                self._interrupting = loop.create_task(self._interrupt())
            elif not self._has_left:
                self._has_left = True
                task.cancel()

        before = signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            yield
        except asyncio.CancelledError:
            if not self._has_left or task.uncancel():
                raise
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)
            if self._interrupting is not None:
                self._interrupting.cancel()

    async def _interrupt(self) -> None:
        body = msgspec.json.encode({"signal": "SIGINT"})
        try:
            await self._runtime.call("POST", f"/commands/{self._id}/signal", body=body)
        except GloveboxError as error:
            say(f"the command could not be interrupted: {error}")
