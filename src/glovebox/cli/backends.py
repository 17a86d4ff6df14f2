"""Backends and boxes by name, for commands; the box that a command works in; the exit status of failures."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from glovebox.cli.console import Progress, say
from glovebox.cli.options import FAILED, INTERRUPTED, TERMINATED, USAGE, spec_of
from glovebox.errors import BackendError, BadSpec, EngineUnavailable, GloveboxError, NoSuchBox, SettingsError
from glovebox.settings import client as address_and_key
from glovebox.settings import host

if TYPE_CHECKING:
    from glovebox.client.backend import Address, Backend, BoxInfo, Sandbox
    from glovebox.client.connection.http import Connection
    from glovebox.client.runtime import Runtime
    from glovebox.client.spec import BoxSpec
    from glovebox.settings.host import HostSettings

_EVERYWHERE = ("", "all")


def finish(work: Coroutine[Any, Any, int]) -> int:
    """Run a command to its exit status; a failure is printed as a sentence."""
    try:
        return asyncio.run(work)
    except (BadSpec, SettingsError) as error:
        say(str(error))
        return USAGE
    except GloveboxError as error:
        say(str(error))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED


async def boxes(flag: str, settings: HostSettings) -> list[BoxInfo]:
    """All boxes of a backend, or of all of them; the failure of one that was not named is only printed."""

    async def list_boxes(place: str) -> list[BoxInfo]:
        try:
            async with _opened(place, settings) as backend:
                return await backend.boxes()
        except BackendError as error:
            if flag not in _EVERYWHERE:
                raise
            if not isinstance(error, EngineUnavailable):
                say(f"{place}: {error}")
            return []

    found = await asyncio.gather(*(list_boxes(place) for place in _places(flag, settings)))
    return sorted((info for infos in found for info in infos), key=lambda info: info.created)


async def sweep(flag: str, settings: HostSettings) -> list[str]:
    """Remove boxes whose client is gone, unless they are kept; their names."""
    removed = []
    for place in _places(flag, settings):
        async with _opened(place, settings) as backend:
            with contextlib.suppress(EngineUnavailable):
                removed += await backend.sweep()
    return removed


@contextlib.asynccontextmanager
async def box(name: str, flag: str) -> AsyncIterator[tuple[Backend, Sandbox]]:
    """A box by its name or its address, in the backend of the flag or in any, with its backend.

    Raises:
        NoSuchBox: there is none.
        BackendError: several have that name.
    """
    from glovebox.client.registry import is_address

    settings = host.load()
    if is_address(name):
        async with _opened(name, settings) as remote:
            yield remote, await remote.attach(name)
        return
    absent = (NoSuchBox, EngineUnavailable) if flag in _EVERYWHERE else (NoSuchBox,)
    async with contextlib.AsyncExitStack() as stack:
        found: list[tuple[Backend, Sandbox]] = []
        for place in _places(flag, settings):
            backend = await stack.enter_async_context(_opened(place, settings))
            with contextlib.suppress(*absent):
                found.append((backend, await backend.attach(name)))
        if not found:
            raise NoSuchBox(f"There is no box {name!r}. These are there: glovebox ls")
        if len(found) > 1:
            where = " and ".join(backend.name for backend, _ in found)
            raise BackendError(f"Boxes of {where} are called {name!r}. Say which one with --backend.")
        yield found[0]


def _places(flag: str, settings: HostSettings) -> list[str]:
    """The backends that may have boxes: the named one, or all."""
    from glovebox.client import registry

    if flag not in _EVERYWHERE:
        return [flag]
    return [name for name in registry.names() if name != "remote" or settings.url]


@contextlib.asynccontextmanager
async def _opened(name: str, settings: HostSettings) -> AsyncIterator[Backend]:
    from glovebox.client import registry

    backend = registry.open_backend(name, settings)
    try:
        yield backend
    finally:
        await backend.close()


@contextlib.asynccontextmanager
async def open_runtime(
    arguments: argparse.Namespace, *, quiet: bool, load: str = "glovebox.client.runtime"
) -> AsyncIterator[Runtime]:
    """A runtime for the box of the flags; a fresh box that is not kept is removed at the end.

    `load` is a module that is imported while the box starts, which takes as long.
    """
    if arguments.box:
        async with existing_box(arguments.box, arguments.backend) as runtime:
            yield runtime
        return
    from glovebox.client import registry

    settings = host.load()
    spec = spec_of(arguments, settings)
    progress = Progress(quiet=quiet)
    async with contextlib.AsyncExitStack() as stack:
        try:
            backend = await registry.choose(arguments.backend, settings, spec, progress)
            stack.push_async_callback(backend.close)
            sandbox = await _start(backend, spec, progress, load)
        finally:
            progress.clear()
        if spec.keep:
            say(f"the box is called {sandbox.name}, and stays until: glovebox rm {sandbox.name}")
        else:
            stack.push_async_callback(lambda: asyncio.shield(sandbox.delete()))
        yield await stack.enter_async_context(_attached(backend, sandbox.name, settings))


async def _start(backend: Backend, spec: BoxSpec, progress: Progress, load: str) -> Sandbox:
    """Start a box, and import a module meanwhile."""
    starting = asyncio.create_task(backend.start(spec, progress))
    try:
        await asyncio.to_thread(importlib.import_module, load)
        return await starting
    except asyncio.CancelledError:
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError, GloveboxError):
            await (await starting).delete()
        raise


@contextlib.asynccontextmanager
async def existing_box(name: str, flag: str) -> AsyncIterator[Runtime]:
    """A runtime for an existing box, which stays."""
    async with box(name, flag) as (backend, _), _attached(backend, name, host.load()) as runtime:
        yield runtime


async def target_address(arguments: argparse.Namespace) -> Address:
    """The address of the box that is meant: that of a name, else that of the flags or the environment.

    Raises:
        BackendError: the box of that name is stopped.
    """
    from glovebox.client.backend import Address

    if not arguments.name:
        url, key = address_and_key(arguments.url, arguments.session_api_key_file)
        return Address(url=url, key=key)
    if arguments.url:
        raise BadSpec(f"{arguments.command} takes the name of a box or its --url, not both.")
    async with box(arguments.name, arguments.backend) as (_, sandbox):
        if not (await sandbox.info()).url:
            raise BackendError(
                f"The box {arguments.name} does not run. Start it with: glovebox resume {arguments.name}"
            )
        return sandbox.address


@contextlib.asynccontextmanager
async def connected(address: Address) -> AsyncIterator[Connection]:
    """A connection that does not wait for a box that is not there."""
    from glovebox.client.connection.http import Connection

    connection = Connection(address, patience=0)
    try:
        yield connection
    finally:
        await connection.close()


def _attached(backend: Backend, name: str, settings: HostSettings) -> Runtime:
    from glovebox.client.runtime import Runtime
    from glovebox.client.spec import BoxSpec

    return Runtime(backend, BoxSpec(name=name), attach=True, settings=settings)


@contextlib.contextmanager
def cancel_on_signals() -> Iterator[None]:
    """Cancel this task on SIGTERM and SIGHUP, so that no box is left behind."""
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
