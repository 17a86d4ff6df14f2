"""`glovebox serve`: a box on this machine."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from glovebox import logs, settings
from glovebox.cli.options import STARTUP_FAILED, USAGE, Commands, add_parser
from glovebox.errors import SettingsError, StartupError
from glovebox.settings.secrets import take_environment

if TYPE_CHECKING:
    from glovebox.box.events import EventLog
    from glovebox.box.executor import Call, Outcome
    from glovebox.box.terminal.holder.launch import HolderProcess
    from glovebox.protocol.base import Action
    from glovebox.server.logins import Logins
    from glovebox.settings import Settings

#: Seconds that a server may take to stop.
_STOP_LIMIT = 15.0

EXAMPLES = """\
examples:
  glovebox serve                                  serve the current directory on 127.0.0.1:8000
  glovebox serve --port 3000 --working-dir ~/project
                                                  another port, another workspace
  SESSION_API_KEY=$(openssl rand -hex 32) glovebox serve --host 0.0.0.0
                                                  reachable from other machines, with a key

On a terminal, a link is printed that logs a web browser in, and then a line for each action: when, what, how
long, and its exit code (--quiet: none).
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "serve",
        help="serve a box",
        description="Serve a box: a persistent shell, files and an editor behind the OpenHands runtime API.",
        examples=EXAMPLES,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="Print no line for each action.")
    settings.add_arguments(parser)
    parser.add_argument(
        "--isolation",
        default="none",
        choices=["none", "bubblewrap", "auto"],
        metavar="KIND",
        help="bubblewrap: the box sees its working directory and little else of this machine; auto: the same "
        "if bubblewrap works here. Default: none, for a server that is in a sandbox already.",
    )
    parser.add_argument(
        "--folder",
        action="append",
        default=[],
        metavar="DIR",
        help="Another directory that an isolated box sees, at its own path. Can be given several times.",
    )
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="Stop when standard input is closed, as happens when the program that started the box ends.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    # Objects created during start-up are permanent, and collecting costs time. Serving enables it.
    gc.disable()
    from glovebox.box.startup import Startup
    from glovebox.linux.limits import raise_limit
    from glovebox.server.port import bind

    try:
        environment = take_environment()
        chosen = settings.load(vars(arguments), environment)
    except SettingsError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return USAGE
    if arguments.stop_with_stdin:
        threading.Thread(target=_stop_with_stdin, name="glovebox-stdin", daemon=True).start()
    if arguments.isolation != "none":
        is_required = arguments.isolation != "auto"
        status = _serve_isolated(chosen, environment, arguments.folder, is_required=is_required)
        if status is not None:
            return status
    logs.configure(level=chosen.log_level, as_json=chosen.log_json, secrets=[chosen.session_api_key])

    lines = ActionLines(chosen.session_api_key)
    shows_lines = sys.stderr.isatty() and not (arguments.quiet or chosen.log_json)

    def announce(address: str, milliseconds: float, hints: list[str], logins: Logins) -> None:
        # The link is a secret, and a terminal is no log.
        page = logins.make_path() if chosen.session_api_key and sys.stdout.isatty() else "/docs"
        _tell(chosen, _welcome(chosen, address, milliseconds, hints, page))

    startup = Startup()
    try:
        with startup.step("bind"):
            raise_limit()
            listener = bind(chosen.host, chosen.port, "serve")
        with listener, _launch_holder(chosen) as launched:
            with startup.step("import"):
                from glovebox.server import port
                from glovebox.server.run import serve

            watcher = lines if shows_lines else None
            port.run(serve(chosen, startup, announce, listener, launched, watcher))
    except (SettingsError, StartupError) as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return STARTUP_FAILED
    except KeyboardInterrupt:
        pass
    lines.flush()
    newline = "\n" if sys.stdout.isatty() else ""  # after ^C
    _tell(chosen, f"{newline}Glovebox has stopped serving {chosen.working_dir}. Goodbye.")
    return 0


def _stop_with_stdin() -> None:
    """Stop this process when its standard input is closed; it is killed if that takes too long."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_LIMIT)
    os.kill(os.getpid(), signal.SIGKILL)


def _serve_isolated(
    chosen: Settings, environment: Mapping[str, str], folders: Sequence[str], *, is_required: bool
) -> int | None:
    """Serve from within bubblewrap; the exit status. None if it does not work and is not required."""
    from glovebox.backends.process import bubblewrap, foreground
    from glovebox.errors import NoIsolation

    problem = bubblewrap.find_problem()
    if problem and not is_required:
        _tell(chosen, f"The box is NOT isolated ({problem}): its commands can do all that you can.")
        return None
    try:
        if problem:
            raise NoIsolation(f"{problem}. {bubblewrap.WITHOUT}")
        _tell(
            chosen,
            f"bubblewrap isolates the box: it sees {chosen.working_dir} and little else of this machine.",
        )
        return foreground.serve(chosen, environment, folders)
    except (NoIsolation, SettingsError, StartupError) as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return STARTUP_FAILED


def _tell(chosen: Settings, text: str) -> None:
    if not chosen.log_json:
        with contextlib.suppress(OSError):  # standard output may be closed
            print(text, flush=True)


def _launch_holder(chosen: Settings) -> contextlib.AbstractContextManager[HolderProcess | None]:
    """The holder of the shells, started while the rest is loaded.

    None if an earlier server may have left one, or if it cannot be started, which is reported by the first
    shell.
    """
    if chosen.state_dir:
        return contextlib.nullcontext()
    from glovebox.box.terminal.holder.launch import HolderProcess

    try:
        return contextlib.closing(HolderProcess())
    except OSError:
        return contextlib.nullcontext()


def _welcome(chosen: Settings, address: str, milliseconds: float, hints: list[str], page: str) -> str:
    key = ' -H "X-Session-API-Key: $SESSION_API_KEY"' if chosen.session_api_key else ""
    body = '{"command": "echo hello"}'
    own = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    once = " (this link works once; another one: glovebox open)" if page != "/docs" else ""
    return "\n".join(
        [
            f"Glovebox serves {chosen.working_dir} on {address} (ready in {milliseconds:.0f} ms)",
            "",
            f"In a web browser{once}:",
            f"  {own}{page}",
            "Or:",
            f"  curl {own}/commands{key} -d '{body}'",
            *(f"  {hint}" for hint in hints or [f"glovebox attach --url {own}"]),
            "",
            "Stop with Ctrl-C.",
        ]
    )


#: Seconds for which lines are collected. A terminal may be slow, or stopped with Ctrl-S; the box must not be.
_PAUSE = 0.05
_MOST = 1000
#: The fields that say what an action is about, the most telling first.
_SUBJECTS = ("command", "code", "path", "url", "browser_actions", "name", "query", "pattern")


class ActionLine(NamedTuple):
    """What is printed of an action, a command or a process that has ended."""

    when: float
    name: str
    subject: str
    seconds: float
    ending: str

    def text(self, width: int) -> str:
        """A line of at most that width."""
        head = f"{time.strftime('%H:%M:%S', time.localtime(self.when))}  {self.name:<8} "
        tail = f"{self.seconds:7.2f} s  {self.ending}"
        room = max(10, width - len(head) - len(tail) - 2)
        subject = self.subject if len(self.subject) <= room else f"{self.subject[: room - 1]}…"
        return f"{head}{subject:<{room}} {tail}".rstrip()


class ActionLines:
    """A `Watcher` that prints lines. Those that a terminal does not take are dropped, the oldest first."""

    def __init__(self, secret: str) -> None:
        self._mask = logs.Mask([secret])
        self._waiting: deque[ActionLine] = deque(maxlen=_MOST)
        self._is_scheduled = False
        self._writing = threading.Lock()

    def started(self, action: Action[Any], call: Call) -> None: ...

    def finished(self, outcome: Outcome) -> None:
        command = outcome.call.command
        if command is None or command.exit_code is None:  # else the end of the command is an event
            action = outcome.action
            line = (action.action, _subject(action), outcome.seconds, _ending(outcome))
            self._add(ActionLine(time.time(), *line))

    async def follow(self, events: EventLog) -> None:
        """Add commands and processes, however they were started."""
        from glovebox.protocol.events import CommandFinished, ProcessFinished

        async for event in events.follow(events.last):
            if isinstance(event, CommandFinished):
                command = event.command
                seconds = (command.ended or event.time) - command.started
                line = ("run", _one_line(command.command), seconds, f"exit {command.exit_code}")
            elif isinstance(event, ProcessFinished):
                process = event.process
                seconds = (process.ended or event.time) - process.started
                code = process.signal if process.exit_code is None else process.exit_code
                line = ("exec", _one_line(" ".join(process.argv)), seconds, f"exit {code}")
            else:
                continue
            self._add(ActionLine(event.time, *line))

    def _add(self, line: ActionLine) -> None:
        self._waiting.append(line)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(_PAUSE, self._flush_later)

    def _flush_later(self) -> None:
        self._is_scheduled = False
        threading.Thread(target=self.flush, daemon=True).start()

    def flush(self) -> None:
        """Print what is waiting. Blocks."""
        from shutil import get_terminal_size

        if not self._writing.acquire(blocking=False):
            return  # another thread does
        try:
            width = get_terminal_size().columns
            while self._waiting:
                text = self._mask(self._waiting.popleft().text(width))
                os.write(sys.stderr.fileno(), f"{text}\n".encode())
        except (OSError, ValueError):  # the terminal is gone
            self._waiting.clear()
        finally:
            self._writing.release()


def _subject(action: Action[Any]) -> str:
    values = (getattr(action, name, "") for name in _SUBJECTS)
    return next((_one_line(value) for value in values if value and isinstance(value, str)), "")


def _one_line(text: str) -> str:
    """A text on one line, without anything that a terminal would obey."""
    text = " ".join(text[:1000].split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _ending(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.code
    if outcome.observation is None:
        return "cancelled"
    if outcome.call.command is not None:
        return "runs on"
    return "failed" if outcome.observation.observation == "error" else ""
