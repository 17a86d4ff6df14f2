"""The runtime class that OpenHands is told of."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from functools import cache
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from glovebox import errors
from glovebox.client.backend import Level
from glovebox.client.backend import RuntimeStatus as Status
from glovebox.client.spec import BoxSpec
from glovebox.errors import GloveboxError, NoSuchBox, NotConnected
from glovebox.openhands import api, boxes
from glovebox.openhands.api import (
    ActionExecutionClient,
    AgentRuntimeDisconnectedError,
    NetworkError,
    OpenHandsConfig,
    RuntimeStatus,
)
from glovebox.openhands.boxes import ConversationBox
from glovebox.openhands.config import box_name, box_spec, ignored
from glovebox.openhands.direct import DirectSession, is_loopback
from glovebox.openhands.ports import Ports
from glovebox.settings import host


class GloveboxRuntime(ActionExecutionClient):
    """OpenHands in a box of this project, wherever GLOVEBOX_BACKEND says that boxes live."""

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
        super().__init__(
            config,
            event_stream,
            llm_registry,
            sid,
            plugins,
            env_vars,
            status_callback,
            attach_to_existing,
            headless_mode,
            user_id,
            git_provider_tokens,
        )

    # How it begins

    async def connect(self) -> None:
        """Start the box of this conversation, or go on with the one there is.

        Raises:
            AgentRuntimeError: it cannot be; the text says why and what to do.
        """
        self.set_runtime_status(RuntimeStatus.STARTING_RUNTIME)
        with translated():
            try:
                self._held = await background().wait(self._take())
            except NoSuchBox as error:
                raise AgentRuntimeDisconnectedError(error.message) from error
        self._found(self._held)
        if not self.attach_to_existing:
            self.set_runtime_status(RuntimeStatus.RUNTIME_STARTED)
            await self._set_up()
            self.set_runtime_status(RuntimeStatus.READY)
        self._runtime_initialized = True

    async def _set_up(self) -> None:
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(asyncio.to_thread, self.close)  # a box that nobody can use
            await asyncio.to_thread(self.setup_initial_env)
            unfinished.pop_all()

    async def _take(self) -> ConversationBox:
        backend = await boxes.open_backend(self._settings, lambda text: self.log("warning", text))
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(backend.close)
            held = await boxes.take(
                backend,
                lambda: self._spec(backend.name),
                box_name(self.sid),
                _Told(self),
                attach=self.attach_to_existing,
            )
            unfinished.pop_all()
        return held

    def _spec(self, backend: str) -> BoxSpec:
        if names := ignored(self.config):
            self.log("warning", f"without effect on a box: {', '.join(names)}")
        return box_spec(
            self.config,
            sid=self.sid,
            backend=backend,
            plugins=tuple(plugin.name for plugin in self.plugins),
            env=self.initial_env_vars,
            ports=Ports.free(self.config, with_vscode=self.vscode_enabled),
            keep=self._can_come_back,
        )

    def _found(self, held: ConversationBox) -> None:
        """Where the box answers, and where it has its workspace."""
        address = held.sandbox.address
        self._url = self._as_seen_from_here(address.url)
        if is_loopback(self._url):
            self.session = DirectSession()
        if address.key:
            self.session.headers["X-Session-API-Key"] = address.key
        self.config.workspace_mount_path_in_sandbox = held.sandbox.workspace
        self.log("info", f"box {held.sandbox.name} ({held.backend.name}) answers at {self._url}")

    def _as_seen_from_here(self, url: str) -> str:
        """The address for an OpenHands that is itself in a container, and whose host has another name."""
        named = self._settings.environment.get("DOCKER_HOST_ADDR")
        base = f"http://{named}" if named else self.config.sandbox.local_runtime_url
        if is_loopback(base) or not is_loopback(url):
            return url
        return f"{base.rstrip('/')}:{urlsplit(url).port}"

    # How it is asked

    @property
    def action_execution_server_url(self) -> str:
        """Where the box answers.

        Raises:
            AgentRuntimeNotReadyError: there is none yet.
        """
        self._box()
        return self._url

    @property
    def session_api_key(self) -> str | None:
        """The key of the box, for those who call it on their own."""
        return (self._held.sandbox.address.key or None) if self._held else None

    def _send_action_server_request(self, method: str, url: str, **kwargs: Any) -> Any:
        if url.endswith("/execute_action"):
            # OpenHands sends an action again if the connection broke; with a key it is not run again.
            kwargs["json"] = {**kwargs["json"], "idempotency_key": uuid.uuid4().hex}
        try:
            return super()._send_action_server_request(method, url, **kwargs)
        except NetworkError as error:
            raise AgentRuntimeDisconnectedError(self._obituary(error)) from error

    def _obituary(self, error: NetworkError) -> str:
        held = self._box()
        try:
            state: str = background().run(held.sandbox.info()).state
        except GloveboxError as reason:
            state = reason.message
        return f"The box {held.sandbox.name} does not answer (it is {state}): {error or type(error).__name__}"

    def get_mcp_config(self, extra_stdio_servers: list[Any] | None = None) -> Any:
        """The MCP servers that an agent can use; the box is one of them if it has some of its own."""
        configured = self.config.mcp.sse_servers
        self.config.mcp.sse_servers = list(configured)
        try:
            # OpenHands adds the box to the very list it is given, so with each call there is one more.
            return super().get_mcp_config(extra_stdio_servers)
        finally:
            self.config.mcp.sse_servers = configured

    @property
    def vscode_url(self) -> str | None:
        """Where VS Code is, if there is one."""
        token = self.get_vscode_token()
        if not token:
            return None
        held = self._box()
        where = self._reached(held, held.ports.vscode)
        return f"{where}/?tkn={token}&folder={self.config.workspace_mount_path_in_sandbox}"

    @property
    def web_hosts(self) -> dict[str, int]:
        """Under which address each port for web servers of the agent is reached."""
        held = self._held
        return {self._reached(held, port): port for port in held.ports.apps} if held else {}

    def _reached(self, held: ConversationBox, port: int) -> str:
        published = held.sandbox.ports.get(port, f"http://localhost:{port}")
        return self._as_seen_from_here(published).rstrip("/")

    # How it ends

    def pause(self) -> None:
        """Freeze the box; `resume` goes on with everything that runs in it."""
        with translated():
            background().run(self._box().sandbox.pause())
        self.log("debug", "box paused")

    def resume(self) -> None:
        held = self._box()
        with translated():
            background().run(held.sandbox.resume())
        self._found(held)
        self.log("debug", "box resumed")

    def close(self) -> None:
        """End the box or leave it for later, as the configuration says. Idempotent."""
        if self._runtime_closed:
            return
        super().close()
        held, self._held = self._held, None
        if held is None:
            return
        try:
            background().run(self._let_go(held))
        except GloveboxError as error:
            self.log("warning", f"box {held.sandbox.name} is left behind: {error.message}")

    @property
    def _can_come_back(self) -> bool:
        """Whether the box has to outlive this process: conversations of the web interface do."""
        return self.config.sandbox.keep_runtime_alive or not self._is_headless

    async def _let_go(self, held: ConversationBox) -> None:
        sandbox = self.config.sandbox
        try:
            if self.attach_to_existing:
                return
            if sandbox.keep_runtime_alive:
                await boxes.rest(held, pause=sandbox.pause_closed_runtimes)
            else:
                await boxes.end(held, remove=not self._can_come_back)
        finally:
            await held.backend.close()

    @classmethod
    async def delete(cls, conversation_id: str) -> None:
        """Remove the box of a conversation and what is in it, if there is one."""
        with translated():
            await background().wait(boxes.delete(host.load(), box_name(conversation_id)))

    def _box(self) -> ConversationBox:
        if self._held is None:
            with translated():
                raise NotConnected(
                    "This runtime has no box: connect it first, and do not use it after close."
                )
        return self._held


class _Told:
    """Hands on to OpenHands how a start goes on."""

    def __init__(self, runtime: GloveboxRuntime) -> None:
        self._runtime = runtime

    def status(self, status: Status, message: str = "", level: Level = "info") -> None:
        """A step begins or ends."""
        self._runtime.set_runtime_status(RuntimeStatus(status.value), message, level)

    def progress(self, step: str, done: int, total: int | None) -> None:
        """So much of a step is done; OpenHands has no ear for it."""


#: The first that fits. OpenHands shows the text of an *unavailable* runtime to its user, so that is what
#: everything becomes that only the user can put right.
KINDS: tuple[tuple[type[errors.GloveboxError], type[api.AgentRuntimeError]], ...] = (
    (errors.DeadlineExceeded, api.AgentRuntimeTimeoutError),
    (errors.BoxDied, api.AgentRuntimeDisconnectedError),
    (errors.BoxUnreachable, api.AgentRuntimeDisconnectedError),
    (errors.NoSuchBox, api.AgentRuntimeNotFoundError),
    (errors.NotConnected, api.AgentRuntimeNotReadyError),
    (errors.BadImage, api.AgentRuntimeBuildError),
    (errors.NoBundle, api.AgentRuntimeBuildError),
    (errors.BackendError, api.AgentRuntimeUnavailableError),
    (errors.ClientError, api.AgentRuntimeUnavailableError),
    (errors.GloveboxError, api.AgentRuntimeError),
)


def in_their_words(error: errors.GloveboxError) -> api.AgentRuntimeError:
    """The exception that OpenHands expects instead."""
    theirs = next(theirs for ours, theirs in KINDS if isinstance(error, ours))
    return theirs(error.message)


@contextmanager
def translated() -> Iterator[None]:
    """What is raised inside leaves as an exception of OpenHands."""
    try:
        yield
    except errors.GloveboxError as error:
        raise in_their_words(error) from error


P = ParamSpec("P")
T = TypeVar("T")


class Background:
    """Carries out coroutines for threads that have no loop to lend."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_Executor(thread_name_prefix="glovebox"))
        # A daemon: whoever is done with OpenHands must not wait for it.
        threading.Thread(target=self._loop.run_forever, name="glovebox", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What it comes to; this thread waits."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What it comes to; the caller's loop goes on. To cancel this is to cancel it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class _Executor(ThreadPoolExecutor):
    """Threads for what blocks; none are to be had any more when OpenHands closes its runtimes at the exit."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(work, *args, **kwargs)
        except RuntimeError:
            done: Future[T] = Future()
            try:
                done.set_result(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - whoever asked for the result gets it
                done.set_exception(error)
            return done


@cache
def background() -> Background:
    """The one that all runtimes of this process share."""
    return Background()
