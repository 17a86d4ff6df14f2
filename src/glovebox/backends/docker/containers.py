"""Operations on containers: create, inspect, list, remove, read logs."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from glovebox.backends.docker import wire
from glovebox.backends.docker.engine import Engine, EngineRefused, decode
from glovebox.errors import BadImage, BadSpec, BoxExists

#: The header of each piece of a log: its stream, three unused bytes, and its length.
_FRAME = struct.Struct(">BxxxL")
#: Seconds between checks of a container that another client removes, and until that has to be done.
_LOOK = 0.02
_REMOVAL_LIMIT = 30.0


async def create(engine: Engine, name: str, config: Mapping[str, Any]) -> str:
    """Create a container; its id.

    Raises:
        BoxExists: the name is taken.
        BadImage: the image is gone.
        BadSpec: the engine refuses the configuration; the text has its message.
    """
    try:
        answer = await engine.request("POST", "/containers/create", query={"name": name}, body=config)
    except EngineRefused as error:
        if error.status_code == 409 or "already in use" in str(error):
            raise BoxExists(f"There is a container {name} already: {error}") from error
        if error.status_code == 404 and "image" in str(error).lower():
            raise BadImage(f"The image {config['Image']} is gone: {error}") from error
        raise BadSpec(f"The engine does not create the container {name}: {error}") from error
    return decode(wire.Created, answer).id


async def inspect(engine: Engine, name: str) -> wire.Container:
    """The present state of a container."""
    return await engine.get(wire.Container, f"/containers/{name}/json")


async def list_containers(engine: Engine, label: str) -> tuple[wire.ContainerSummary, ...]:
    """All containers that have a label."""
    filters = msgspec.json.encode({"label": [label]}).decode()
    return await engine.get(
        tuple[wire.ContainerSummary, ...], "/containers/json", query={"all": "1", "filters": filters}
    )


async def remove(engine: Engine, name: str) -> None:
    """Remove a container, running or not, with its volumes that have no name. Idempotent."""
    deadline = asyncio.get_running_loop().time() + _REMOVAL_LIMIT
    while True:
        try:
            await engine.request("DELETE", f"/containers/{name}", query={"force": "1", "v": "1"})
            return
        except EngineRefused as error:
            if error.status_code == 404:
                return
            if error.status_code != 409 or asyncio.get_running_loop().time() > deadline:
                raise
        # Another client removes it right now: wait until it is gone.
        await asyncio.sleep(_LOOK)


async def log_lines(engine: Engine, name: str, query: Mapping[str, str]) -> AsyncIterator[str]:
    """The lines of a log. Lines of its two streams are not mixed."""
    async with engine.stream("GET", f"/containers/{name}/logs", query=query) as answer:
        unfinished: dict[int, bytes] = {}
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                stream, length = _FRAME.unpack(await answer.content.readexactly(_FRAME.size))
                text = unfinished.get(stream, b"") + await answer.content.readexactly(length)
                *whole, unfinished[stream] = text.split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace")
        for rest in filter(None, unfinished.values()):
            yield rest.decode(errors="replace")
