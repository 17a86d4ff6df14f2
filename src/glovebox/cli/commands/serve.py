"""`glovebox serve`: a box on this machine."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from typing import TYPE_CHECKING

from glovebox import logs, settings
from glovebox.cli.options import STARTUP_FAILED, USAGE, Commands, add_parser
from glovebox.errors import SettingsError, StartupError
from glovebox.settings.secrets import take_environment

if TYPE_CHECKING:
    from glovebox.box.terminal.holder.launch import HolderProcess
    from glovebox.settings import Settings

EXAMPLES = """\
examples:
  glovebox serve                                  serve the current directory on 127.0.0.1:8000
  glovebox serve 3000 --working-dir ~/project     another port, another workspace
  SESSION_API_KEY=$(openssl rand -hex 32) glovebox serve --host 0.0.0.0
                                                  reachable from other machines, with a key
"""


def add_command(commands: Commands) -> None:
    """Add this command."""
    parser = add_parser(
        commands,
        "serve",
        help="serve a box",
        description="Serve a box: a persistent shell, files and an editor behind the OpenHands runtime API.",
        examples=EXAMPLES,
    )
    settings.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    # Objects created during start-up are permanent, and collecting costs time. Serving enables it.
    gc.disable()
    from glovebox.box.startup import Startup
    from glovebox.linux.limits import raise_limit
    from glovebox.server.port import bind

    try:
        chosen = settings.load(vars(arguments), take_environment())
    except SettingsError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return USAGE
    logs.configure(level=chosen.log_level, as_json=chosen.log_json, secrets=[chosen.session_api_key])

    def announce(address: str, milliseconds: float, hints: list[str]) -> None:
        if not chosen.log_json:
            with contextlib.suppress(OSError):  # standard output may be closed
                print(_welcome(chosen, address, milliseconds, hints), flush=True)

    startup = Startup()
    try:
        with startup.step("bind"):
            raise_limit()
            listener = bind(chosen.host, chosen.port, "serve")
        with listener, _launch_holder(chosen) as launched:
            with startup.step("import"):
                from glovebox.server import port
                from glovebox.server.run import serve

            port.run(serve(chosen, startup, announce, listener, launched))
    except (SettingsError, StartupError) as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return STARTUP_FAILED
    except KeyboardInterrupt:
        pass
    return 0


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


def _welcome(chosen: Settings, address: str, milliseconds: float, hints: list[str]) -> str:
    key = ' -H "X-Session-API-Key: $SESSION_API_KEY"' if chosen.session_api_key else ""
    body = '{"action": {"action": "run", "args": {"command": "echo hello"}}}'
    return "\n".join(
        [
            f"Glovebox serves {chosen.working_dir} on {address} (ready in {milliseconds:.0f} ms)",
            "",
            "Try:",
            f"  curl {address}/alive",
            f"  curl {address}/execute_action{key} -H 'Content-Type: application/json' \\",
            f"       -d '{body}'",
            f"  open {address}/docs",
            *(f"  {hint}" for hint in hints or [f"glovebox attach --url {address}"]),
            "",
            "Stop with Ctrl-C.",
        ]
    )
