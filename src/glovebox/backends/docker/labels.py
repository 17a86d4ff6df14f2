"""What is written on a container, and what it says of the box in it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from glovebox.backends.docker.engine import Engine
from glovebox.client.backend import BoxInfo, State

BACKEND = "docker"
#: The names of containers begin with it.
PREFIX = "glovebox-"
#: Labels that begin with this are the project's own.
PROJECT_LABELS = "glovebox."
BOX = "glovebox.box"
OWNER = "glovebox.owner"
KEEP = "glovebox.keep"
CREATED = "glovebox.created"
WORKSPACE = "glovebox.workspace"
#: The image, by the name that was asked for.
IMAGE = "glovebox.image"
#: The directory of the layers of overlay mounts.
LAYERS = "glovebox.layers"
#: In the host's network: the address and the ports that the box listens on.
HOST_PORTS = "glovebox.host-ports"

#: States as Docker and Podman name them.
_STATES: Mapping[str, State] = {
    "created": "starting",
    "configured": "starting",
    "initialized": "starting",
    "restarting": "starting",
    "running": "running",
    "paused": "paused",
    "exited": "stopped",
    "stopped": "stopped",
    "dead": "stopped",
}


def state_of(status: str) -> State:
    """The state of a box whose container is in a state of the engine."""
    return _STATES.get(status, "missing")


def box_info(labels: Mapping[str, str], state: State, url: str) -> BoxInfo:
    """A box, as it is listed."""
    created = labels.get(CREATED, "")
    return BoxInfo(
        name=labels.get(BOX, ""),
        backend=BACKEND,
        state=state,
        url=url if state == "running" else "",
        image=labels.get(IMAGE, ""),
        workspace=labels.get(WORKSPACE, ""),
        created=float(created) if created.replace(".", "", 1).isdigit() else 0.0,
        keep=labels.get(KEEP) == "true",
        labels={name: text for name, text in labels.items() if not name.startswith(PROJECT_LABELS)},
    )


def host_ports(labels: Mapping[str, str]) -> dict[int, tuple[str, str]]:
    """The ports of a box in the host's own network, and where they are."""
    address, *ports = labels.get(HOST_PORTS, "").split() or [""]
    return {int(port): (address, port) for port in ports if port.isdigit()}


def reached(engine: Engine, address: str, port: str) -> str:
    """The URL by which a published port is reached from here."""
    host = address or "0.0.0.0"
    if (parsed := ipaddress.ip_address(host)).is_unspecified or parsed.is_loopback:
        own = "::1" if parsed.version == 6 else "127.0.0.1"
        host = engine.host or (own if parsed.is_unspecified else host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
