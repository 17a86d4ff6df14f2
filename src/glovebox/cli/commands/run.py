"""`glovebox run`: a command in a fresh box, or in one that is there."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from glovebox.cli.console import print_json, say
from glovebox.cli.options import FAILED, INTERRUPTED, USAGE, Commands, add_box_arguments, add_parser, conflict
from glovebox.errors import ClientError, GloveboxError, TerminalError

if TYPE_CHECKING:
    import asyncio

    from glovebox.client.runtime import Runtime
    from glovebox.protocol.actions import CmdRunAction
    from glovebox.protocol.events import Output
    from glovebox.protocol.observations import CmdOutputObservation

EXAMPLES = """\
examples:
  glovebox run -- make test                            a command in a fresh box, which is removed then
  glovebox run --workspace . 'make && make check'      a line for the shell, in this directory
  glovebox run --backend docker --image alpine -- cat /etc/os-release
                                                       in a container of any image
  glovebox run --memory 2G --cpus 1.5 --network none --backend docker -- ./untrusted
                                                       with limits
  glovebox run --box build --timeout 60 -- pytest -q   in a box that is there, for a minute at most

The exit status is the command's; 128 and the number of a signal if one ended it; 124 if --timeout did; 1 if
there is no box. Ctrl-C interrupts the command, and a second one leaves. A command's input is empty: what asks
questions wants `glovebox shell`.
"""


def add_command(commands: Commands) -> None:
    """Add this command."""
    parser = add_parser(
        commands,
        "run",
        help="run a command in a fresh box",
        description="Run a command in a fresh box, show what it prints while it does, and remove the box. "
        "Without a command, be a shell.",
        examples=EXAMPLES,
    )
    add_box_arguments(parser)
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="End the command after so many seconds."
    )
    parser.add_argument(
        "--json", action="store_true", help="Events as JSON lines in place of output: started, output, ended."
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND...",
        help="The command and its arguments; one word with blanks is a line for the shell.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    problem = conflict(arguments)
    if not problem and not words and (arguments.json or arguments.timeout):
        problem = "--json and --timeout need a command."
    if problem:
        say(problem)
        return USAGE
    if not words:
        from glovebox.cli.commands.shell import run as run_shell

        return run_shell(arguments)
    from glovebox.cli import backends

    return backends.finish(_run(arguments, line_of(words)))


def line_of(words: list[str]) -> str:
    """The line for the shell: one word with blanks as it is, or a program and its arguments."""
    line = words[0] if len(words) == 1 and " " in words[0] else shlex.join(words)
    # A shell of its own: `exit` and `cd` do not affect the session, and several lines are possible.
    return f"bash -c {shlex.quote(line)} </dev/null"


async def _run(arguments: argparse.Namespace, line: str) -> int:
    from glovebox.cli.backends import cancel_on_signals, open_runtime

    with cancel_on_signals():
        async with open_runtime(arguments, quiet=arguments.json) as runtime:
            return await run_command(runtime, arguments, line)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


#: What timeout(1) ends with.
TIMED_OUT = 124
#: The box requires a limit; a command without --timeout has practically none.
_NO_LIMIT = 365 * 86_400.0


async def run_command(runtime: Runtime, arguments: argparse.Namespace, line: str) -> int:
    """Run a line of the shell; the exit status."""
    from glovebox.protocol.actions import CmdRunAction

    async with _session(runtime, arguments) as session:
        action = CmdRunAction(
            command=line, blocking=True, session=session, timeout=arguments.timeout or _NO_LIMIT
        )
        return await _Followed(runtime, action, as_json=arguments.json).run()


@contextlib.asynccontextmanager
async def _session(runtime: Runtime, arguments: argparse.Namespace) -> AsyncIterator[str]:
    """The session to run it in: those of an existing box may be in use."""
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
