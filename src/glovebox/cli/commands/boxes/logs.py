"""`glovebox logs`: what a box itself has printed."""

from __future__ import annotations

import argparse

from glovebox.cli.options import Commands, add_backend_argument, add_parser

EXAMPLES = """\
examples:
  glovebox logs build                      what it has printed so far
  glovebox logs -f build                   and what is to come, until it ends
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "logs",
        help="show what a box has printed",
        description="Show the log of a box: the lines that it has printed itself, not those of its commands.",
        examples=EXAMPLES,
    )
    parser.add_argument("name", metavar="BOX", help="Which box.")
    parser.add_argument("-f", "--follow", action="store_true", help="Go on until the box ends, or Ctrl-C.")
    parser.add_argument("--json", action="store_true", help="Each line as a JSON string.")
    add_backend_argument(parser, default="all of them.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli import backends, console

    async def print_lines() -> int:
        async with backends.box(arguments.name, arguments.backend) as (_, sandbox):
            async for line in sandbox.logs(follow=arguments.follow):
                if arguments.json:
                    console.print_json(line)
                else:
                    print(line, flush=arguments.follow)
        return 0

    return backends.finish(print_lines())
