"""`glovebox`: the command line. Each command's module is imported when it is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from glovebox import __version__


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command."""
    from glovebox.cli import attach, mcp, serve

    parser = argparse.ArgumentParser(
        prog="glovebox",
        description="The runtime AI agents work in: a sandbox that runs their commands, files and more.",
        epilog="Try: glovebox serve --working-dir ./workspace",
    )
    parser.add_argument("--version", action="version", version=f"glovebox {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve.add_command(commands)
    attach.add_command(commands)
    mcp.add_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    arguments = build_parser().parse_args(argv)
    status: int = arguments.run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
