"""What clients have left behind that were killed: boxes, locks, layers, and runtimes that nobody uses."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import msgspec

from glovebox.backends import owners
from glovebox.backends.docker import wire
from glovebox.backends.docker.containers import listed, remove
from glovebox.backends.docker.engine import Engine, EngineRefused
from glovebox.backends.docker.labels import BOX, KEEP, LAYERS, OWNER, PREFIX
from glovebox.backends.docker.mounts import remove_layers
from glovebox.backends.docker.runtime_volume import FILLING, VOLUME

log = logging.getLogger(__name__)

#: Runtimes that nobody uses right now and that are kept: someone may go back and forth between versions.
KEPT_RUNTIMES = 2
#: Seconds after which layers without a container are nobody's. A start makes them right after its container.
_FORGOTTEN = 3600.0


async def sweep(engine: Engine, overlays: Path) -> list[str]:
    """Remove what is nobody's any more; the names of the boxes."""
    removed = []
    for container in await listed(engine, BOX):
        labels = container.labels or {}
        if labels.get(KEEP) != "true" and owners.is_gone(labels.get(OWNER, "")):
            await remove(engine, container.id)
            await asyncio.to_thread(remove_layers, labels.get(LAYERS, ""), PREFIX + labels[BOX])
            removed.append(labels[BOX])
    for container in await listed(engine, FILLING):
        if owners.is_gone((container.labels or {}).get(OWNER, "")):
            await remove(engine, container.id)
    await _sweep_runtimes(engine)
    there = {PREFIX + (container.labels or {})[BOX] for container in await listed(engine, BOX)}
    await asyncio.to_thread(_sweep_layers, overlays, there)
    return removed


async def _sweep_runtimes(engine: Engine) -> None:
    filters = msgspec.json.encode({"label": [VOLUME], "dangling": ["true"]}).decode()
    found = await engine.get(wire.Volumes, "/volumes", query={"filters": filters})
    unused = sorted(found.volumes or (), key=lambda volume: volume.created_at, reverse=True)
    for volume in unused[KEPT_RUNTIMES:]:
        try:
            await engine.ask("DELETE", f"/volumes/{volume.name}")
        except EngineRefused as error:  # somebody has begun to use it
            log.debug("the volume %s stays: %s", volume.name, error)


def _sweep_layers(overlays: Path, there: set[str]) -> None:
    """Remove layers whose container is gone."""
    try:
        found = [path for path in overlays.iterdir() if path.name.startswith(PREFIX)]
    except FileNotFoundError:
        return
    for path in found:
        if path.name not in there and time.time() - path.stat().st_mtime > _FORGOTTEN:
            remove_layers(str(path), path.name)
