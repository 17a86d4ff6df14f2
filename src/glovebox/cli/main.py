"""`glovebox`: the command line. A command's module is imported when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from glovebox import __version__
from glovebox.cli import pid1
from glovebox.cli.options import FAILED, USAGE, Parser, did_you_mean

#: 128 and SIGPIPE, as of any program that is not read to its end.
BROKEN_PIPE = 141

#: Every command in its group, in the order of the help, with the module that adds it (and perhaps others).
GROUPS = {
    "work in a box": {
        "run": "glovebox.cli.commands.run",
        "exec": "glovebox.cli.commands.exec",
        "shell": "glovebox.cli.commands.shell",
        "attach": "glovebox.cli.commands.attach",
        "cp": "glovebox.cli.commands.cp",
        "open": "glovebox.cli.commands.boxes.address",
        "url": "glovebox.cli.commands.boxes.address",
        "env": "glovebox.cli.commands.boxes.address",
    },
    "boxes that are there": {
        "ls": "glovebox.cli.commands.boxes.ls",
        "inspect": "glovebox.cli.commands.boxes.inspect",
        "top": "glovebox.cli.commands.boxes.top",
        "events": "glovebox.cli.commands.boxes.events",
        "logs": "glovebox.cli.commands.boxes.logs",
        "pause": "glovebox.cli.commands.boxes.lifecycle",
        "stop": "glovebox.cli.commands.boxes.lifecycle",
        "resume": "glovebox.cli.commands.boxes.lifecycle",
        "rm": "glovebox.cli.commands.boxes.lifecycle",
        "prune": "glovebox.cli.commands.boxes.prune",
        "df": "glovebox.cli.commands.boxes.df",
    },
    "servers": {
        "serve": "glovebox.cli.commands.serve",
        "mcp": "glovebox.cli.commands.mcp",
        "hub": "glovebox.cli.commands.hub",
    },
    "this machine": {
        "doctor": "glovebox.cli.commands.doctor",
        "vscode": "glovebox.cli.commands.vscode",
        "bundle": "glovebox.cli.commands.bundle",
        "completion": "glovebox.cli.commands.completion",
    },
}
COMMANDS = {name: module for commands in GROUPS.values() for name, module in commands.items()}

HELP = """usage: glovebox COMMAND ...

The runtime AI agents work in: a sandbox for their commands, files and more.

try:
  glovebox run -- echo hello      a command in a fresh box
  glovebox shell                  a shell in a fresh box
  glovebox serve                  a box that serves the current directory
  glovebox doctor                 what works on this machine

{commands}

glovebox COMMAND --help explains a command. glovebox --version
"""


def build_parser(command: str = "") -> Parser:
    """The parser with every command, or only with those of one module."""
    parser = Parser(prog="glovebox", usage="%(prog)s COMMAND ...", add_help=False)
    parser.add_argument("--version", action="version", version=f"glovebox {__version__}")
    commands = parser.add_subparsers(dest="command", prog="glovebox", required=True, metavar="COMMAND")
    modules = [COMMANDS[command]] if command in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        importlib.import_module(module).add_command(commands)
    return parser


def summaries() -> dict[str, str]:
    """Every command with a few words about it."""
    parsers = next(one for one in build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    return {choice.dest: choice.help or "" for choice in parsers._choices_actions}


def _help() -> str:
    known = summaries()
    groups = [
        "\n".join([f"{title}:", *(f"  {name:<12}{known[name]}" for name in names)])
        for title, names in GROUPS.items()
    ]
    return HELP.format(commands="\n\n".join(groups))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    pid1.stay_behind()
    given = list(sys.argv[1:] if argv is None else argv)
    name = given[0] if given else ""
    if name in ("", "-h", "--help", "help"):
        print(_help(), end="")
        return 0
    if not name.startswith("-") and name not in COMMANDS:
        _complain(
            f"there is no command {name!r}.{did_you_mean(name, COMMANDS)}\nAll of them: glovebox --help"
        )
        return USAGE
    parser = build_parser(name)
    arguments, unknown = parser.parse_known_args(given)
    if unknown:
        arguments.parser.refuse(unknown[0])
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Python would complain when it flushes its buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:  # no room, no permission, a file system that is read-only
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        return FAILED
    return status


def _complain(text: str) -> None:
    print(f"glovebox: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
