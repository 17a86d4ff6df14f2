"""`glovebox df`: the disk space that boxes use on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from glovebox.cli.options import Commands, add_parser

if TYPE_CHECKING:
    from glovebox.settings.host import HostSettings

EXAMPLES = """\
examples:
  glovebox df                              what boxes and caches use
  glovebox rm NAME                         remove a box with its files
  glovebox prune                           remove boxes whose client is gone

What containers use is known to their engine: docker system df -v
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "df",
        help="show how much disk space boxes use",
        description="Show the disk space of boxes that are processes, of overlay mounts, and of what can be "
        "made or installed again.",
        examples=EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="One JSON document in place of a table.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli import console
    from glovebox.settings import host

    found = [(kind, path, _size(path)) for kind, path in _places(host.load())]
    if arguments.json:
        console.print_json([{"kind": kind, "path": str(path), "bytes": size} for kind, path, size in found])
    elif found:
        rows = [(kind, path.name, console.size(size), str(path)) for kind, path, size in found]
        total = ("", "total", console.size(sum(size for _, _, size in found)), "")
        console.print_table(("KIND", "NAME", "SIZE", "PATH"), [*rows, total], elastic="PATH")
    else:
        console.say("Boxes use no disk space here, but perhaps that of containers: docker system df")
    return 0


def _places(settings: HostSettings) -> list[tuple[str, Path]]:
    """Everything that takes space, with what it is."""
    overlays = Path(settings.overlays) if settings.overlays else settings.state / "overlays"
    vscode = Path(settings.environment.get("XDG_DATA_HOME") or settings.home / ".local/share")
    kinds = [
        ("box", settings.state / "boxes"),
        ("overlay", overlays),
        ("cache", settings.cache),
        ("installed", vscode / "glovebox"),
    ]
    return [(kind, path) for kind, directory in kinds for path in _children(directory)]


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:  # it does not exist, or belongs to another user
        return []


def _size(path: Path) -> int:
    """The bytes on disk of a file, or of all in a directory."""
    total = 0
    for parent, _, names in os.walk(path):
        for name in (*names, "."):
            total += _blocks(os.path.join(parent, name))
    return total or _blocks(str(path))


def _blocks(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:  # it has just been removed
        return 0
