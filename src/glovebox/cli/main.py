"""`glovebox`: the command line. A command's module is imported when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from glovebox import __version__
from glovebox.cli import pid1

#: 128 and SIGPIPE, as of any program that is not read to its end.
BROKEN_PIPE = 141

#: Every command, in the order of the help, with the module that adds it (and perhaps others).
COMMANDS = {
    "run": "glovebox.cli.commands.run",
    "shell": "glovebox.cli.commands.shell",
    "ls": "glovebox.cli.commands.boxes",
    "stop": "glovebox.cli.commands.boxes",
    "rm": "glovebox.cli.commands.boxes",
    "pause": "glovebox.cli.commands.boxes",
    "resume": "glovebox.cli.commands.boxes",
    "logs": "glovebox.cli.commands.logs",
    "cp": "glovebox.cli.commands.cp",
    "attach": "glovebox.cli.commands.attach",
    "serve": "glovebox.cli.commands.serve",
    "hub": "glovebox.cli.commands.hub",
    "mcp": "glovebox.cli.commands.mcp",
    "bundle": "glovebox.cli.commands.bundle",
    "vscode": "glovebox.cli.commands.vscode",
    "doctor": "glovebox.cli.commands.doctor",
    "completion": "glovebox.cli.commands.completion",
}

EXAMPLES = """\
try:
  glovebox run -- echo hello      a command in a fresh box
  glovebox shell                  a shell in a fresh box
  glovebox serve                  a box that serves the current directory
  glovebox doctor                 what works on this machine
"""


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser with every command, or only with those of one module."""
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
    pid1.stay_behind()
    given = sys.argv[1:] if argv is None else argv
    arguments = build_parser(given[0] if given else "").parse_args(given)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Python would complain when it flushes its buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return status


if __name__ == "__main__":
    sys.exit(main())
