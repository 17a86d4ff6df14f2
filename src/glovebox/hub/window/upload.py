"""An upload on its way into a window: files of a directory of the hub, put there one by one."""

from __future__ import annotations

import asyncio
import os
import posixpath
import shlex
import stat
import uuid
from typing import NamedTuple

from glovebox.box.threads import Threads
from glovebox.errors import TransferError
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.window import (
    PIECE,
    Done,
    Drop,
    Land,
    MakeDirectory,
    Put,
    RunApart,
    RunEnded,
    Written,
)

#: Files on their way at the same time.
_AT_ONCE = 4
#: Paths in one command.
_MARKED_AT_ONCE = 200


class _Held(NamedTuple):
    """Something in the directory: its path there, and below it."""

    path: str
    name: str
    directory: bool
    executable: bool


async def hand_over(hands: Hands, directory: str, destination: str, threads: Threads) -> None:
    """Put everything in a directory of the hub into one of the window.

    Raises:
        TransferError: the window refused something; what came before stays.
        WindowError: the window cannot be asked.
    """
    held = await threads.run(_collect, directory)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def put(one: _Held) -> None:
        async with turns:
            await _put(hands, one, posixpath.join(destination, one.name), threads)

    try:
        async with asyncio.TaskGroup() as group:
            for one in held:
                group.create_task(put(one))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    marked = [posixpath.join(destination, one.name) for one in held if one.executable]
    for start in range(0, len(marked), _MARKED_AT_ONCE):
        await _mark_executable(hands, marked[start : start + _MARKED_AT_ONCE])


def _collect(directory: str) -> list[_Held]:
    """What is in a directory, in order. Blocks."""
    found = []
    for here, directories, files in os.walk(directory):
        below = os.path.relpath(here, directory)
        for name in sorted(directories):
            found.append(_Held(os.path.join(here, name), posixpath.normpath(f"{below}/{name}"), True, False))
        for name in sorted(files):
            path = os.path.join(here, name)
            executable = bool(os.stat(path).st_mode & stat.S_IXUSR)
            found.append(_Held(path, posixpath.normpath(f"{below}/{name}"), False, executable))
    return found


async def _put(hands: Hands, held: _Held, target: str, threads: Threads) -> None:
    upload = uuid.uuid4().hex
    try:
        if held.directory:
            await hands.do(MakeDirectory(path=target), Done)
            return
        offset = 0
        while (piece := await threads.run(_read, held.path, offset)) or not offset:
            await hands.do(Put(upload=upload, data=piece), Done)
            offset += len(piece)
            if len(piece) < PIECE:
                break
        await hands.do(Land(upload=upload, path=target), Written)
    except OrderRefused as refused:
        if not held.directory:
            await _drop(hands, upload)
        raise TransferError(str(refused)) from refused


def _read(path: str, offset: int) -> bytes:
    """A piece of a file. Blocks."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(PIECE)


async def _drop(hands: Hands, upload: str) -> None:
    try:
        await hands.do(Drop(upload=upload), Done)
    except OrderRefused:
        return  # the window forgets it when it ends


async def _mark_executable(hands: Hands, paths: list[str]) -> None:
    """A window writes files without a mode, so a command gives them theirs."""
    command = f"chmod +x -- {shlex.join(paths)}"
    try:
        await hands.do(RunApart(command=command), RunEnded)
    except OrderRefused as refused:
        raise TransferError(
            f"Everything is there, but nothing could be made executable: {refused}"
        ) from refused
