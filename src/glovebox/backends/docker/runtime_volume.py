"""The runtime for images that have none: a read-only volume in every such box.

The name of the volume identifies its contents, so a start does not inspect it. The volume may be incomplete,
because a client is filling it or was killed meanwhile. Therefore the program that starts a box is a link that
is written last: with an incomplete volume the engine refuses to start the container, and the client fills it.

A client that fills the volume holds a lock: a container that is never started, whose name is unique.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from glovebox.backends import owners
from glovebox.backends.docker import wire
from glovebox.backends.docker.config import HOME, OWNER
from glovebox.backends.docker.containers import create, inspect
from glovebox.backends.docker.engine import Engine, EngineRefused
from glovebox.backends.startup import finish, undoable
from glovebox.bundle import ensure, manifest
from glovebox.client.backend import ProgressReport, RuntimeStatus
from glovebox.errors import BackendError, BadImage, BoxExists
from glovebox.protocol.base import Message
from glovebox.settings.host import HostSettings

#: The program that starts a box; the last file that is written to the volume.
STARTER = f"{HOME}/start"
VOLUME_PREFIX = "glovebox-runtime-"
FILLER_PREFIX = "glovebox-filling-"
#: The label of volumes with a runtime: its digest.
VOLUME = "glovebox.runtime.volume"
#: The label of containers that hold the lock: the volume that is filled.
FILLING = "glovebox.runtime.filling"
#: Machines, as Linux and as images name them.
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
#: Seconds to wait for another client that fills; then, or when it is gone, the lock is taken over.
_PATIENCE = 300.0
_LOOK = 0.05
_PIECE = 1 << 20


class RuntimeVolume(Message):
    """A runtime for images."""

    bundle: str
    digest: str
    volume: str
    #: As images name it.
    architecture: str

    def mount(self, *, is_read_only: bool = True) -> dict[str, Any]:
        """The volume as a mount. The engine creates it if it is missing."""
        return {
            "Type": "volume",
            "Source": self.volume,
            "Target": HOME,
            "ReadOnly": is_read_only,
            "VolumeOptions": {"NoCopy": True, "Labels": {VOLUME: self.digest}},
        }


async def runtime_volume(settings: HostSettings, report: ProgressReport) -> RuntimeVolume:
    """The runtime of this version, built if it is missing.

    Raises:
        NoBundle: it cannot be built.
    """
    path = await ensure(settings, report)
    about = await asyncio.to_thread(manifest, path)
    return RuntimeVolume(
        bundle=str(path),
        digest=about.digest,
        volume=f"{VOLUME_PREFIX}{about.version}-{about.digest[:16]}",
        architecture=_MACHINES.get(about.machine, about.machine),
    )


def check_architecture(name: str, image: wire.Image, runtime: RuntimeVolume) -> None:
    """Check that image and runtime are for the same architecture.

    Raises:
        BadImage: they are not.
    """
    if image.architecture and image.architecture != runtime.architecture:
        raise BadImage(
            f"The image {name} is for {image.architecture}, and the runtime for {runtime.architecture}. Use "
            f"an image for {runtime.architecture}, or set GLOVEBOX_BUNDLE to a runtime that `glovebox "
            f"bundle` made on a machine with {image.architecture}."
        )


async def fill(engine: Engine, runtime: RuntimeVolume, image: str, report: ProgressReport) -> None:
    """Fill the volume, unless it is complete.

    Raises:
        BackendError: the engine refuses.
    """
    holder = await _lock(engine, runtime, image)
    try:
        if not await _is_complete(engine, holder):
            report.status(
                RuntimeStatus.BUILDING_RUNTIME, "Giving the runtime to the engine. This is done once."
            )
            await _put(engine, holder, _read(runtime.bundle, report))
            await _put(engine, holder, _link())
    except EngineRefused as error:
        raise BackendError(f"The runtime cannot be given to the engine: {error}") from error
    finally:
        await finish(_unlock(engine, holder))


async def _lock(engine: Engine, runtime: RuntimeVolume, image: str) -> str:
    """Create the container that is the lock, as soon as there is no other; its id."""
    name = f"{FILLER_PREFIX}{runtime.digest[:16]}"
    config = {
        "Image": image,
        "Entrypoint": [STARTER],
        "Labels": {FILLING: runtime.volume, OWNER: owners.this_process()},
        "HostConfig": {"Mounts": [runtime.mount(is_read_only=False)]},
    }
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            return await undoable(create(engine, name, config), lambda made: _unlock(engine, made))
        except BoxExists:
            if asyncio.get_running_loop().time() > deadline or await _is_left(engine, name):
                await _unlock(engine, name)
            else:
                await asyncio.sleep(_LOOK)


async def _is_left(engine: Engine, name: str) -> bool:
    """Whether the client that holds the lock is gone."""
    try:
        holder = await inspect(engine, name)
    except EngineRefused:
        return False  # released, or not created yet
    return owners.is_gone(holder.labels.get(OWNER, "")) is True


async def _unlock(engine: Engine, holder: str) -> None:
    with contextlib.suppress(EngineRefused):  # it is removed already
        await engine.request("DELETE", f"/containers/{holder}", query={"force": "1"})


async def _is_complete(engine: Engine, holder: str) -> bool:
    try:
        await engine.request("HEAD", f"/containers/{holder}/archive", query={"path": STARTER})
    except EngineRefused as error:
        if error.status_code == 404:
            return False
        raise
    return True


async def _put(engine: Engine, holder: str, archive: AsyncIterator[bytes] | bytes) -> None:
    path = f"/containers/{holder}/archive"
    async with engine.stream(
        "PUT", path, query={"path": HOME}, data=archive, kind="application/x-tar"
    ) as answer:
        await answer.read()


async def _read(bundle: str, report: ProgressReport) -> AsyncIterator[bytes]:
    """A bundle in pieces, with progress."""
    with await asyncio.to_thread(open, bundle, "rb") as file:
        total, done = os.fstat(file.fileno()).st_size, 0
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
            done += len(piece)
            report.progress("runtime", done, total)


def _link() -> bytes:
    """An archive with only the starter."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        link = tarfile.TarInfo(Path(STARTER).name)
        link.type, link.linkname, link.mode = tarfile.SYMTYPE, "bin/glovebox", 0o777
        tar.addfile(link)
    return archive.getvalue()
