"""The box that a configuration of OpenHands describes: its spec and its ports."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from glovebox.client.connection.http import is_loopback
from glovebox.client.spec import NAME, STAY, BoxSpec, Mount, parse_volumes
from glovebox.errors import NotSupported
from glovebox.integrations.openhands.api import (
    RUNTIME_UID,
    RUNTIME_USERNAME,
    OpenHandsConfig,
    find_available_tcp_port,
)

PREFIX = "oh-"
#: Backends whose boxes have no file system, user or network of their own to configure.
WITHOUT_IMAGE = frozenset({"process", "remote"})
#: The backend whose boxes are windows of their users.
WINDOWS = "vscode"
#: The name of the agent that users of windows see.
AGENT = "OpenHands"
#: Settings that say what a box is like, which has no meaning for a window.
OF_BOXES = (
    "base_container_image", "runtime_container_image", "use_host_network", "additional_networks",
    "remote_runtime_class", "vscode_port", "enable_gpu", "docker_runtime_kwargs", "runtime_extra_deps",
)  # fmt: skip
CONTAINER_RUNTIMES = {"gvisor": "runsc", "sysbox": "sysbox-runc"}

VSCODE_LABEL = "openhands.vscode_port"
APPS_LABEL = "openhands.app_ports"
#: The ranges of OpenHands.
VSCODE_RANGE = (40000, 49999)
APP_RANGES = ((50000, 54999), (55000, 59999))


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a box that its user can open; 0 and none if unknown."""

    vscode: int = 0
    apps: tuple[int, ...] = ()
    #: Whether the box has VS Code, and its port on the host, 0 for any.
    with_vscode: bool = False
    vscode_on_host: int = 0

    @classmethod
    def free(cls, config: OpenHandsConfig, *, with_vscode: bool) -> Ports:
        """Unused ports: a box without a network of its own shares them with the machine."""
        wanted = config.sandbox.vscode_port or 0
        return cls(
            vscode=wanted or find_available_tcp_port(*VSCODE_RANGE),
            apps=tuple(find_available_tcp_port(*limits) for limits in APP_RANGES),
            with_vscode=with_vscode,
            vscode_on_host=wanted,
        )

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Ports:
        """The ports of an existing box."""
        apps = labels.get(APPS_LABEL, "")
        return cls(
            vscode=int(labels.get(VSCODE_LABEL, "0")),
            apps=tuple(int(port) for port in apps.split(",") if port),
        )

    @property
    def published(self) -> dict[int, int]:
        """The ports that a container publishes."""
        vscode = {self.vscode: self.vscode_on_host} if self.with_vscode else {}
        return {**vscode, **dict.fromkeys(self.apps, 0)}

    @property
    def environment(self) -> dict[str, str]:
        """The ports as variables for programs in the box."""
        apps = {f"APP_PORT_{number}": str(port) for number, port in enumerate(self.apps, 1)}
        return {"VSCODE_PORT": str(self.vscode), **apps}

    @property
    def labels(self) -> dict[str, str]:
        """The ports as labels, for clients that attach later."""
        return {VSCODE_LABEL: str(self.vscode), APPS_LABEL: ",".join(map(str, self.apps))}


def box_name(sid: str) -> str:
    """The name of the box of a conversation, unique and always the same."""
    if NAME.fullmatch(name := PREFIX + sid):
        return name
    digest = hashlib.sha256(sid.encode()).hexdigest()[:12]
    return f"{PREFIX}{re.sub(r'[^a-zA-Z0-9_.-]', '-', sid)[:40]}-{digest}"


def box_spec(
    config: OpenHandsConfig,
    *,
    sid: str,
    backend: str,
    plugins: tuple[str, ...],
    env: Mapping[str, str],
    ports: Ports,
    keep: bool,
) -> BoxSpec:
    """The spec of the box of a conversation.

    Raises:
        BadSpec: the configuration is not valid.
        NotSupported: no box can do what it says.
    """
    sandbox = config.sandbox
    own = backend not in WITHOUT_IMAGE
    if own:
        _refuse(config)
    workspace, volumes = _mounts(config)
    return BoxSpec(
        name=box_name(sid),
        image=(sandbox.runtime_container_image or sandbox.base_container_image or "") if own else "",
        workspace=workspace,
        workspace_in_box=config.workspace_mount_path_in_sandbox,
        volumes=volumes,
        env=_environment(config, sid, env, ports),
        plugins=plugins,
        browser=config.enable_browser,
        user=_user(config) if own else "",
        user_id=_user_id(config) if own else 1000,
        arguments=_arguments(config, in_container=own),
        network="host" if own and sandbox.use_host_network else "",
        networks=tuple(sandbox.additional_networks) if own else (),
        runtime=CONTAINER_RUNTIMES.get(sandbox.remote_runtime_class or "", "") if own else "",
        ports=ports.published if own and not sandbox.use_host_network else {},
        publish_address=_publish_address(config),
        labels={"openhands.sid": sid, **ports.labels},
        keep=keep,
        start_limit=float(sandbox.remote_runtime_init_timeout),
    )


def window_spec(config: OpenHandsConfig, *, sid: str, env: Mapping[str, str], keep: bool) -> BoxSpec:
    """The spec of the VS Code window of a conversation: the one with the workspace, as its user has it.

    Raises:
        BadSpec: the configuration is not valid.
        NotSupported: a window cannot do what it says.
    """
    workspace, volumes = _mounts(config)
    if volumes:
        places = ", ".join(mount.target for mount in volumes)
        raise NotSupported(
            f"sandbox.volumes ({places}): nothing is mounted into a VS Code window, it has its user's files. "
            "Leave them out; the one at the path of the workspace chooses the window."
        )
    if config.sandbox.browsergym_eval_env is not None:
        raise NotSupported("sandbox.browsergym_eval_env: evaluations need a box of another backend.")
    variables = {**env, **config.sandbox.runtime_startup_env_vars}
    return BoxSpec(
        workspace=workspace,
        env={name.upper(): value for name, value in variables.items()},
        agent=AGENT,
        labels={STAY: box_name(sid)},
        keep=keep,
        start_limit=float(config.sandbox.remote_runtime_init_timeout),
    )


def ignored_settings(config: OpenHandsConfig, backend: str) -> list[str]:
    """Settings that have another value than OpenHands gives them, and no effect on a box."""
    names = ["force_rebuild_runtime", "runtime_extra_build_args", "platform", "rm_all_containers"]
    names += OF_BOXES if backend == WINDOWS else ()
    sandbox = config.sandbox
    defaults = type(sandbox)()
    return [f"sandbox.{name}" for name in names if getattr(sandbox, name) != getattr(defaults, name)]


def _refuse(config: OpenHandsConfig) -> None:
    sandbox = config.sandbox
    if sandbox.enable_gpu:
        raise NotSupported("sandbox.enable_gpu: boxes get no GPUs. Set it to false.")
    if sandbox.docker_runtime_kwargs:
        given = ", ".join(sorted(sandbox.docker_runtime_kwargs))
        raise NotSupported(
            f"sandbox.docker_runtime_kwargs ({given}) is not handed on to the container engine. Remove it; "
            "networks, volumes and the container runtime have settings of their own."
        )
    if sandbox.runtime_extra_deps:
        raise NotSupported(
            "sandbox.runtime_extra_deps: no image is built. Put these commands into a Dockerfile of yours, "
            "and name the image in sandbox.base_container_image."
        )


def _mounts(config: OpenHandsConfig) -> tuple[str, tuple[Mount, ...]]:
    """The directory that is the workspace, and all other mounts."""
    if config.sandbox.volumes is None:
        workspace = config.workspace_mount_path or config.workspace_base
        return (os.path.abspath(workspace) if workspace else ""), ()
    mounts = parse_volumes(config.sandbox.volumes)
    at_workspace = [
        mount
        for mount in mounts
        if mount.target == config.workspace_mount_path_in_sandbox and mount.is_bind and mount.mode == "rw"
    ]
    if not at_workspace:
        return "", mounts
    return at_workspace[0].source, tuple(mount for mount in mounts if mount is not at_workspace[0])


def _environment(config: OpenHandsConfig, sid: str, env: Mapping[str, str], ports: Ports) -> dict[str, str]:
    return {
        **env,
        **ports.environment,
        "PYTHONUNBUFFERED": "1",
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "OPENHANDS_SESSION_ID": sid,
        **({"DEBUG": "true"} if config.debug else {}),
        **config.sandbox.runtime_startup_env_vars,
    }


def _user(config: OpenHandsConfig) -> str:
    return RUNTIME_USERNAME or ("openhands" if config.run_as_openhands else "root")


def _user_id(config: OpenHandsConfig) -> int:
    return int(RUNTIME_UID or (1000 if config.run_as_openhands else 0))


def _arguments(config: OpenHandsConfig, *, in_container: bool) -> tuple[str, ...]:
    """In its containers, OpenHands lets the agent's user become root."""
    sudo = ("--sudo",) if in_container else ()
    wanted = config.sandbox.browsergym_eval_env
    return (*sudo, "--browsergym-eval-env", *wanted.split(" ")) if wanted is not None else sudo


def _publish_address(config: OpenHandsConfig) -> str:
    """Loopback, unless OpenHands runs elsewhere or the configuration names an interface."""
    wanted = config.sandbox.runtime_binding_address
    everywhere = wanted in ("", "0.0.0.0")  # the default of OpenHands
    return "127.0.0.1" if everywhere and is_loopback(config.sandbox.local_runtime_url) else wanted
