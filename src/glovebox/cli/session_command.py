"""A command in a session, for boxes that run no processes by themselves: VS Code windows."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from glovebox.cli.console import print_json, say
from glovebox.cli.options import FAILED, INTERRUPTED
from glovebox.errors import GloveboxError

if TYPE_CHECKING:
    import asyncio

    from glovebox.client.runtime import Runtime
    from glovebox.protocol.actions import CmdRunAction
    from glovebox.protocol.events import Output
    from glovebox.protocol.observations import CmdOutputObservation

#: What timeout(1) ends with.
TIMED_OUT = 124
#: The box requires a limit; a command without --timeout has practically none.
_NO_LIMIT = 365 * 86_400.0


async def run_in_session(runtime: Runtime, words: list[str], arguments: argparse.Namespace) -> int:
    """Run a command in the main session, without input; the exit status."""
    from glovebox.protocol.actions import CmdRunAction

    line = words[0] if len(words) == 1 and " " in words[0] else shlex.join(words)
    action = CmdRunAction(
        # A shell of its own: `exit` and `cd` do not affect the session, and several lines are possible.
        command=f"bash -c {shlex.quote(line)} </dev/null",
        blocking=True,
        timeout=arguments.timeout or _NO_LIMIT,
    )
    return await _Followed(runtime, action, as_json=arguments.json).run()


class _Followed:
    """A command whose output is printed."""

    def __init__(self, runtime: Runtime, action: CmdRunAction, *, as_json: bool) -> None:
        self._runtime = runtime
        self._action = action
        self._as_json = as_json
        self._id = ""
        self._interrupting: asyncio.Task[None] | None = None
        self._has_left = False

    async def run(self) -> int:
        """Follow it until it has ended; the exit status."""
        from glovebox.protocol.events import Gap, Output, Started
        from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation

        begin = time.monotonic()
        stream = self._runtime.stream(self._action)
        with self._interruptible():
            async with stream:
                async for event in stream:
                    if isinstance(event, Started):
                        self._id = event.id
                        self._print("started", {"id": event.id, "box": self._runtime.name})
                    elif isinstance(event, Output):
                        self._show(event)
                    elif isinstance(event, Gap):
                        say(f"{event.end - event.offset} bytes of output are not kept any more")
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
        self._print("ended", {"exit_code": status, "problem": problem, "seconds": time.monotonic() - begin})
        return status

    def _ended_without(self, answer: CmdOutputObservation, seconds: float) -> tuple[int, str]:
        limit = self._action.timeout or _NO_LIMIT
        if seconds >= limit:
            return TIMED_OUT, f"the command took longer than {limit:g} seconds"
        return FAILED, f"the command has no exit status: {answer.metadata.suffix.strip() or answer.content}"

    def _show(self, output: Output) -> None:
        if self._as_json:
            self._print("output", {"text": output.text, "offset": output.offset, "end": output.end})
        else:
            sys.stdout.write(output.text)
            sys.stdout.flush()

    def _print(self, event: str, data: dict[str, object]) -> None:
        if self._as_json:
            print_json({"event": event, **data})

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C is for the command, the second for this process."""
        import asyncio

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
        body = b'{"signal": "SIGINT"}'
        try:
            await self._runtime.call("POST", f"/commands/{self._id}/signal", body=body)
        except GloveboxError as error:
            say(f"the command could not be interrupted: {error}")
