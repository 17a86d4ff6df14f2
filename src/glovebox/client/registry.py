"""Backends by name or by the address of a box: the project's own, and those of other packages.

The one place that knows which names there are, and which backend is used if none is named.
"""

from __future__ import annotations

import dataclasses
import importlib

from glovebox.client.backend import Backend
from glovebox.errors import BackendError, BadSpec, EngineUnavailable, NoSuchBackend
from glovebox.settings.host import HostSettings

GROUP = "glovebox.backends"
DEFAULT = "process"
#: Known without reading the metadata of installed packages, which takes time.
OWN = {
    "process": "glovebox.backends.process.backend:ProcessBackend",
    "docker": "glovebox.backends.docker.backend:DockerBackend",
    "remote": "glovebox.backends.remote:RemoteBackend",
    "vscode": "glovebox.backends.vscode:VSCodeBackend",
}


def names() -> list[str]:
    """Every installed backend."""
    return sorted({*OWN, *_foreign()})


def resolve(name: str, settings: HostSettings) -> tuple[str, HostSettings]:
    """The name and the settings of the backend for a name or the address of a box.

    Raises:
        BadSpec: the address is not complete.
    """
    if not name.startswith(("http://", "https://")):
        return name, settings
    if not name.partition("://")[2].strip("/"):
        raise BadSpec(f"{name!r} is not the address of a box.")
    return "remote", dataclasses.replace(settings, url=name)


def open_backend(name: str, settings: HostSettings) -> Backend:
    """The backend of a name or the address of a box.

    Raises:
        NoSuchBackend: there is none.
        BackendError: it cannot be loaded here.
    """
    name, settings = resolve(name, settings)
    where = OWN.get(name) or _foreign().get(name)
    if where is None:
        raise NoSuchBackend(
            f"No backend is called {name!r}. There are: {', '.join(names())}. The address of a box "
            "(http://... or https://...) will do, too."
        )
    module, _, attribute = where.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise BackendError(
            f"The backend {name!r} needs {error.name!r}, which is not installed here."
        ) from error
    except (ImportError, AttributeError) as error:
        raise BackendError(f"The backend {name!r} cannot be loaded: {error}") from error
    backend: Backend = kind(settings)
    return backend


async def open_default(settings: HostSettings) -> tuple[Backend, EngineUnavailable | None]:
    """Containers if an engine answers, else processes, with the reason why there are no containers.

    Raises:
        BackendError: the backend docker cannot be loaded.
    """
    backend = open_backend("docker", settings)
    try:
        await backend.boxes()
    except EngineUnavailable as reason:
        await backend.close()
        return open_backend("process", settings), reason
    return backend, None


def _foreign() -> dict[str, str]:
    from importlib.metadata import entry_points  # it takes longer to load than all callers of this module

    found = entry_points(group=GROUP)
    return {entry.name: entry.value for entry in found if entry.name not in OWN}
