"""The settings of the host's side, all from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Variables of the host that OpenHands hands on to commands, without this prefix.
SANDBOX_PREFIX = "SANDBOX_ENV_"

#: Below the state directory: where a hub leaves its address and its key for its user's programs.
HUB_FILE = "hub/address.json"


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Where boxes are started, and with what."""

    #: GLOVEBOX_BACKEND: where boxes live unless something else is said.
    backend: str
    #: GLOVEBOX_ISOLATION: what isolates processes whose spec does not say it, `bubblewrap` or `none`.
    isolation: str
    #: GLOVEBOX_URL and SESSION_API_KEY: the box that the backend `remote` means.
    url: str
    key: str
    #: GLOVEBOX_HUB_URL and GLOVEBOX_HUB_KEY: the hub that VS Code windows connect to. Empty for the one of
    #: this machine, which has left its address and its key in `hub_file`.
    hub_url: str
    hub_key: str
    hub_file: Path
    #: GLOVEBOX_IMAGE: the image of containers for which none is named.
    image: str
    #: GLOVEBOX_BUNDLE: the runtime that is put into images, as a file that `glovebox bundle` made.
    bundle: str
    #: DOCKER_HOST, or CONTAINER_HOST: the socket of Docker or Podman.
    engine: str
    #: What is kept between calls (XDG_STATE_HOME), and what can be made again (XDG_CACHE_HOME).
    state: Path
    cache: Path
    #: SANDBOX_ENV_*: what commands find in their environment, without the prefix.
    sandbox_env: Mapping[str, str]
    #: SANDBOX_VOLUME_OVERLAYS: where the layers of overlay mounts are kept.
    overlays: str
    home: Path
    #: What a process that is started inherits.
    environment: Mapping[str, str]


def load(environ: Mapping[str, str] | None = None) -> HostSettings:
    """The settings that this environment amounts to."""
    environ = os.environ if environ is None else environ  # noqa: TID251
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    state = Path(environ.get("XDG_STATE_HOME") or home / ".local/state") / "glovebox"
    return HostSettings(
        backend=environ.get("GLOVEBOX_BACKEND", ""),
        isolation=environ.get("GLOVEBOX_ISOLATION", ""),
        url=environ.get("GLOVEBOX_URL", ""),
        key=environ.get("SESSION_API_KEY", ""),
        hub_url=environ.get("GLOVEBOX_HUB_URL", ""),
        hub_key=environ.get("GLOVEBOX_HUB_KEY", ""),
        hub_file=state / HUB_FILE,
        image=environ.get("GLOVEBOX_IMAGE", ""),
        bundle=environ.get("GLOVEBOX_BUNDLE", ""),
        engine=environ.get("DOCKER_HOST") or environ.get("CONTAINER_HOST") or "",
        state=state,
        cache=Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "glovebox",
        sandbox_env={
            name.removeprefix(SANDBOX_PREFIX): value
            for name, value in environ.items()
            if name.startswith(SANDBOX_PREFIX)
        },
        overlays=environ.get("SANDBOX_VOLUME_OVERLAYS", ""),
        home=home,
        environment=dict(environ),
    )
