"""`glovebox cp`: files into a box and out of it."""

from __future__ import annotations

import argparse
import re

from glovebox.cli.hosting import USAGE, add_backend_argument

EXAMPLES = """\
examples:
  glovebox cp report.pdf build:                    a file into the workspace
  glovebox cp src build:/workspace/src             a directory; into src, if that is there already
  glovebox cp build:/workspace/out.txt .           a file out of a box
  glovebox cp build:results ./results              a directory out of it

A path without a slash at its beginning is below the workspace of the box. A destination that is a directory
receives the source under its own name, as with cp. A path of this machine with a colon is written as ./a:b.
"""

_IN_BOX = re.compile(r"([a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}):(.*)", re.DOTALL)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Give the command line this command."""
    parser = commands.add_parser(
        "cp",
        help="copy files into a box, or out of it",
        description="Copy a file or a directory into a box, or out of it. BOX:PATH is a path in a box.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="PLACE", help="What to copy: PATH or BOX:PATH.")
    parser.add_argument("destination", metavar="PLACE", help="Where to: BOX:PATH or PATH.")
    parser.add_argument(
        "-L",
        "--follow-links",
        action="store_true",
        help="Also send what links lead to that point out of the directory.",
    )
    parser.add_argument("--json", action="store_true", help="What was copied, as one JSON document.")
    add_backend_argument(parser, default="all of them.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Copy."""
    from glovebox.cli import copying, opening
    from glovebox.cli.showing import say

    source, destination = in_box(arguments.source), in_box(arguments.destination)
    if (source is None) == (destination is None):
        say("cp copies between this machine and a box: one of the two is written as BOX:PATH.")
        return USAGE
    if destination is not None:
        name, path = destination
        return opening.finish(copying.copy_in(arguments, name, arguments.source, path))
    assert source is not None
    return opening.finish(copying.copy_out(arguments, *source, arguments.destination))


def in_box(text: str) -> tuple[str, str] | None:
    """The box and the path that are meant, or None for a path of this machine."""
    match = _IN_BOX.fullmatch(text)
    return (match[1], match[2]) if match else None
