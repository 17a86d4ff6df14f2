"""Everything that this package imports from OpenHands.

OpenHands may not be installed where types are checked, so the declarations used are repeated here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from contextlib import AbstractContextManager
    from enum import Enum

    #: The user and the number that RUNTIME_USERNAME and RUNTIME_UID ask for.
    RUNTIME_USERNAME: str | None
    RUNTIME_UID: str | None

    class NetworkError(Exception):
        """A connection was refused or lost."""

    class AgentRuntimeError(Exception):
        """The root of what a runtime raises."""

    class AgentRuntimeBuildError(AgentRuntimeError):
        """An image could not be had."""

    class AgentRuntimeTimeoutError(AgentRuntimeError):
        """It took too long."""

    class AgentRuntimeUnavailableError(AgentRuntimeError):
        """There is no runtime. The web interface shows the text to its user."""

    class AgentRuntimeNotReadyError(AgentRuntimeUnavailableError):
        """Not yet."""

    class AgentRuntimeDisconnectedError(AgentRuntimeUnavailableError):
        """Not any more."""

    class AgentRuntimeNotFoundError(AgentRuntimeUnavailableError):
        """There is none of that name."""

    class RuntimeStatus(Enum):
        """How far a runtime is."""

        STARTING_RUNTIME = "STATUS$STARTING_RUNTIME"
        RUNTIME_STARTED = "STATUS$RUNTIME_STARTED"
        READY = "STATUS$READY"

    class HttpClient(Protocol):
        """A client of httpx."""

        def request(self, *args: Any, **kwargs: Any) -> Any: ...

        def stream(self, *args: Any, **kwargs: Any) -> AbstractContextManager[Any]: ...

        def close(self) -> None: ...

    def http_client(*, trust_env: bool) -> HttpClient:
        """A new client of httpx."""

    class HttpSession:
        """What a runtime sends its requests with."""

        headers: MutableMapping[str, str]

        def request(self, *args: Any, **kwargs: Any) -> Any: ...

        def stream(self, *args: Any, **kwargs: Any) -> AbstractContextManager[Any]: ...

        def close(self) -> None: ...

    def find_available_tcp_port(lowest: int, highest: int) -> int:
        """An unused port in a range."""

    class ActionExecutionClient:
        """A runtime whose actions are carried out by a server."""

        sid: str
        config: OpenHandsConfig
        plugins: list[Any]
        initial_env_vars: dict[str, str]
        attach_to_existing: bool
        vscode_enabled: bool
        session: HttpSession
        _runtime_closed: bool
        _runtime_initialized: bool

        def __init__(
            self,
            config: OpenHandsConfig,
            event_stream: Any,
            llm_registry: Any,
            sid: str,
            plugins: list[Any] | None,
            env_vars: dict[str, str] | None,
            status_callback: Callable[..., None] | None,
            attach_to_existing: bool,
            headless_mode: bool,
            user_id: str | None,
            git_provider_tokens: Any,
        ) -> None: ...

        def close(self) -> None: ...

        def log(self, level: str, message: str) -> None: ...

        def set_runtime_status(
            self, runtime_status: RuntimeStatus, msg: str = "", level: str = "info"
        ) -> None: ...

        def setup_initial_env(self) -> None: ...

        def get_vscode_token(self) -> str: ...

        def get_mcp_config(self, extra_stdio_servers: list[Any] | None = None) -> Any: ...

        def _send_action_server_request(self, method: str, url: str, **kwargs: Any) -> Any: ...

else:
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
    from openhands.runtime.impl.action_execution.action_execution_client import ActionExecutionClient
    from openhands.runtime.runtime_status import RuntimeStatus
    from openhands.runtime.utils import find_available_tcp_port
    from openhands.runtime.utils.command import RUNTIME_UID, RUNTIME_USERNAME
    from openhands.utils.http_session import HttpSession

__all__ = [
    "RUNTIME_UID",
    "RUNTIME_USERNAME",
    "ActionExecutionClient",
    "AgentRuntimeBuildError",
    "AgentRuntimeDisconnectedError",
    "AgentRuntimeError",
    "AgentRuntimeNotFoundError",
    "AgentRuntimeNotReadyError",
    "AgentRuntimeTimeoutError",
    "AgentRuntimeUnavailableError",
    "HttpSession",
    "NetworkError",
    "OpenHandsConfig",
    "RuntimeStatus",
    "SandboxConfig",
    "find_available_tcp_port",
    "http_client",
]


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
