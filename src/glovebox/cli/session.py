"""The box that a command works in: a fresh one, or one that is there."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import signal
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from glovebox.cli import backends
from glovebox.cli.console import Progress, say
from glovebox.cli.options import spec_of
from glovebox.errors import GloveboxError

if TYPE_CHECKING:
    from glovebox.client.backend import Backend, Sandbox
    from glovebox.client.runtime import Runtime
    from glovebox.client.spec import BoxSpec
    from glovebox.settings.host import HostSettings


@contextlib.asynccontextmanager
async def opened(arguments: argparse.Namespace, *, quiet: bool) -> AsyncIterator[Runtime]:
    """A runtime for the box that the flags mean; a fresh box that is not kept is removed at the end."""
    settings = backends.settings()
    if arguments.box:
        async with existing(arguments.box, arguments.backend, settings) as runtime:
            yield runtime
        return
    spec = spec_of(arguments, settings)
    name = backends.chosen(arguments.backend, settings)
    progress = Progress(quiet=quiet)
    async with backends.backend(name, settings) as backend:
        try:
            sandbox = await _started(backend, spec, progress)
        finally:
            progress.clear()
        try:
            if spec.keep:
                say(f"the box is called {sandbox.name}, and stays until: glovebox rm {sandbox.name}")
            async with _attached(backend, sandbox.name, settings) as runtime:
                yield runtime
        finally:
            if not spec.keep:
                await asyncio.shield(sandbox.delete())


async def _started(backend: Backend, spec: BoxSpec, progress: Progress) -> Sandbox:
    """Start a box, and meanwhile load what talks to it, which takes as long."""
    starting = asyncio.create_task(backend.start(spec, progress))
    try:
        await asyncio.to_thread(_load)
        return await starting
    except asyncio.CancelledError:
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError, GloveboxError):
            await (await starting).delete()
        raise


def _load() -> None:
    for module in (
        "glovebox.client.runtime",
        "glovebox.client.connection.http",
        "glovebox.client.connection.streaming",
    ):
        importlib.import_module(module)


@contextlib.asynccontextmanager
async def existing(name: str, backend: str, settings: HostSettings) -> AsyncIterator[Runtime]:
    """A runtime for a box that is there, and that stays."""
    async with (
        backends.box(name, backend, settings) as (place, _),
        _attached(place, name, settings) as runtime,
    ):
        yield runtime


def _attached(backend: Backend, name: str, settings: HostSettings) -> Runtime:
    from glovebox.client.runtime import Runtime
    from glovebox.client.spec import BoxSpec

    return Runtime(backend, BoxSpec(name=name), attach=True, settings=settings)


@contextlib.contextmanager
def leaving_on_signals() -> Iterator[None]:
    """Leave in good order when somebody wants this process to end: no box is left behind."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
