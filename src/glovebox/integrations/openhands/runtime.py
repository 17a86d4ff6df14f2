"""The runtime class that OpenHands loads by its name."""

from __future__ import annotations

import asyncio
import shlex
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from glovebox import errors
from glovebox.client.backend import Level
from glovebox.client.backend import RuntimeStatus as Status
from glovebox.client.connection.http import is_loopback
from glovebox.client.spec import BoxSpec
from glovebox.errors import GloveboxError, NoSuchBox, NotConnected
from glovebox.integrations.openhands import api, boxes
from glovebox.integrations.openhands.api import (
    ActionExecutionClient,
    AgentRuntimeDisconnectedError,
    CmdRunAction,
    ErrorObservation,
    HttpSession,
    IPythonRunCellAction,
    NetworkError,
    OpenHandsConfig,
    RequestHTTPError,
    RuntimeStatus,
    http_client,
)
from glovebox.integrations.openhands.boxes import ConversationBox, background
from glovebox.integrations.openhands.config import (
    WINDOWS,
    Ports,
    box_name,
    box_spec,
    ignored_settings,
    window_spec,
)
from glovebox.settings import host


class GloveboxRuntime(ActionExecutionClient):  # type: ignore[misc] # OpenHands is checked untyped
    """Runs the actions of OpenHands in a box of the backend GLOVEBOX_BACKEND."""

    config: OpenHandsConfig

    def __init__(
        self,
        config: OpenHandsConfig,
        event_stream: Any,
        llm_registry: Any,
        sid: str = "default",
        plugins: list[Any] | None = None,
        env_vars: dict[str, str] | None = None,
        status_callback: Callable[..., None] | None = None,
        attach_to_existing: bool = False,
        headless_mode: bool = True,
        user_id: str | None = None,
        git_provider_tokens: Any = None,
    ) -> None:
        self._settings = host.load()
        self._held: ConversationBox | None = None
        self._is_headless = headless_mode
        #: Variables of the window's terminals, and those that are not set in its kernel yet.
        self._window_env: dict[str, str] = {}
        self._cell_env: dict[str, str] = {}
        super().__init__(
            config, event_stream, llm_registry, sid, plugins, env_vars, status_callback, attach_to_existing,
            headless_mode, user_id, git_provider_tokens,
        )  # fmt: skip

    async def connect(self) -> None:
        """Start the box of this conversation, or connect to the existing one.

        Raises:
            AgentRuntimeError: it failed; the text says why and what to do.
        """
        self.set_runtime_status(RuntimeStatus.STARTING_RUNTIME)
        with _translate_errors():
            try:
                self._held = await background().wait(self._acquire())
            except NoSuchBox as error:
                raise AgentRuntimeDisconnectedError(error.message) from error
        self._use(self._held)
        if not self.attach_to_existing:
            self.set_runtime_status(RuntimeStatus.RUNTIME_STARTED)
            await self._set_up()
            self.set_runtime_status(RuntimeStatus.READY)
        self._runtime_initialized = True

    async def _set_up(self) -> None:
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(asyncio.to_thread, self.close)  # the box is of no use
            await asyncio.to_thread(self.setup_initial_env)
            unfinished.pop_all()

    async def _acquire(self) -> ConversationBox:
        report = _Report(self)
        backend = await boxes.open_backend(self._settings, report)
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(backend.close)
            held = await boxes.acquire(
                backend,
                lambda: self._spec(backend.name),
                box_name(self.sid),
                report,
                attach=self.attach_to_existing,
            )
            unfinished.pop_all()
        return held

    def _spec(self, backend: str) -> BoxSpec:
        if names := ignored_settings(self.config, backend):
            where = "in a VS Code window" if backend == WINDOWS else "on a box"
            self.log("warning", f"without effect {where}: {', '.join(names)}")
        if backend == WINDOWS:
            env = self.initial_env_vars
            spec = window_spec(self.config, sid=self.sid, env=env, keep=self._can_come_back)
            self._window_env = dict(spec.env)
            return spec
        return box_spec(
            self.config,
            sid=self.sid,
            backend=backend,
            plugins=tuple(plugin.name for plugin in self.plugins),
            env=self.initial_env_vars,
            ports=Ports.free(self.config, with_vscode=self.vscode_enabled),
            keep=self._can_come_back,
        )

    def _use(self, held: ConversationBox) -> None:
        """Send requests to this box, and use its workspace."""
        address = held.sandbox.address
        self._url = self._reachable_url(address.url)
        if is_loopback(self._url):
            self.session = DirectSession()
        if address.key:
            self.session.headers["X-Session-API-Key"] = address.key
        self.config.workspace_mount_path_in_sandbox = held.sandbox.workspace
        self.log("info", f"box {held.sandbox.name} ({held.backend.name}) answers at {self._url}")

    def _reachable_url(self, url: str) -> str:
        """The address as an OpenHands in a container sees it, where the host has another name."""
        named = self._settings.environment.get("DOCKER_HOST_ADDR")
        base = f"http://{named}" if named else self.config.sandbox.local_runtime_url
        if is_loopback(base) or not is_loopback(url):
            return url
        return f"{base.rstrip('/')}:{urlsplit(url).port}"

    @property
    def action_execution_server_url(self) -> str:
        """The address of the box.

        Raises:
            AgentRuntimeNotReadyError: there is no box yet.
        """
        self._box()
        return self._url

    @property
    def session_api_key(self) -> str | None:
        """The key of the box, for callers that send requests themselves."""
        return (self._held.sandbox.address.key or None) if self._held else None

    def _send_action_server_request(self, method: str, url: str, **kwargs: Any) -> Any:
        if url.endswith("/execute_action"):
            # OpenHands retries after a broken connection; with a key the action is not run again.
            kwargs["json"] = {**kwargs["json"], "idempotency_key": uuid.uuid4().hex}
        try:
            return super()._send_action_server_request(method, url, **kwargs)
        except NetworkError as error:
            raise AgentRuntimeDisconnectedError(self._describe_loss(error)) from error

    def _describe_loss(self, error: NetworkError) -> str:
        held = self._box()
        try:
            state: str = background().run(held.sandbox.info()).state
        except GloveboxError as reason:
            state = reason.message
        return f"The box {held.sandbox.name} does not answer (it is {state}): {error or type(error).__name__}"

    # In a window, files and settings of its user are left alone.

    @property
    def _is_window(self) -> bool:
        return self._held is not None and self._held.backend.name == WINDOWS

    def add_env_vars(self, env_vars: dict[str, str]) -> None:
        """Set variables: in a window without changing ~/.bashrc, and in its kernel when that is first used.

        Raises:
            RuntimeError: the shell did not take them.
        """
        if not self._is_window:
            super().add_env_vars(env_vars)
            return
        wanted = {name.upper(): value for name, value in env_vars.items()}
        self._cell_env |= wanted
        new = {name: value for name, value in wanted.items() if self._window_env.get(name) != value}
        if not new:
            return
        command = " ".join(f"export {name}={shlex.quote(value)};" for name, value in new.items())
        ran = self.run(CmdRunAction(command=command, hidden=True))
        if getattr(ran, "exit_code", None) != 0:
            raise RuntimeError(f"The variables {', '.join(new)} could not be set: {ran.content}")
        self._window_env |= new

    def run_ipython(self, action: Any) -> Any:
        if self._is_window and self._cell_env:
            lines = (f"os.environ[{name!r}] = {value!r}" for name, value in self._cell_env.items())
            answer = super().run_ipython(IPythonRunCellAction(code="\n".join(("import os", *lines))))
            if isinstance(answer, ErrorObservation):
                return answer  # there is no kernel
            self._cell_env.clear()
        return super().run_ipython(action)

    def _setup_git_config(self) -> None:
        """Give git an identity; in a window it has that of the user."""
        if not self._is_window:
            super()._setup_git_config()

    def get_mcp_config(self, extra_stdio_servers: list[Any] | None = None) -> Any:
        """The MCP servers for the agent, with the box if it runs some."""
        configured = self.config.mcp.sse_servers
        self.config.mcp.sse_servers = list(configured)
        try:
            # OpenHands appends the box to the list it is given, once more with each call.
            return super().get_mcp_config(extra_stdio_servers)
        except RequestHTTPError as error:
            self.log("warning", f"MCP servers cannot be run in the box: {error}")
            return self.config.mcp.model_copy()
        finally:
            self.config.mcp.sse_servers = configured

    @property
    def vscode_url(self) -> str | None:
        """The address of VS Code, if the box has it."""
        token = self.get_vscode_token()
        if not token:
            return None
        held = self._box()
        where = self._url_of_port(held, held.ports.vscode)
        return f"{where}/?tkn={token}&folder={self.config.workspace_mount_path_in_sandbox}"

    @property
    def web_hosts(self) -> dict[str, int]:
        """The addresses of the ports for web servers of the agent."""
        held = self._held
        return {self._url_of_port(held, port): port for port in held.ports.apps} if held else {}

    def _url_of_port(self, held: ConversationBox, port: int) -> str:
        published = held.sandbox.ports.get(port, f"http://localhost:{port}")
        return self._reachable_url(published).rstrip("/")

    def pause(self) -> None:
        """Freeze the box until `resume`."""
        with _translate_errors():
            background().run(self._box().sandbox.pause())
        self.log("debug", "box paused")

    def resume(self) -> None:
        held = self._box()
        with _translate_errors():
            background().run(held.sandbox.resume())
        self._use(held)
        self.log("debug", "box resumed")

    def close(self) -> None:
        """End the box or keep it, as configured. Idempotent."""
        if self._runtime_closed:
            return
        super().close()
        held, self._held = self._held, None
        if held is None:
            return
        try:
            background().run(self._release(held))
        except GloveboxError as error:
            self.log("warning", f"box {held.sandbox.name} is left behind: {error.message}")

    @property
    def _can_come_back(self) -> bool:
        """Whether the box outlives this process, as those of the web interface do."""
        return self.config.sandbox.keep_runtime_alive or not self._is_headless

    async def _release(self, held: ConversationBox) -> None:
        sandbox = self.config.sandbox
        try:
            if self.attach_to_existing:
                return
            if not sandbox.keep_runtime_alive:
                await boxes.end(held, remove=not self._can_come_back)
            elif sandbox.pause_closed_runtimes:
                await boxes.pause(held)
        finally:
            await held.backend.close()

    @classmethod
    async def delete(cls, conversation_id: str) -> None:
        """Remove the box of a conversation and what is in it, if there is one."""
        with _translate_errors():
            await background().wait(boxes.delete(host.load(), box_name(conversation_id)))

    def _box(self) -> ConversationBox:
        if self._held is None:
            with _translate_errors():
                raise NotConnected(
                    "This runtime has no box: connect it first, and do not use it after close."
                )
        return self._held


class _Report:
    """Passes the progress of a start on to OpenHands."""

    def __init__(self, runtime: GloveboxRuntime) -> None:
        self._runtime = runtime

    def status(self, status: Status, message: str = "", level: Level = "info") -> None:
        if level == "warning":
            self._runtime.log("warning", message)
        self._runtime.set_runtime_status(RuntimeStatus(status.value), message, level)

    def progress(self, step: str, done: int, total: int | None) -> None:
        """OpenHands does not show it."""


#: The first match counts. OpenHands shows the text of an *unavailable* runtime to its user, so all errors
#: that only the user can correct become that.
_EXCEPTIONS: tuple[tuple[type[errors.GloveboxError], type[api.AgentRuntimeError]], ...] = (
    (errors.DeadlineExceeded, api.AgentRuntimeTimeoutError),
    (errors.BoxDied, api.AgentRuntimeDisconnectedError),
    (errors.BoxUnreachable, api.AgentRuntimeDisconnectedError),
    (errors.NoSuchBox, api.AgentRuntimeNotFoundError),
    (errors.NotConnected, api.AgentRuntimeNotReadyError),
    (errors.BadImage, api.AgentRuntimeBuildError),
    (errors.NoBundle, api.AgentRuntimeBuildError),
    (errors.BackendError, api.AgentRuntimeUnavailableError),
    (errors.WindowError, api.AgentRuntimeUnavailableError),
    (errors.WindowRefused, api.AgentRuntimeUnavailableError),
    (errors.ClientError, api.AgentRuntimeUnavailableError),
    (errors.GloveboxError, api.AgentRuntimeError),
)


def _translate(error: errors.GloveboxError) -> api.AgentRuntimeError:
    """The exception of OpenHands for one of ours."""
    theirs = next(theirs for ours, theirs in _EXCEPTIONS if isinstance(error, ours))
    return theirs(error.message)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn our exceptions into those of OpenHands."""
    try:
        yield
    except errors.GloveboxError as error:
        raise _translate(error) from error


class DirectSession(HttpSession):  # type: ignore[misc]
    """A session that uses no proxy.

    OpenHands' own session obeys HTTP_PROXY even for this machine, whose loopback no proxy can reach.
    """

    def request(self, *args: Any, **kwargs: Any) -> Any:
        return _client().request(*args, **self._with_headers(kwargs))

    def stream(self, *args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
        return _client().stream(*args, **self._with_headers(kwargs))

    def _with_headers(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**kwargs, "headers": {**self.headers, **(kwargs.get("headers") or {})}}


@cache
def _client() -> http_client:
    # One for all sessions, as in OpenHands: a closed session can still be used.
    return http_client(trust_env=False)
