"""What the configuration of OpenHands says about a box."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping

from glovebox.client.spec import NAME, BoxSpec, Mount, parse_volumes
from glovebox.errors import NotSupported
from glovebox.openhands.api import RUNTIME_UID, RUNTIME_USERNAME, OpenHandsConfig
from glovebox.openhands.direct import is_loopback
from glovebox.openhands.ports import Ports

PREFIX = "oh-"
#: Backends whose boxes share the machine's file system, user and network, or have those they were given.
WITHOUT_IMAGE = frozenset({"process", "remote"})
CONTAINER_RUNTIMES = {"gvisor": "runsc", "sysbox": "sysbox-runc"}


def box_name(sid: str) -> str:
    """The name of the box of a conversation; always the same, and never that of another one."""
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
    """The box that a conversation should have.

    Raises:
        BadSpec: it cannot be like that.
        NotSupported: no box can do something that is asked for.
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


def ignored(config: OpenHandsConfig) -> list[str]:
    """What the configuration says that has no meaning for a box."""
    sandbox = config.sandbox
    without_effect = {
        "force_rebuild_runtime": sandbox.force_rebuild_runtime,
        "runtime_extra_build_args": sandbox.runtime_extra_build_args,
        "platform": sandbox.platform,
        "rm_all_containers": sandbox.rm_all_containers,
    }
    return [f"sandbox.{name}" for name, value in without_effect.items() if value]


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
    """Loopback, unless OpenHands runs elsewhere or somebody has named an interface."""
    wanted = config.sandbox.runtime_binding_address
    everywhere = wanted in ("", "0.0.0.0")  # what OpenHands says if nobody has said anything
    return "127.0.0.1" if everywhere and is_loopback(config.sandbox.local_runtime_url) else wanted
