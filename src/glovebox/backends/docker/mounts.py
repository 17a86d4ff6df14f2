"""The mounts of a box: directories, volumes, and directories under an overlay."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

from glovebox.client.spec import BoxSpec, Mount
from glovebox.errors import BadSpec, NotSupported
from glovebox.protocol.base import Message

log = logging.getLogger(__name__)

_PLAIN_MODES = ("", "rw", "ro")


class Mounts(Message):
    """Mounts in the engine's form, and the directory of the layers."""

    binds: tuple[str, ...]
    mounts: tuple[dict[str, Any], ...]
    #: Empty if there are none.
    layers: str = ""


def mounts_for(spec: BoxSpec, container: str, overlays: Path, *, is_remote: bool, is_podman: bool) -> Mounts:
    """The mounts of a spec. The directories of layers are not created yet.

    Raises:
        BadSpec: a mount is not valid.
        NotSupported: an overlay, and the engine is on another machine.
    """
    binds: list[str] = []
    mounts: list[dict[str, Any]] = []
    layers = ""
    if spec.workspace:
        # The engine creates it if it is missing.
        binds.append(f"{Path(spec.workspace).absolute()}:{spec.workspace_in_box}:rw")
    for index, mount in enumerate(spec.volumes):
        if not mount.target.startswith("/"):
            raise BadSpec(f"{mount.target!r} is not a path of a box; it has to begin with a slash.")
        if _has_layer(mount):
            _check_layers(mount, is_remote=is_remote)
            layers = str(overlays / container)
            directory = overlays / container / str(index)
            if is_podman:
                options = f"O,upperdir={directory}/upper,workdir={directory}/work"
                binds.append(f"{mount.source}:{mount.target}:{options}")
            else:
                mounts.append(_overlay(mount, directory, container))
        elif mount.mode in _PLAIN_MODES or mount.is_overlay:  # a read-only overlay is a plain mount
            kind = "bind" if mount.is_bind else "volume"
            mounts.append(
                {
                    "Type": kind,
                    "Source": mount.source,
                    "Target": mount.target,
                    "ReadOnly": _is_read_only(mount),
                }
            )
        else:  # `z`, `cached`, `rslave`: options of the engine
            binds.append(f"{mount.source}:{mount.target}:{mount.mode}")
    return Mounts(binds=tuple(binds), mounts=tuple(mounts), layers=layers)


def _is_read_only(mount: Mount) -> bool:
    return "ro" in mount.mode.split(",")


def _has_layer(mount: Mount) -> bool:
    return mount.is_overlay and not _is_read_only(mount)


def _check_layers(mount: Mount, *, is_remote: bool) -> None:
    if not mount.is_bind:
        raise BadSpec(
            f"{mount.source!r} cannot be an overlay: only a directory of the host can, not a volume."
        )
    if is_remote:
        raise NotSupported(f"{mount.source} cannot be an overlay: the engine runs on another machine.")
    if any(mark in path for path in (mount.source, mount.target) for mark in ":,\\"):
        raise BadSpec(f"{mount.source} cannot be an overlay: its path has a colon, a comma or a backslash.")


def _overlay(mount: Mount, directory: Path, container: str) -> dict[str, Any]:
    """A volume without a name, removed with its container."""
    options = f"lowerdir={mount.source},upperdir={directory}/upper,workdir={directory}/work"
    return {
        "Type": "volume",
        "Target": mount.target,
        "VolumeOptions": {
            "NoCopy": True,
            "Labels": {"app": "glovebox", "role": "worker", "container": container},
            "DriverConfig": {
                "Name": "local",
                "Options": {"type": "overlay", "device": "overlay", "o": options},
            },
        },
    }


def make_layers(mounts: Mounts, spec: BoxSpec) -> None:
    """Create the directories of the layers, in place of those of an earlier box of that name.

    Raises:
        BadSpec: they cannot be created.
    """
    remove_layers(mounts.layers, Path(mounts.layers).name)
    for index, mount in enumerate(spec.volumes):
        if not _has_layer(mount):
            continue
        for part in ("upper", "work"):
            path = Path(mounts.layers) / str(index) / part
            try:
                path.mkdir(parents=True, mode=0o755)
            except OSError as error:
                raise BadSpec(
                    f"The layer over {mount.source} cannot be kept in {path}: {error.strerror}. "
                    "SANDBOX_VOLUME_OVERLAYS names another directory for it."
                ) from error


def remove_layers(layers: str, container: str) -> None:
    """Remove the layers of a container that is gone."""
    # The path comes from a label: only a directory named like the container is removed.
    if not layers or Path(layers).name != container:
        return
    try:
        shutil.rmtree(layers)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("the layers in %s cannot be removed: %s", layers, error)
