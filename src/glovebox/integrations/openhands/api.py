"""Everything that this package imports from OpenHands, and the part of its configuration that is used."""

from __future__ import annotations

from typing import Any, Protocol

from httpx import Client as http_client
from httpx import NetworkError
from openhands.core.exceptions import (
    AgentRuntimeBuildError,
    AgentRuntimeDisconnectedError,
    AgentRuntimeError,
    AgentRuntimeNotFoundError,
    AgentRuntimeNotReadyError,
    AgentRuntimeTimeoutError,
    AgentRuntimeUnavailableError,
)
from openhands.events.action import CmdRunAction, IPythonRunCellAction
from openhands.events.observation import ErrorObservation
from openhands.runtime.impl.action_execution.action_execution_client import ActionExecutionClient
from openhands.runtime.runtime_status import RuntimeStatus
from openhands.runtime.utils import find_available_tcp_port
from openhands.runtime.utils.command import RUNTIME_UID, RUNTIME_USERNAME
from openhands.runtime.utils.request import RequestHTTPError
from openhands.utils.http_session import HttpSession

__all__ = [
    "RUNTIME_UID", "RUNTIME_USERNAME", "ActionExecutionClient", "AgentRuntimeBuildError",
    "AgentRuntimeDisconnectedError", "AgentRuntimeError", "AgentRuntimeNotFoundError",
    "AgentRuntimeNotReadyError", "AgentRuntimeTimeoutError", "AgentRuntimeUnavailableError", "CmdRunAction",
    "ErrorObservation", "HttpSession", "IPythonRunCellAction", "NetworkError", "OpenHandsConfig",
    "RequestHTTPError", "RuntimeStatus", "SandboxConfig", "find_available_tcp_port", "http_client",
]  # fmt: skip


class SandboxConfig(Protocol):
    """The section `sandbox` of the configuration."""

    local_runtime_url: str
    keep_runtime_alive: bool
    pause_closed_runtimes: bool
    rm_all_containers: bool
    base_container_image: str | None
    runtime_container_image: str | None
    remote_runtime_init_timeout: int
    remote_runtime_class: str | None
    use_host_network: bool
    additional_networks: list[str]
    runtime_binding_address: str
    runtime_extra_build_args: list[str] | None
    force_rebuild_runtime: bool
    runtime_extra_deps: str | None
    runtime_startup_env_vars: dict[str, str]
    browsergym_eval_env: str | None
    platform: str | None
    enable_gpu: bool
    docker_runtime_kwargs: dict[str, Any] | None
    vscode_port: int | None
    volumes: str | None


class Mcp(Protocol):
    """The section `mcp` of the configuration."""

    sse_servers: list[Any]

    def model_copy(self) -> Any: ...


class OpenHandsConfig(Protocol):
    """The configuration."""

    sandbox: SandboxConfig
    mcp: Mcp
    enable_browser: bool
    run_as_openhands: bool
    debug: bool
    workspace_base: str | None
    workspace_mount_path: str | None
    workspace_mount_path_in_sandbox: str
