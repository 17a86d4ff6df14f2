"""The configuration of a container for a spec, its labels, and the box that these describe."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from typing import Any

from glovebox.backends import owners
from glovebox.backends.docker.engine import Engine
from glovebox.backends.docker.mounts import Mounts
from glovebox.backends.startup import serve_arguments
from glovebox.client.backend import BoxInfo, State
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadSpec, NotSupported
from glovebox.protocol.base import Message

#: The directory of every runtime; it cannot be moved.
HOME = "/opt/glovebox"
#: The ports of the API and of VS Code in a box.
API_PORT = 60000
VSCODE_PORT = 60001
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
#: The name of the image, as given.
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


class ContainerPlan(Message):
    """What the start of a box needs besides its spec."""

    name: str
    key: str
    image: str
    #: The program that serves, with its path in the box.
    program: str
    mounts: Mounts
    #: The ports of the API and of VS Code, as the box sees them.
    api_port: int = API_PORT
    vscode_port: int = VSCODE_PORT

    @property
    def container(self) -> str:
        """The name of the container."""
        return PREFIX + self.name


def check(spec: BoxSpec, *, is_remote: bool, is_podman: bool) -> None:
    """Refuse what no container can do.

    Raises:
        BadSpec: something is wrong; the text says what.
        NotSupported: this engine cannot.
    """
    if spec.runtime and is_podman:
        # Podman would silently use its own, which may isolate less.
        raise NotSupported(
            f"Podman's clients cannot choose a runtime. Start its service with --runtime {spec.runtime}."
        )
    if spec.isolation:
        raise BadSpec(f"A container is isolated by itself; isolation={spec.isolation!r} is for processes.")
    if spec.network == "none":
        raise BadSpec(
            "A box without a network cannot be reached. Use a network that is internal to the engine."
        )
    try:
        address = ipaddress.ip_address(spec.publish_address)
    except ValueError as error:
        raise BadSpec(f"publish_address has to be an IP address: {error}.") from error
    if is_remote and address.is_loopback:
        raise BadSpec(
            f"The engine runs on another machine, where {address} cannot be reached from here: set "
            "publish_address to one of its addresses, or to 0.0.0.0 for all of them. The box has a key."
        )
    taken = sorted({API_PORT, VSCODE_PORT} & spec.ports.keys())
    if taken:
        raise BadSpec(f"The ports {API_PORT} and {VSCODE_PORT} of a box are its own; {taken} cannot be had.")
    if reserved := [label for label in spec.labels if label.startswith(PROJECT_LABELS)]:
        raise BadSpec(
            f"Labels that begin with {PROJECT_LABELS} are the project's own: {', '.join(reserved)}."
        )


def container_config(spec: BoxSpec, plan: ContainerPlan) -> dict[str, Any]:
    """The body of `POST /containers/create`."""
    is_host = spec.network == "host"
    arguments = serve_arguments(
        spec,
        port=plan.api_port,
        host=spec.publish_address if is_host else "0.0.0.0",
        workspace=spec.workspace_in_box,
    )
    published = {} if is_host else _published(spec)
    return {
        "Image": plan.image,
        # Not empty: Podman would use that of the image.
        "Entrypoint": [plan.program],
        "Cmd": arguments,
        # The box makes users and gives them the workspace, whatever user the image would have.
        "User": "0",
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        "Env": [f"{name}={value}" for name, value in _environment(spec, plan).items()],
        "Labels": _labels(spec, plan),
        "ExposedPorts": {port: {} for port in published},
        "HostConfig": {
            "PortBindings": published,
            "Binds": list(plan.mounts.binds),
            "Mounts": list(plan.mounts.mounts),
            **_limits(spec),
            **({"NetworkMode": spec.network} if spec.network else {}),
            **({"Runtime": spec.runtime} if spec.runtime else {}),
        },
    }


def _environment(spec: BoxSpec, plan: ContainerPlan) -> Mapping[str, str]:
    """The environment of the box; its own variables cannot be replaced."""
    variables = dict(spec.env)
    variables |= {f"APP_PORT_{number}": str(port) for number, port in enumerate(list(spec.ports)[:2], 1)}
    return variables | {
        "port": str(plan.api_port),
        "VSCODE_PORT": str(plan.vscode_port),
        "PYTHONUNBUFFERED": "1",
        "SESSION_API_KEY": plan.key,
    }


def _labels(spec: BoxSpec, plan: ContainerPlan) -> Mapping[str, str]:
    """The labels by which a box is found and described."""
    own = (spec.publish_address, plan.api_port, plan.vscode_port, *spec.ports)
    return dict(spec.labels) | {
        BOX: plan.name,
        OWNER: owners.this_process(),
        KEEP: "true" if spec.keep else "false",
        CREATED: f"{time.time():.3f}",
        WORKSPACE: spec.workspace_in_box,
        IMAGE: plan.image,
        LAYERS: plan.mounts.layers,
        HOST_PORTS: " ".join(map(str, own)) if spec.network == "host" else "",
    }


def _published(spec: BoxSpec) -> dict[str, list[dict[str, str]]]:
    """Ports of the box and of the host; the engine chooses those that are left open."""
    wanted = {API_PORT: spec.port}
    if "vscode" in spec.plugins:
        wanted[VSCODE_PORT] = 0
    wanted |= spec.ports
    return {
        f"{inside}/tcp": [{"HostIp": spec.publish_address, "HostPort": str(outside) if outside else ""}]
        for inside, outside in wanted.items()
    }


def _limits(spec: BoxSpec) -> dict[str, int]:
    limits: dict[str, int] = {}
    if spec.memory is not None:
        # Without swap, which would let it use more.
        limits |= {"Memory": spec.memory, "MemorySwap": spec.memory}
    if spec.cpus is not None:
        limits["NanoCpus"] = round(spec.cpus * 1e9)
    if spec.pids is not None:
        limits["PidsLimit"] = spec.pids
    return limits


def state_of(status: str) -> State:
    """The state of a box for the state of its container."""
    return _STATES.get(status, "missing")


def box_info(labels: Mapping[str, str], state: State, url: str) -> BoxInfo:
    """The box that labels describe."""
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
    """The ports of a box in the host's network, with address and port."""
    address, *ports = labels.get(HOST_PORTS, "").split() or [""]
    return {int(port): (address, port) for port in ports if port.isdigit()}


def published_url(engine: Engine, address: str, port: str) -> str:
    """The URL of a published port, as seen from here."""
    host = address or "0.0.0.0"
    if (parsed := ipaddress.ip_address(host)).is_unspecified or parsed.is_loopback:
        own = "::1" if parsed.version == 6 else "127.0.0.1"
        host = engine.host or (own if parsed.is_unspecified else host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
