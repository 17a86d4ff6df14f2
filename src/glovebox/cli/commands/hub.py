"""`glovebox hub`: where VS Code windows connect."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys

from glovebox import logs
from glovebox.cli.options import STARTUP_FAILED, USAGE, Commands, add_parser
from glovebox.errors import SettingsError, StartupError
from glovebox.settings import hub as settings
from glovebox.settings.secrets import take_environment

EXAMPLES = """\
examples:
  glovebox hub                      on 127.0.0.1:8790, with a key that is made up and kept
  glovebox hub 9000                 on another port
  glovebox hub --grace 120          for windows on a connection that breaks often
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "hub",
        help="let VS Code windows connect, as boxes",
        description="Serve a hub: VS Code windows with the Glovebox extension connect, and each is a box.",
        examples=EXAMPLES,
    )
    settings.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    gc.disable()  # serving turns it on
    try:
        chosen = settings.load(vars(arguments), take_environment())
    except SettingsError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return USAGE
    logs.configure(level=chosen.log_level, as_json=chosen.log_json, secrets=[chosen.key])

    def announce(address: str, milliseconds: float, where: str) -> None:
        if not chosen.log_json:
            with contextlib.suppress(OSError):  # standard output may be closed
                print(_welcome(address, milliseconds, where), flush=True)

    try:
        from glovebox.hub.run import main
    except ModuleNotFoundError as error:
        print(
            f"glovebox: A hub needs {error.name!r}, which is not installed here. "
            "Install it with: pip install 'glovebox-runtime[hub]'",
            file=sys.stderr,
        )
        return STARTUP_FAILED
    try:
        main(chosen, announce)
    except (SettingsError, StartupError) as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return STARTUP_FAILED
    except KeyboardInterrupt:
        pass
    return 0


def _welcome(address: str, milliseconds: float, where: str) -> str:
    return "\n".join(
        [
            f"Glovebox hub on {address} (ready in {milliseconds:.0f} ms)",
            "",
            "In VS Code, with the Glovebox extension, run: Glovebox: Connect",
            'Then, in Python: Runtime(backend="vscode")',
            "",
            f"The address and the key are in {where}, where programs of this user find them.",
            "Stop with Ctrl-C.",
        ]
    )
