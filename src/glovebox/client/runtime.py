"""`Runtime`: a box that is started somewhere, used over a connection, and removed."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import msgspec

from glovebox.client import registry, shell
from glovebox.client.actions import ActionMethods
from glovebox.client.backend import (
    Backend,
    ProgressCallback,
    Reporter,
    RuntimeStatus,
    Sandbox,
    StatusCallback,
)
from glovebox.client.connection import execute
from glovebox.client.connection.answers import UnknownAnswer, decode
from glovebox.client.connection.events import EventStream
from glovebox.client.connection.http import Connection
from glovebox.client.connection.retry import PATIENCE
from glovebox.client.connection.streaming import ActionStream
from glovebox.client.mcp import McpConfig, StartedServers, StdioServerConfig
from glovebox.client.spec import VSCODE_PORT, BoxSpec
from glovebox.errors import (
    ClientError,
    GloveboxError,
    NotConnected,
    NotFound,
    UnknownAction,
    UnsupportedAction,
)
from glovebox.protocol.base import Action, Message, Observation, ObservationT
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.status import PluginInfo
from glovebox.settings import host
from glovebox.settings.host import HostSettings

_ANY = BoxSpec()
_ALIVE_LIMIT = 5.0
_TOKEN_LIMIT = 10.0
_UNUSED = "This runtime is not connected. Use `async with`, or call connect() first."
_USED_UP = "This runtime is closed. Make a new one."


class _Alive(Message):
    status: str


class _Token(Message):
    token: str | None


class BoxFacts:
    """Properties of a connected runtime; they raise `NotConnected` before and after."""

    spec: BoxSpec

    def _box(self) -> Sandbox:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the box, unique in its backend."""
        return self._box().name

    @property
    def url(self) -> str:
        return self._box().address.url

    @property
    def session_api_key(self) -> str:
        return self._box().address.key

    @property
    def workspace(self) -> str:
        """The path of the workspace, as the box sees it."""
        return self._box().workspace

    @property
    def workspace_root(self) -> Path:
        return Path(self._box().workspace)

    @property
    def web_hosts(self) -> dict[str, int]:
        """Where the host reaches programs in the box, and the port that each has there."""
        box = self._box()
        # VS Code has a port that the spec does not list, unless its variable says one.
        wanted = self.spec.ports if "vscode" in self.spec.plugins else box.ports
        own = (self._vscode_port, *(port for port, url in box.ports.items() if url == box.address.url))
        return {url: port for port, url in box.ports.items() if port in wanted and port not in own}

    @property
    def _vscode_port(self) -> int | None:
        port = self.spec.env.get(VSCODE_PORT, "")
        return int(port) if port.isascii() and port.isdigit() else None


class Runtime(BoxFacts, ActionMethods):
    """A box and the connection to it.

        async with Runtime() as runtime:
            print((await runtime.run("ls")).content)

    Any number of calls may run at once; the box keeps the order in each of its shells.
    """

    def __init__(
        self,
        backend: str | Backend = "",
        spec: BoxSpec = _ANY,
        *,
        key: str = "",
        attach: bool = False,
        timeout: float = 120.0,
        patience: float = PATIENCE,
        status_callback: StatusCallback | None = None,
        progress: ProgressCallback | None = None,
        mcp: McpConfig | None = None,
        settings: HostSettings | None = None,
    ) -> None:
        """`backend` is the name of a backend, a backend, or the address of a box; empty for the default one.

        With `attach`, the box is the existing one named `spec.name`, and stays at the end. `timeout` is the
        limit of actions that have none. A box that stops answering is waited for `patience` seconds.
        """
        self.spec = spec
        self.timeout = timeout
        self.report = Reporter(status_callback, progress)
        self._given = None if isinstance(backend, str) else backend
        settings = settings or host.load()
        if key:
            settings = dataclasses.replace(settings, key=key)
        name = (backend if isinstance(backend, str) else "") or settings.backend
        self._name, self._settings = registry.resolve(name, settings)
        self._patience = patience
        self._attach = attach
        self._backend: Backend | None = None
        self._sandbox: Sandbox | None = None
        self._connection: Connection | None = None
        self._ready = False
        self._closed = False
        self._changing = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        self._token = ""
        self.mcp_servers = StartedServers(self, mcp)

    async def connect(self) -> None:
        """Start the box, or attach to it, and wait until it answers. If this fails, nothing is left.

        Raises:
            GloveboxError: it failed; the class and the text say why.
        """
        async with self._changing:
            if self._closed:
                raise NotConnected(_USED_UP)
            if self._ready:
                return
            try:
                async with AsyncExitStack() as unfinished:
                    unfinished.push_async_callback(self._release)
                    await self._start()
                    unfinished.pop_all()
            except GloveboxError as error:
                self.report.status(RuntimeStatus.ERROR, f"{type(error).__name__}: {error}", "error")
                raise

    async def _start(self) -> None:
        self.report.status(RuntimeStatus.STARTING_RUNTIME)
        if self._attach:
            self._backend = self._given or await registry.find(self._name, self._settings, self.spec.name)
            self._sandbox = await self._backend.attach(self.spec.name)
            if (await self._sandbox.info()).state in ("paused", "stopped"):
                await self._sandbox.resume()
        else:
            env = {**self._settings.sandbox_env, **self.spec.env}
            spec = msgspec.structs.replace(self.spec, env=env)
            self._backend = self._given or await registry.choose(
                self._name, self._settings, spec, self.report
            )
            self._sandbox = await self._backend.start(spec, self.report)
        self._connection = Connection(self._sandbox.address, patience=self._patience)
        self.report.status(RuntimeStatus.RUNTIME_STARTED)
        await self._check(self._connection)
        self._ready = True
        self.report.status(RuntimeStatus.READY)

    async def _check(self, connection: Connection) -> None:
        """Check that it is a box, and that the key is valid."""
        decode(await connection.request("GET", "/alive", limit=_TOKEN_LIMIT), _Alive)
        try:
            await connection.request("GET", "/vscode/connection_token", limit=_TOKEN_LIMIT)
        except (NotFound, UnknownAnswer):  # an answer that is not about the key
            return

    async def close(self) -> None:
        """Disconnect, and delete the box if it was started here without `keep`. Idempotent."""
        self._closed = True
        if self._closing is None or (self._closing.done() and self._sandbox is not None):
            self._closing = asyncio.create_task(self._finish())
        await asyncio.shield(self._closing)

    async def _finish(self) -> None:
        async with self._changing:
            await self._release()

    async def _release(self) -> None:
        self._ready = False
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        try:
            if self._sandbox is not None and not (self._attach or self.spec.keep):
                await self._sandbox.delete()
            self._sandbox = None
        finally:
            backend, self._backend = self._backend, None
            if backend is not None and self._given is None:
                await backend.close()

    async def pause(self) -> None:
        """Freeze the box; it uses no CPU. Calls under way wait. Idempotent.

        Raises:
            NotSupported: this backend cannot.
        """
        sandbox = self._box()
        async with self._changing:
            await sandbox.pause()

    async def resume(self) -> None:
        """Continue a box that `pause` has stopped. Idempotent."""
        sandbox, connection = self._box(), self.connection
        async with self._changing:
            await sandbox.resume()
            connection.move(sandbox.address)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def runtime_initialized(self) -> bool:
        return self._ready

    def _box(self) -> Sandbox:
        if self._sandbox is None or not self._ready:
            raise NotConnected(_USED_UP if self._closed else _UNUSED)
        return self._sandbox

    @property
    def connection(self) -> Connection:
        """The connection to the box; raises `NotConnected` before and after."""
        if self._connection is None or not self._ready:
            raise NotConnected(_USED_UP if self._closed else _UNUSED)
        return self._connection

    async def execute(self, action: Action[ObservationT]) -> ObservationT | ErrorObservation:
        """Execute an action, once, even if the connection breaks or the box is restarted meanwhile.

        If the caller is cancelled or the deadline passes, the action may continue in the box.

        Raises:
            DeadlineExceeded: no answer within its time limit and five seconds more.
            Interrupted: the box was restarted, and it is not known whether the action took effect.
            GloveboxError: it could not be executed; its class says why.
        """
        return await execute.execute(self.connection, action, self.timeout)

    async def run_action(self, action: Action[Any]) -> Observation:
        """Execute any action of an agent by the rules of the OpenHands contract.

        Notes of the agent to itself are answered by the client, unconfirmed actions are not executed, and
        the answer to an unsupported action is an observation.

        Raises:
            GloveboxError: it could not be executed; its class says why.
        """
        answer = execute.client_answer(action)
        if answer is not None:
            return answer
        try:
            observation: Observation = await self.execute(action)
        except UnknownAction:
            problem = f"Action {action.action} does not exist."
        except UnsupportedAction:
            problem = f"Action {action.action} is not supported in the current runtime."
        else:
            return observation
        return ErrorObservation(content=problem, error_id=execute.BAD_ACTION)

    async def add_env_vars(self, values: Mapping[str, str]) -> None:
        """Set variables in the shell, in later shells, and in the kernel if the box has one.

        Raises:
            ClientError: a name is not valid, or a variable could not be set.
        """
        await shell.add_env_vars(self, values, jupyter="jupyter" in self.spec.plugins)

    async def get_mcp_config(self, extra_stdio_servers: Iterable[StdioServerConfig] = ()) -> McpConfig:
        """The servers an agent connects to: remote ones, and the box for all programs together.

        Raises:
            GloveboxError: the box did not accept the list.
        """
        return await self.mcp_servers.get_mcp_config(extra_stdio_servers)

    def stream(self, action: Action[ObservationT]) -> ActionStream[ObservationT]:
        """Execute an action and iterate over its events; the last item is its observation."""
        return ActionStream(self.connection, action, self.timeout)

    def events(self, *, after: str = "", kinds: Iterable[str] = (), action_id: str = "") -> EventStream:
        """The events of the box: stored ones from `after` on, then new ones."""
        return EventStream(self.connection, after=after, kinds=kinds, action_id=action_id)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: float = 60.0,
    ) -> bytes:
        """The response body of an endpoint. `body` is JSON; `limit` is the deadline in seconds.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
        return await self.connection.request(method, path, query=query, body=body, limit=limit)

    async def upload(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        form: aiohttp.FormData,
        limit: float = 300.0,
    ) -> bytes:
        """Send a form in pieces; the response body.

        Raises:
            GloveboxError: the box refused, or did not take it in time; its class says why.
        """
        return await self.connection.upload(path, query=query, form=form, limit=limit)

    def download(
        self, path: str, *, query: Mapping[str, str] | None = None, limit: float = 300.0
    ) -> AsyncGenerator[bytes, None]:
        """The response body of an endpoint, in pieces.

        Raises:
            GloveboxError: the box refused, or did not send all in time; its class says why.
        """
        return self.connection.download(path, query=query, limit=limit)

    async def alive(self) -> bool:
        connection = self.connection
        try:
            await connection.request("GET", "/alive", limit=_ALIVE_LIMIT)
        except ClientError:
            return False
        return True

    def port_url(self, port: int) -> str | None:
        """The address at which the host reaches a port of the box; None if it does not."""
        box = self._box()
        assert self._backend is not None
        if port not in box.ports and self._backend.name == "process":  # it shares the host's network
            return f"http://127.0.0.1:{port}"
        return box.ports.get(port)

    async def vscode_token(self) -> str:
        """The token of VS Code in the box; empty if there is none."""
        if not self._token:
            answer = await self.call("GET", "/vscode/connection_token", limit=_TOKEN_LIMIT)
            self._token = decode(answer, _Token).token or ""
        return self._token

    async def vscode_url(self) -> str | None:
        """The address of VS Code; None if it is not served."""
        box, token = self._box(), await self.vscode_token()
        port, path = await self._vscode_place() if token else (None, "")
        if port is None or port not in box.ports:
            return None
        return f"{box.ports[port].rstrip('/')}{path}/?tkn={token}&folder={quote(box.workspace)}"

    async def _vscode_place(self) -> tuple[int | None, str]:
        """The port of VS Code in the box, and the path below which it is served."""
        try:
            answer = await self.call("GET", "/plugins/vscode", limit=_TOKEN_LIMIT)
        except (NotFound, UnknownAnswer):  # a server of another project
            return self._vscode_port, ""
        health = decode(answer, PluginInfo).health
        return health.get("port", self._vscode_port), health.get("path", "")
