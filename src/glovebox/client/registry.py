"""Backends by name or by the address of a box: the project's own, and those of other packages.

The one place that knows which names there are, and which backend is used if none is named.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
from contextlib import AsyncExitStack
from typing import Any, Protocol

from glovebox.client.backend import Backend, BoxInfo, ProgressReport
from glovebox.client.spec import BoxSpec
from glovebox.errors import BackendError, BadSpec, EngineUnavailable, NoSuchBackend, NoSuchBox
from glovebox.settings.host import HostSettings

log = logging.getLogger(__name__)

GROUP = "glovebox.backends"
#: Fields of a spec that only containers have.
CONTAINERS_ONLY = ("image", "build", "network", "networks", "runtime", "memory", "cpus", "pids")
#: Known without reading the metadata of installed packages, which takes time.
OWN = {
    "process": "glovebox.backends.process.backend:ProcessBackend",
    "docker": "glovebox.backends.docker.backend:DockerBackend",
    "remote": "glovebox.backends.remote:RemoteBackend",
    "vscode": "glovebox.backends.vscode:VSCodeBackend",
}


def names() -> list[str]:
    """The names of all backends, those of other packages included."""
    return sorted({*OWN, *_foreign()})


def is_address(name: str) -> bool:
    """Whether a name of a box or a backend is the address of a box instead."""
    return name.startswith(("http://", "https://"))


def resolve(name: str, settings: HostSettings) -> tuple[str, HostSettings]:
    """The name and the settings of the backend for a name or the address of a box.

    Raises:
        BadSpec: the address is not complete.
    """
    if not is_address(name):
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
    backend: Backend = _load(name)(settings)
    return backend


def _load(name: str) -> Any:
    """The class of a backend."""
    where = OWN.get(name) or _foreign().get(name)
    if where is None:
        raise NoSuchBackend(
            f"No backend is called {name!r}. There are: {', '.join(names())}. The address of a box "
            "(http://... or https://...) will do, too."
        )
    module, _, attribute = where.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise BackendError(
            f"The backend {name!r} needs {error.name!r}, which is not installed here."
        ) from error
    except (ImportError, AttributeError) as error:
        raise BackendError(f"The backend {name!r} cannot be loaded: {error}") from error


async def choose(name: str, settings: HostSettings, spec: BoxSpec, report: ProgressReport) -> Backend:
    """The backend for a new box: the named one, that of GLOVEBOX_BACKEND, or the default one for this spec.

    Raises:
        NoSuchBackend: there is none of that name.
        BackendError: it cannot be loaded here.
    """
    if name or settings.backend:
        return open_backend(name or settings.backend, settings)
    wants_container = any(getattr(spec, field) for field in CONTAINERS_ONLY)
    if wants_container or (settings.image and not spec.isolation):
        return open_backend("docker", settings)
    if spec.isolation:
        return open_backend("process", settings)
    return await open_default(settings, report)


class _Containers(Backend, Protocol):
    async def find_problem(self, report: ProgressReport, *, with_image: bool) -> str: ...


#: Why there are no containers, by engine and by whether an image is needed; found out once in a process.
_problems: dict[tuple[str, str, bool], str] = {}


async def open_default(settings: HostSettings, report: ProgressReport, *, with_image: bool = True) -> Backend:
    """Containers if an engine answers and has or gets an image, else processes, which bubblewrap isolates.

    Without `with_image`, the caller has an image of its own. GLOVEBOX_ISOLATION asks for processes.

    Raises:
        BackendError: the backend docker cannot be loaded.
    """
    if settings.isolation:
        return open_backend("process", settings)
    containers: _Containers = _load("docker")(settings)
    engine = (settings.engine, str(settings.home), with_image)
    async with AsyncExitStack() as unused:
        unused.push_async_callback(containers.close)
        if engine not in _problems:
            _problems[engine] = await containers.find_problem(report, with_image=with_image)
        if not _problems[engine]:
            unused.pop_all()
            return containers
    processes: Backend = _load("process")(settings, _problems[engine])
    return processes


async def find(name: str, settings: HostSettings, box: str) -> Backend:
    """The backend of an existing box: the named one, that of GLOVEBOX_BACKEND, or the first that has it.

    Raises:
        NoSuchBox: no backend was named, and neither processes nor containers have it.
    """
    if name or settings.backend:
        return open_backend(name or settings.backend, settings)
    for place in ("process", "docker"):
        backend = open_backend(place, settings)
        try:
            await backend.attach(box)
        except (NoSuchBox, EngineUnavailable):
            await backend.close()
        else:
            return backend
    raise NoSuchBox(f"There is no box {box!r}.")


async def list_boxes(name: str, settings: HostSettings) -> list[BoxInfo]:
    """The boxes of the named backend, or of all of them, oldest first.

    Raises:
        BackendError: the named backend cannot list them.
    """
    places = [name] if name else [place for place in names() if place != "remote" or settings.url]
    found: list[BoxInfo] = []
    for place in places:
        backend = open_backend(place, settings)
        try:
            found += await backend.boxes()
        except BackendError as error:
            if name:
                raise
            if not isinstance(error, EngineUnavailable):
                log.warning("The boxes of the backend %s are not listed: %s", place, error)
        finally:
            await backend.close()
    return sorted(found, key=lambda info: info.created)


def _foreign() -> dict[str, str]:
    from importlib.metadata import entry_points  # it takes longer to load than all callers of this module

    found = entry_points(group=GROUP)
    return {entry.name: entry.value for entry in found if entry.name not in OWN}
