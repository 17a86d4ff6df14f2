"""`glovebox top`: what boxes use, as it changes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from glovebox.cli.options import FAILED, Commands, add_backend_argument, add_parser

if TYPE_CHECKING:
    from glovebox.client.backend import BoxInfo
    from glovebox.protocol.system import SystemSample

EXAMPLES = """\
examples:
  glovebox top                             all boxes that run, until Ctrl-C
  glovebox top build                       the processes of the box build
  glovebox top --once --json               one look, for a program
"""
_HOME_AND_CLEAR = "\x1b[H\x1b[J"
#: Seconds for which CPU time is measured.
_INTERVAL = 1
_LIMIT = 20.0


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "top",
        help="show what boxes use, as it changes",
        description="Show the CPU time and memory of all boxes that run, or of the processes of one, every "
        "second until Ctrl-C. Without a terminal, once.",
        examples=EXAMPLES,
    )
    parser.add_argument("name", nargs="?", default="", metavar="BOX", help="The box whose processes to show.")
    parser.add_argument("--once", action="store_true", help="Look once.")
    parser.add_argument("--json", action="store_true", help="Each look as a line of JSON.")
    add_backend_argument(parser, default="all of them.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli import backends

    return backends.finish(_show(arguments))


async def _show(arguments: argparse.Namespace) -> int:
    import asyncio

    from glovebox.cli import backends, console
    from glovebox.settings import host

    once = arguments.once or not sys.stdout.isatty()
    while True:
        found = await backends.boxes(arguments.backend, host.load())
        running = [info for info in found if info.state == "running" and arguments.name in ("", info.name)]
        if not running:
            console.say(f"The box {arguments.name} does not run." if arguments.name else "No box runs.")
            return FAILED if arguments.name else 0
        samples = await asyncio.gather(*map(_sample, running))
        known = {info.name: one for info, one in zip(running, samples, strict=True) if one is not None}
        if arguments.json:
            console.print_json(known)
        else:
            print("" if once else _HOME_AND_CLEAR, end="")
            _print(known, processes=bool(arguments.name))
        if once:
            return 0


async def _sample(info: BoxInfo) -> SystemSample | None:
    """What a box uses; None if it does not tell, as a VS Code window."""
    from glovebox.cli import backends
    from glovebox.client.connection.events import EventParser
    from glovebox.client.connection.http import MOST_BYTES
    from glovebox.errors import GloveboxError
    from glovebox.json_codec import decode_json
    from glovebox.protocol.system import SystemSample

    query = {"count": "2", "interval": str(_INTERVAL), "top": "20"}
    try:
        async with (
            backends.box(info.name, info.backend) as (_, sandbox),
            backends.connected(sandbox.address) as connection,
        ):
            body = await connection.request("GET", "/metrics/system", query=query, limit=_LIMIT)
    except GloveboxError:
        return None
    *_, last = EventParser(MOST_BYTES).feed(body)
    return decode_json(last.data, SystemSample)


def _print(known: dict[str, SystemSample], *, processes: bool) -> None:
    from glovebox.cli.console import print_table, size

    if processes:
        rows = [
            (str(one.pid), one.user, f"{one.cpu_percent:.0f}%", size(one.rss), one.command or one.name)
            for sample in known.values()
            for one in sample.processes.top
        ]
        print_table(("PID", "USER", "CPU", "MEMORY", "COMMAND"), rows, elastic="COMMAND")
        return
    print_table(
        ("NAME", "CPU", "MEMORY", "PROCESSES", "MOST BY"),
        [
            (
                name,
                f"{sample.processes.cpu_percent:.0f}%",
                size(sample.processes.rss),
                str(sample.processes.count),
                sample.processes.top[0].command if sample.processes.top else "-",
            )
            for name, sample in known.items()
        ],
        elastic="MOST BY",
    )
