"""`glovebox stop`, `rm`, `pause` and `resume`: the life of boxes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from glovebox.cli.options import FAILED, Commands, add_backend_argument, add_parser

if TYPE_CHECKING:
    from glovebox.client.backend import Sandbox

STOP_EXAMPLES = """\
examples:
  glovebox stop build                      end what runs in the box build
  glovebox resume build                    start it again, with its files
"""
RM_EXAMPLES = """\
examples:
  glovebox rm build test                   these two
  glovebox rm --all --backend process      every box that is a process
  glovebox prune                           those whose client is gone
"""
PAUSE_EXAMPLES = """\
examples:
  glovebox pause build                     it uses no CPU
  glovebox resume build                    and goes on where it was
"""


#: The commands that change boxes: summary, description, examples.
_CHANGES = {
    "pause": (
        "stop boxes for a while",
        "Stop boxes for a while: they use no CPU, and go on with `glovebox resume`.",
        PAUSE_EXAMPLES,
    ),
    "stop": (
        "end what runs in boxes",
        "End everything that runs in boxes. Their files stay until the boxes are removed, and "
        "`glovebox resume` starts them again.",
        STOP_EXAMPLES,
    ),
    "resume": (
        "let boxes go on after pause or stop",
        "Let boxes go on after `glovebox pause`, or start them again after `glovebox stop`.",
        PAUSE_EXAMPLES,
    ),
    "rm": (
        "remove boxes",
        "End boxes and remove what they leave, but no directory or volume that was given to them.",
        RM_EXAMPLES,
    ),
}


def add_command(commands: Commands) -> None:
    for name, (summary, description, examples) in _CHANGES.items():
        parser = add_parser(commands, name, help=summary, description=description, examples=examples)
        parser.add_argument("names", nargs="*" if name == "rm" else "+", metavar="BOX", help="Which boxes.")
        add_backend_argument(parser, default="all of them.")
        parser.add_argument("--json", action="store_true", help="The names, as one JSON document.")
        if name == "rm":
            parser.add_argument("--all", action="store_true", help="Every box of the backend, or of all.")
        parser.set_defaults(run=change_boxes, all=False)


def change_boxes(arguments: argparse.Namespace) -> int:
    """Do the same to each of them; one that fails does not keep the others from it."""
    from glovebox.cli import backends, console
    from glovebox.errors import GloveboxError
    from glovebox.settings import host

    if arguments.all and arguments.names:
        arguments.parser.error("give the names of boxes, or --all, not both.")
    if not (arguments.all or arguments.names):
        arguments.parser.error("give the names of boxes, or --all.")

    async def change(sandbox: Sandbox) -> None:
        verbs = {"stop": sandbox.stop, "rm": sandbox.delete, "pause": sandbox.pause, "resume": sandbox.resume}
        await verbs[arguments.command]()

    async def change_all() -> int:
        wanted = [(name, arguments.backend) for name in arguments.names]
        if arguments.all:
            found = await backends.boxes(arguments.backend, host.load())
            wanted = [(info.name, info.backend) for info in found]
        done = []
        for name, place in wanted:
            try:
                async with backends.box(name, place) as (_, sandbox):
                    await change(sandbox)
            except GloveboxError as error:
                console.say(str(error))
            else:
                done.append(name)
                if not arguments.json:
                    print(name, flush=True)
        if arguments.json:
            console.print_json(done)
        return 0 if len(done) == len(wanted) else FAILED

    return backends.finish(change_all())
