"""Runs a helper program and reads the lines it prints, within limits, leaving no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence

from glovebox.box.credentials import Identity
from glovebox.box.files.search.scan import become

#: A helper that needs more memory than this has met a file it cannot handle.
_MAX_MEMORY = 4 << 30
_BLOCK = 1 << 16


class ChildFailed(Exception):
    """A helper could not be started, or printed something out of bounds."""


@contextlib.asynccontextmanager
async def child(
    command: Sequence[str | bytes], given: bytes, identity: Identity | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running helper that gets `given` on its standard input; it is dead when the block ends.

    It runs as the user that `identity` names. That user could read its environment, so it has none of ours.

    Raises:
        ChildFailed: it cannot be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.defpath},
            preexec_fn=None if identity is None else functools.partial(become, *identity),
        )
    except (OSError, ValueError) as error:
        raise ChildFailed(str(error)) from error
    try:
        _limit_resources(process.pid)
        await _give(process, given)
        yield process
    finally:
        # With all it may have started: the program found may be a script around the real one.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        # A pipe that is not read to its end can keep the exit from being noticed.
        while await process.stdout.read(_BLOCK):
            pass
        await process.wait()


async def _give(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    # One that closes its input early says why with its exit code.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def lines(process: asyncio.subprocess.Process, *, longest: int) -> AsyncIterator[list[bytes]]:
    """What a helper prints, some whole lines at a time.

    Raises:
        ChildFailed: a line is longer than `longest`.
    """
    assert process.stdout is not None
    held = bytearray()
    while data := await process.stdout.read(_BLOCK):
        end = data.rfind(b"\n") + 1
        if end:
            held += data[:end]
            yield bytes(held).splitlines()
            held.clear()
        held += data[end:]
        if len(held) > longest:
            raise ChildFailed("a line is too long")


def _limit_resources(pid: int) -> None:
    """Bound a helper's memory, and let it leave no core file where it falls."""
    if sys.platform != "linux":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
