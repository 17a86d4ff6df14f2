"""`glovebox ls`, `stop`, `rm`, `pause` and `resume`: the boxes there are, and their life."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from glovebox.cli.options import FAILED, USAGE, Commands, add_backend_argument, add_parser

if TYPE_CHECKING:
    from glovebox.client.backend import BoxInfo, Sandbox

LS_EXAMPLES = """\
examples:
  glovebox ls                              the boxes of every backend
  glovebox ls --backend docker --json      those in containers, for a program
"""
STOP_EXAMPLES = """\
examples:
  glovebox stop build                      end what runs in the box build
  glovebox resume build                    start it again, with its files
"""
RM_EXAMPLES = """\
examples:
  glovebox rm build test                   these two
  glovebox rm --all --backend process      every box that is a process
"""
PAUSE_EXAMPLES = """\
examples:
  glovebox pause build                     it uses no CPU
  glovebox resume build                    and goes on where it was
"""


#: The commands that change boxes: summary, description, examples.
_CHANGES = {
    "stop": (
        "end what runs in boxes",
        "End everything that runs in boxes. Their files stay until the boxes are removed, and "
        "`glovebox resume` starts them again.",
        STOP_EXAMPLES,
    ),
    "rm": (
        "remove boxes",
        "End boxes and remove what they leave, but no directory or volume that was given to them.",
        RM_EXAMPLES,
    ),
    "pause": (
        "stop boxes for a while",
        "Stop boxes for a while: they use no CPU, and go on with `glovebox resume`.",
        PAUSE_EXAMPLES,
    ),
    "resume": (
        "let boxes go on after pause or stop",
        "Let boxes go on after `glovebox pause`, or start them again after `glovebox stop`.",
        PAUSE_EXAMPLES,
    ),
}


def add_command(commands: Commands) -> None:
    """Add these commands."""
    description = "List the boxes that are there, oldest first."
    parser = add_parser(commands, "ls", help="list boxes", description=description, examples=LS_EXAMPLES)
    add_backend_argument(parser, default="all of them.")
    parser.add_argument("--names", action="store_true", help="Only their names, one per line.")
    parser.add_argument("--json", action="store_true", help="One JSON document in place of a table.")
    parser.set_defaults(run=ls)
    for name, (summary, description, examples) in _CHANGES.items():
        parser = add_parser(commands, name, help=summary, description=description, examples=examples)
        parser.add_argument("names", nargs="*" if name == "rm" else "+", metavar="BOX", help="Which boxes.")
        add_backend_argument(parser, default="all of them.")
        parser.add_argument("--json", action="store_true", help="The names, as one JSON document.")
        if name == "rm":
            parser.add_argument("--all", action="store_true", help="Every box of the backend, or of all.")
        parser.set_defaults(run=change_boxes, all=False)


def ls(arguments: argparse.Namespace) -> int:
    """List them."""
    from glovebox.cli import backends, console
    from glovebox.settings import host

    async def print_boxes() -> int:
        found = await backends.boxes(arguments.backend, host.load())
        if arguments.json:
            console.print_json(found)
        elif arguments.names:
            print("".join(f"{info.name}\n" for info in found), end="")
        else:
            head = ("NAME", "BACKEND", "STATE", "AGE", "MADE OF", "URL")
            console.print_table(head, [_row(info) for info in found])
        return 0

    return backends.finish(print_boxes())


def _row(info: BoxInfo) -> tuple[str, ...]:
    from glovebox.cli.console import age

    since = age(time.time() - info.created) if info.created else "-"
    state = f"{info.state}, kept" if info.keep else info.state
    return info.name, info.backend, state, since, info.image or info.workspace or "-", info.url or "-"


def change_boxes(arguments: argparse.Namespace) -> int:
    """Do the same to each of them; one that fails does not keep the others from it."""
    from glovebox.cli import backends, console
    from glovebox.errors import GloveboxError
    from glovebox.settings import host

    if bool(arguments.names) == arguments.all:
        console.say(f"{arguments.command} needs the names of boxes, or --all.")
        return USAGE

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
