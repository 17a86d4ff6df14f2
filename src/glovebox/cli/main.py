"""`glovebox`: the command line. A command's module is imported when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from glovebox import __version__
from glovebox.cli import first

#: 128 and SIGPIPE, as of any program that is not read to its end.
BROKEN_PIPE = 141

#: Every command, in the order in which they are told, with the module that adds it (and perhaps others).
COMMANDS = {
    "run": "glovebox.cli.run",
    "shell": "glovebox.cli.shell",
    "ls": "glovebox.cli.boxes",
    "stop": "glovebox.cli.boxes",
    "rm": "glovebox.cli.boxes",
    "pause": "glovebox.cli.boxes",
    "resume": "glovebox.cli.boxes",
    "logs": "glovebox.cli.logs",
    "cp": "glovebox.cli.cp",
    "attach": "glovebox.cli.attach",
    "serve": "glovebox.cli.serve",
    "hub": "glovebox.cli.hub",
    "mcp": "glovebox.cli.mcp",
    "bundle": "glovebox.cli.bundle",
    "vscode": "glovebox.cli.vscode",
    "doctor": "glovebox.cli.doctor",
    "completion": "glovebox.cli.completion",
}

EXAMPLES = """\
try:
  glovebox run -- echo hello      a command in a fresh box
  glovebox shell                  a shell in a fresh box
  glovebox serve                  a box that serves the current directory
  glovebox doctor                 what works on this machine
"""


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser with every command, or only with those that come with one of them."""
    parser = argparse.ArgumentParser(
        prog="glovebox",
        description="The runtime AI agents work in: a sandbox that runs their commands, files and more.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"glovebox {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    modules = [COMMANDS[command]] if command in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        importlib.import_module(module).add_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    first.stay_behind()
    given = sys.argv[1:] if argv is None else argv
    arguments = build_parser(given[0] if given else "").parse_args(given)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough. Python would complain when it empties what it has buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return status


if __name__ == "__main__":
    sys.exit(main())
