"""Finds backends by their name: the project's own, and those that other packages bring."""

from __future__ import annotations

import importlib

from glovebox.client.backend import Backend
from glovebox.errors import BackendError, NoSuchBackend
from glovebox.settings.host import HostSettings

GROUP = "glovebox.backends"
DEFAULT = "process"
#: Known without looking into installed packages, which takes its time.
OWN = {
    "process": "glovebox.backends.process.backend:ProcessBackend",
    "docker": "glovebox.backends.docker.backend:DockerBackend",
    "remote": "glovebox.backends.remote:RemoteBackend",
    "vscode": "glovebox.backends.vscode:VSCodeBackend",
}


def names() -> list[str]:
    """Every backend there is."""
    return sorted({*OWN, *_foreign()})


def backend(name: str, settings: HostSettings) -> Backend:
    """A backend of that name.

    Raises:
        NoSuchBackend: there is none.
        BackendError: it cannot be loaded here.
    """
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
    made: Backend = kind(settings)
    return made


def _foreign() -> dict[str, str]:
    from importlib.metadata import entry_points  # it takes longer to load than all of this module's callers

    found = entry_points(group=GROUP)
    return {entry.name: entry.value for entry in found if entry.name not in OWN}
