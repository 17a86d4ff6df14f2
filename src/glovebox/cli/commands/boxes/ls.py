"""`glovebox ls`: the boxes there are."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from glovebox.cli.options import Commands, add_backend_argument, add_parser

if TYPE_CHECKING:
    from glovebox.client.backend import BoxInfo

EXAMPLES = """\
examples:
  glovebox ls                              the boxes of every backend
  glovebox ls --backend docker --json      those in containers, for a program
"""
HEAD = ("NAME", "BACKEND", "STATE", "AGE", "URL", "MADE OF")


def add_command(commands: Commands) -> None:
    description = "List the boxes that are there, oldest first."
    parser = add_parser(commands, "ls", help="list boxes", description=description, examples=EXAMPLES)
    add_backend_argument(parser, default="all of them.")
    parser.add_argument("--names", action="store_true", help="Only their names, one per line.")
    parser.add_argument("--json", action="store_true", help="One JSON document in place of a table.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli import backends, console
    from glovebox.settings import host

    async def print_boxes() -> int:
        found = await backends.boxes(arguments.backend, host.load())
        if arguments.json:
            console.print_json(found)
        elif arguments.names:
            print("".join(f"{info.name}\n" for info in found), end="")
        elif found:
            console.print_table(HEAD, [_row(info) for info in found], elastic="MADE OF")
        else:
            console.say(_why_none(arguments.backend))
        return 0

    return backends.finish(print_boxes())


def _why_none(backend: str) -> str:
    where = f" of the backend {backend}" if backend not in ("", "all") else ""
    return (
        f"There are no boxes{where}. A box of `glovebox run` is removed with its command; "
        "one that stays: glovebox run --keep --name play -- true"
    )


def _row(info: BoxInfo) -> tuple[str, ...]:
    from glovebox.cli.console import age

    since = age(time.time() - info.created) if info.created else "-"
    return info.name, info.backend, _state(info), since, info.url or "-", info.image or info.workspace or "-"


def _state(info: BoxInfo) -> str:
    said = info.labels
    if "status" not in said:
        return f"{info.state}, kept" if info.keep else info.state
    # A VS Code window.
    read_only = "read only" if said.get("trusted") == "no" else ""
    return ", ".join(filter(None, (said["status"], read_only, said.get("agent"))))
