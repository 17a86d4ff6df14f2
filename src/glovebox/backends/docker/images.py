"""The image that a box is made from: chosen, pulled if it is missing, and looked at."""

from __future__ import annotations

import logging
from urllib.parse import quote

from glovebox.backends.docker import wire
from glovebox.backends.docker.building import build
from glovebox.backends.docker.engine import Engine, EngineRefused
from glovebox.client.backend import Report, RuntimeStatus
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadImage, BadSpec
from glovebox.settings.host import HostSettings

log = logging.getLogger(__name__)

#: The project's own image, if somebody has built it, and what is used without it.
OWN_IMAGE = "glovebox:latest"
PLAIN_IMAGE = "debian:stable-slim"
#: How an image says that it has a runtime.
RUNTIME_LABEL = "glovebox.runtime"
RUNTIME_VARIABLE = "GLOVEBOX_RUNTIME=/opt/glovebox"


def has_runtime(image: wire.Image) -> bool:
    """Whether an image brings a runtime of its own."""
    config = image.config or wire.ImageConfig()
    return RUNTIME_LABEL in (config.labels or {}) or RUNTIME_VARIABLE in (config.env or ())


async def prepared(
    engine: Engine, settings: HostSettings, spec: BoxSpec, report: Report
) -> tuple[str, wire.Image]:
    """The image for a box, by name and as the engine has it.

    Raises:
        BadImage: it cannot be had, or no box runs in it.
    """
    if spec.build and spec.image:
        raise BadSpec("A box has either an image or a directory to build one from, not both.")
    if spec.build:
        name = await build(engine, spec.build, report)
        return name, _usable(name, await _inspected(engine, name))
    if name := spec.image or settings.image:
        image = await _look(engine, name)
    else:
        name, image = OWN_IMAGE, await _look(engine, OWN_IMAGE)
        if image is None:
            name, image = PLAIN_IMAGE, await _look(engine, PLAIN_IMAGE)
    if image is None:
        await _pull(engine, name, report)
        image = await _inspected(engine, name)
    return name, _usable(name, image)


async def _look(engine: Engine, name: str) -> wire.Image | None:
    """An image as the engine has it, or None if it is not there."""
    try:
        return await _inspected(engine, name)
    except EngineRefused as error:
        if error.status_code == 404:
            return None
        raise BadImage(f"The image {name!r} cannot be used: {error}") from error


async def _inspected(engine: Engine, name: str) -> wire.Image:
    return await engine.get(wire.Image, f"/images/{quote(name)}/json")


def _usable(name: str, image: wire.Image) -> wire.Image:
    if image.os and image.os != "linux":
        raise BadImage(f"The image {name} is for {image.os}; boxes need one for Linux.")
    if image.config and image.config.user not in ("", "0", "root", "0:0", "root:root"):
        log.info(
            "the image %s wants the user %s; the box runs as root, and commands as the spec's user",
            name,
            image.config.user,
        )
    return image


async def _pull(engine: Engine, name: str, report: Report) -> None:
    """Have the engine pull an image, and tell how many bytes of its layers are there."""
    report.status(RuntimeStatus.BUILDING_RUNTIME, f"Pulling {name}...")
    repository, tag = _parts(name)
    layers: dict[str, wire.Detail] = {}
    try:
        async for step in engine.steps("/images/create", query={"fromImage": repository, "tag": tag}):
            if step.error:
                raise _cannot_pull(engine, name, step.error)
            if step.status == "Downloading" and step.progress and step.progress.total:
                layers[step.id] = step.progress
            elif step.id in layers and step.status in ("Download complete", "Pull complete"):
                total = layers[step.id].total
                layers[step.id] = wire.Detail(current=total, total=total)
            if layers:
                done = sum(layer.current for layer in layers.values())
                report.progress("pull", done, sum(layer.total for layer in layers.values()))
    except EngineRefused as error:
        raise _cannot_pull(engine, name, str(error)) from error
    if await _look(engine, name) is None:
        raise _cannot_pull(engine, name, "the engine broke off")


def _parts(name: str) -> tuple[str, str]:
    """Repository and tag, or repository and digest."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    repository, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:  # otherwise it is the port of a registry
        return repository, tag
    return name, "latest"


def _cannot_pull(engine: Engine, name: str, words: str) -> BadImage:
    command = "podman" if engine.is_podman else "docker"
    return BadImage(
        f"The image {name} is not here and cannot be pulled: {words}\n"
        f"Is its name right, and can the engine reach its registry? Try `{command} pull {name}` (after "
        f"`{command} login`, if it is private), or choose an image that `{command} images` lists."
    )
