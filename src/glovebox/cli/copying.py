"""Files between this machine and a box, by the rules of cp."""

from __future__ import annotations

import argparse
import asyncio
import os
import posixpath
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from glovebox.cli import opening
from glovebox.cli.fresh import existing, leaving_on_signals
from glovebox.cli.showing import Progress, print_json
from glovebox.client import transfer
from glovebox.errors import TransferError
from glovebox.protocol.files import StatAction, StatObservation

if TYPE_CHECKING:
    from glovebox.client.runtime import Runtime


async def copy_in(arguments: argparse.Namespace, name: str, source: str, path: str) -> int:
    """A file or directory of this machine into a box."""
    place = _existing(source)
    progress = Progress(quiet=arguments.json)
    with leaving_on_signals():
        async with existing(name, arguments.backend, opening.settings()) as runtime:
            wanted = posixpath.join(runtime.workspace, path)
            into, called = wanted, place.name
            if not path.endswith("/") and await _kind(runtime, wanted) != "directory":
                into, called = posixpath.split(wanted)
            # What is sent is called as the path that it is read from: a link gives it any name.
            with tempfile.TemporaryDirectory(prefix="glovebox-") as scratch:
                link = os.path.join(scratch, called)
                os.symlink(place, link)
                await transfer.copy_to(
                    runtime,
                    link,
                    into,
                    recursive=True,
                    follow_links=arguments.follow_links,
                    progress=_hears(progress, f"Copying {source}"),
                )
    progress.clear()
    if arguments.json:
        print_json({"box": name, "path": posixpath.join(into, called)})
    return 0


async def copy_out(arguments: argparse.Namespace, name: str, path: str, destination: str) -> int:
    """A file or directory of a box to this machine."""
    progress = Progress(quiet=arguments.json)
    with leaving_on_signals():
        async with existing(name, arguments.backend, opening.settings()) as runtime:
            wanted = posixpath.normpath(posixpath.join(runtime.workspace, path))
            kind = await _kind(runtime, wanted)
            if not kind:
                raise TransferError(f"There is no {wanted} in the box {name}.")
            target = _target(destination, posixpath.basename(wanted) or name)
            hears = _hears(progress, f"Copying {name}:{path}")
            if kind == "directory":
                paths = await transfer.download(runtime, wanted, target, progress=hears)
            else:
                paths = [await _fetch(runtime, wanted, target, hears)]
    progress.clear()
    if arguments.json:
        print_json({"path": str(target), "files": len(paths)})
    return 0


def _existing(source: str) -> Path:
    place = Path(os.path.abspath(source))
    if not place.exists():
        raise TransferError(f"There is no {source}.")
    return place


def _target(destination: str, name: str) -> Path:
    """Where something of that name goes: into a directory, or in place of what is there."""
    target = Path(os.path.abspath(destination))
    return target / name if destination.endswith("/") or target.is_dir() else target


async def _fetch(runtime: Runtime, path: str, target: Path, hears: Callable[[int, int | None], None]) -> Path:
    """One file, which is there under its name when all of it is."""
    await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".glovebox-", dir=target.parent) as scratch:
        [fetched] = await transfer.download(runtime, path, scratch, progress=hears)
        await asyncio.to_thread(fetched.replace, target)
    return target


async def _kind(runtime: Runtime, path: str) -> str:
    """What a path of the box is; empty if it is nothing."""
    answer = await runtime.execute(StatAction(path=path))
    return answer.type if isinstance(answer, StatObservation) else ""


def _hears(progress: Progress, step: str) -> Callable[[int, int | None], None]:
    def heard(done: int, total: int | None) -> None:
        progress.progress(step, done, total)

    return heard
