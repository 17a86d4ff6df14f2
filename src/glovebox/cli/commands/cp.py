"""`glovebox cp`: files into a box and out of it."""

from __future__ import annotations

import argparse
import functools
import os
import posixpath
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from glovebox.cli.console import Progress, print_json, say
from glovebox.cli.options import USAGE, Commands, add_backend_argument, add_parser
from glovebox.errors import TransferError

if TYPE_CHECKING:
    from glovebox.client.runtime import Runtime

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


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "cp",
        help="copy files into a box, or out of it",
        description="Copy a file or a directory into a box, or out of it. BOX:PATH is a path in a box.",
        examples=EXAMPLES,
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
    from glovebox.cli.backends import finish

    source, destination = in_box(arguments.source), in_box(arguments.destination)
    if (source is None) == (destination is None):
        say("cp copies between this machine and a box: one of the two is written as BOX:PATH.")
        return USAGE
    if destination is not None:
        name, path = destination
        return finish(copy_in(arguments, name, arguments.source, path))
    assert source is not None
    return finish(copy_out(arguments, *source, arguments.destination))


def in_box(text: str) -> tuple[str, str] | None:
    """Box and path, or None for a path of this machine."""
    match = _IN_BOX.fullmatch(text)
    return (match[1], match[2]) if match else None


async def copy_in(arguments: argparse.Namespace, name: str, source: str, path: str) -> int:
    """A file or directory of this machine into a box."""
    from glovebox.cli.backends import cancel_on_signals, existing_box

    place = _existing_path(source)
    progress = Progress(quiet=arguments.json)
    with cancel_on_signals():
        async with existing_box(name, arguments.backend) as runtime:
            wanted = posixpath.join(runtime.workspace, path)
            into, called = wanted, place.name
            if not path.endswith("/") and await _kind(runtime, wanted) != "directory":
                into, called = posixpath.split(wanted)
            await runtime.copy_to(
                place,
                into,
                recursive=True,
                name=called,
                follow_links=arguments.follow_links,
                progress=functools.partial(progress.progress, f"Copying {source}"),
            )
    progress.clear()
    if arguments.json:
        print_json({"box": name, "path": posixpath.join(into, called)})
    return 0


async def copy_out(arguments: argparse.Namespace, name: str, path: str, destination: str) -> int:
    """A file or directory of a box to this machine."""
    from glovebox.cli.backends import cancel_on_signals, existing_box

    progress = Progress(quiet=arguments.json)
    with cancel_on_signals():
        async with existing_box(name, arguments.backend) as runtime:
            wanted = posixpath.normpath(posixpath.join(runtime.workspace, path))
            kind = await _kind(runtime, wanted)
            if not kind:
                raise TransferError(f"There is no {wanted} in the box {name}.")
            target = _target(destination, posixpath.basename(wanted) or name)
            report = functools.partial(progress.progress, f"Copying {name}:{path}")
            try:
                if kind == "directory":
                    paths = await runtime.download_to(wanted, target, progress=report)
                else:
                    paths = [await _fetch(runtime, wanted, target, report)]
            except OSError as error:
                raise TransferError(f"{target} cannot be written: {error.strerror or error}") from error
    progress.clear()
    if arguments.json:
        print_json({"path": str(target), "files": len(paths)})
    return 0


def _existing_path(source: str) -> Path:
    place = Path(os.path.abspath(source))
    if not place.exists():
        raise TransferError(f"There is no {source}.")
    return place


def _target(destination: str, name: str) -> Path:
    """The path to write to: below an existing directory, else the destination itself."""
    target = Path(os.path.abspath(destination))
    return target / name if destination.endswith("/") or target.is_dir() else target


async def _fetch(
    runtime: Runtime, path: str, target: Path, report: Callable[[int, int | None], None]
) -> Path:
    """Fetch one file, which gets its name when it is complete."""
    import asyncio

    await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".glovebox-", dir=target.parent) as scratch:
        [fetched] = await runtime.download_to(path, scratch, progress=report)
        await asyncio.to_thread(fetched.replace, target)
    return target


async def _kind(runtime: Runtime, path: str) -> str:
    """The type of a path of the box; empty if it does not exist."""
    from glovebox.protocol.files import StatAction, StatObservation

    answer = await runtime.execute(StatAction(path=path))
    return answer.type if isinstance(answer, StatObservation) else ""
