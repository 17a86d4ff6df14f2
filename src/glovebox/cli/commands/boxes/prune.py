"""`glovebox prune`: remove boxes whose client is gone."""

from __future__ import annotations

import argparse

from glovebox.cli.options import FAILED, Commands, add_backend_argument, add_parser

EXAMPLES = """\
examples:
  glovebox prune                           remove boxes whose client is gone
  glovebox prune --stopped                 also those that were stopped, kept ones included

Those whose client is gone are also removed when the next box starts. `glovebox doctor` names them.
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "prune",
        help="remove boxes whose client is gone",
        description="Remove boxes whose client is gone (it was killed, say) and that were not to be kept.",
        examples=EXAMPLES,
    )
    parser.add_argument("--stopped", action="store_true", help="Also remove every box that is stopped.")
    parser.add_argument("--json", action="store_true", help="The names, as one JSON document.")
    add_backend_argument(parser, default="all of them.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli import backends, console
    from glovebox.errors import GloveboxError
    from glovebox.settings import host

    async def prune() -> int:
        settings = host.load()
        removed = await backends.sweep(arguments.backend, settings)
        found = await backends.boxes(arguments.backend, settings) if arguments.stopped else []
        stopped = [info for info in found if info.state == "stopped"]
        failed = False
        for info in stopped:
            try:
                async with backends.box(info.name, info.backend) as (_, sandbox):
                    await sandbox.delete()
            except GloveboxError as error:
                console.say(str(error))
                failed = True
            else:
                removed.append(info.name)
        if arguments.json:
            console.print_json(removed)
        elif removed:
            print("\n".join(removed))
        elif not failed:
            console.say("There is nothing to remove.")
        return FAILED if failed else 0

    return backends.finish(prune())
