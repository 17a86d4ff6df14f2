"""A spec in the engine's words."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from typing import Any

from glovebox.backends import owners
from glovebox.backends.docker.labels import (
    BOX,
    CREATED,
    HOST_PORTS,
    IMAGE,
    KEEP,
    LAYERS,
    OWNER,
    PREFIX,
    PROJECT_LABELS,
    WORKSPACE,
)
from glovebox.backends.docker.mounts import Mounts
from glovebox.backends.serve_command import serve_arguments
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadSpec, NotSupported
from glovebox.protocol.base import Message

#: Where every runtime is: nothing in it can be moved.
HOME = "/opt/glovebox"
#: The ports of the API and of VS Code in a box, out of the way of what people run in it.
API_PORT = 60000
VSCODE_PORT = 60001


class ContainerPlan(Message):
    """What the start of a box has to know besides its spec."""

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
    """Find what no container can do.

    Raises:
        BadSpec: something is wrong; the text says what.
        NotSupported: this engine cannot.
    """
    if spec.runtime and is_podman:
        # It would say nothing and take its own, which may isolate less.
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
        # Not an empty one: Podman would take that of the image.
        "Entrypoint": [plan.program],
        "Cmd": arguments,
        # The box makes users and gives them the workspace, whatever user the image would have.
        "User": "0",
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        "Env": [f"{name}={value}" for name, value in environment(spec, plan).items()],
        "Labels": labels(spec, plan),
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


def environment(spec: BoxSpec, plan: ContainerPlan) -> Mapping[str, str]:
    """What the box finds in its environment. What it needs itself cannot be replaced."""
    variables = dict(spec.env)
    variables |= {f"APP_PORT_{number}": str(port) for number, port in enumerate(list(spec.ports)[:2], 1)}
    return variables | {
        "port": str(plan.api_port),
        "VSCODE_PORT": str(plan.vscode_port),
        "PYTHONUNBUFFERED": "1",
        "SESSION_API_KEY": plan.key,
    }


def labels(spec: BoxSpec, plan: ContainerPlan) -> Mapping[str, str]:
    """By what a box is found, and what is to be known of it without asking it."""
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
    """Ports of the box and of the host; the engine chooses those that nobody has chosen."""
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
        # Swap would let it use more.
        limits |= {"Memory": spec.memory, "MemorySwap": spec.memory}
    if spec.cpus is not None:
        limits["NanoCpus"] = round(spec.cpus * 1e9)
    if spec.pids is not None:
        limits["PidsLimit"] = spec.pids
    return limits
