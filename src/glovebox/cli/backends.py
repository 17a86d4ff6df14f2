"""Backends and boxes by their names, for commands; and what a command that fails says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any

from glovebox.cli import engines
from glovebox.cli.console import say
from glovebox.cli.options import FAILED, USAGE
from glovebox.errors import BackendError, BadSpec, GloveboxError, NoSuchBox, SettingsError
from glovebox.settings import host

if TYPE_CHECKING:
    from glovebox.client.backend import Backend, BoxInfo, Sandbox
    from glovebox.settings.host import HostSettings

ALL = "all"
INTERRUPTED = 130
TERMINATED = 143


def settings() -> HostSettings:
    """What the environment says."""
    return host.load()


def finish(work: Coroutine[Any, Any, int]) -> int:
    """The exit status of a command, which says what went wrong in a sentence."""
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


def chosen(flag: str, settings: HostSettings, *, aloud: bool = True) -> str:
    """The backend to start boxes in: the flag, the environment's, or what this machine has."""
    if flag or settings.backend:
        return flag or settings.backend
    found = "docker" if engines.is_usable(settings) else "process"
    if aloud:
        why = "a container engine answers" if found == "docker" else "no container engine answers"
        say(f"using the backend {found}, as {why} (--backend, GLOVEBOX_BACKEND)")
    return found


@contextlib.asynccontextmanager
async def backend(name: str, settings: HostSettings) -> AsyncIterator[Backend]:
    """A backend by its name, or the one behind an address.

    Raises:
        NoSuchBackend: nothing is called so.
    """
    from glovebox.client import registry

    opened = registry.open_backend(name, settings)
    try:
        yield opened
    finally:
        await opened.close()


def places(flag: str, settings: HostSettings) -> list[str]:
    """The backends to look for boxes in: the one that is named, or all that can have some."""
    from glovebox.client import registry

    if flag and flag != ALL:
        return [flag]
    absent = set()
    if not settings.url:
        absent.add("remote")
    if not engines.is_usable(settings):
        absent.add("docker")
    return [name for name in registry.names() if name not in absent]


async def boxes(flag: str, settings: HostSettings) -> list[BoxInfo]:
    """All boxes in a backend, or in all of them; a backend that fails is told of, if it was not named."""

    async def listed(place: str) -> list[BoxInfo]:
        try:
            async with backend(place, settings) as opened:
                return await opened.boxes()
        except BackendError as error:
            if flag not in ("", ALL):
                raise
            say(f"{place}: {error}")
            return []

    found = await asyncio.gather(*(listed(place) for place in places(flag, settings)))
    return sorted((info for infos in found for info in infos), key=lambda info: info.created)


@contextlib.asynccontextmanager
async def box(name: str, flag: str, settings: HostSettings) -> AsyncIterator[tuple[Backend, Sandbox]]:
    """A box by its name, wherever it is, with its backend.

    Raises:
        NoSuchBox: there is none.
        BackendError: several are called so.
    """
    async with contextlib.AsyncExitStack() as stack:
        found: list[tuple[Backend, Sandbox]] = []
        for place in places(flag, settings):
            opened = await stack.enter_async_context(backend(place, settings))
            with contextlib.suppress(NoSuchBox):
                found.append((opened, await opened.attach(name)))
        if not found:
            raise NoSuchBox(f"There is no box {name!r}. These are there: glovebox ls")
        if len(found) > 1:
            where = " and ".join(place.name for place, _ in found)
            raise BackendError(f"Boxes of {where} are called {name!r}. Say which one with --backend.")
        yield found[0]
