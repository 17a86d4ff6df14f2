"""The boxes that there are, in any backend."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from glovebox.client import registry
from glovebox.client.backend import Backend, BoxInfo
from glovebox.errors import BackendError, EngineUnavailable, NoSuchBox
from glovebox.settings.host import HostSettings

log = logging.getLogger(__name__)


async def list_boxes(backend: str, settings: HostSettings) -> list[BoxInfo]:
    """The boxes of a backend, or of all of them, oldest first.

    Raises:
        BackendError: the backend that was named cannot list them.
    """

    async def listed(name: str) -> list[BoxInfo]:
        try:
            async with _opened(name, settings) as place:
                return await place.boxes()
        except BackendError as error:
            if backend:
                raise
            if not isinstance(error, EngineUnavailable):
                log.warning("The boxes of the backend %s are not listed: %s", name, error)
            return []

    found = await asyncio.gather(*(listed(name) for name in _places(backend, settings)))
    return sorted((info for infos in found for info in infos), key=lambda info: info.created)


async def find_backend(box: str, backend: str, settings: HostSettings) -> str:
    """The name of the backend that has a box.

    Raises:
        NoSuchBox: none has.
        BackendError: several have.
    """
    found = [info for info in await list_boxes(backend, settings) if info.name == box]
    if not found:
        raise NoSuchBox(f"There is no box {box!r}. These are there: glovebox ls")
    if len(found) > 1:
        where = " and ".join(info.backend for info in found)
        raise BackendError(f"Boxes of {where} are called {box!r}: name the backend.")
    return found[0].backend


def _places(backend: str, settings: HostSettings) -> list[str]:
    if backend:
        return [backend]
    return [name for name in registry.names() if name != "remote" or settings.url]


@contextlib.asynccontextmanager
async def _opened(name: str, settings: HostSettings) -> AsyncGenerator[Backend, None]:
    backend = registry.open_backend(name, settings)
    try:
        yield backend
    finally:
        await backend.close()
