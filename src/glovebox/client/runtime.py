"""`Runtime`: a box that is started somewhere, worked in, and put away."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote

import aiohttp
import msgspec

from glovebox.client import registry
from glovebox.client.backend import Backend, RuntimeStatus, Sandbox
from glovebox.client.chores import Chores
from glovebox.client.connection import execute
from glovebox.client.connection.answers import UnknownAnswer, decoded
from glovebox.client.connection.events import EventStream
from glovebox.client.connection.http import Connection
from glovebox.client.connection.retry import PATIENCE
from glovebox.client.connection.streaming import ActionStream
from glovebox.client.draft_editor import LLM_BASED_EDIT, Draft
from glovebox.client.facts import Facts
from glovebox.client.lint import Lint
from glovebox.client.mcp import McpConfig, StartedServers
from glovebox.client.progress import ProgressCallback, Reporter, StatusCallback
from glovebox.client.spec import BoxSpec
from glovebox.client.tasks import task_tracking
from glovebox.client.verbs import EditFields, Verbs, made
from glovebox.errors import (
    BadSpec,
    ClientError,
    GloveboxError,
    NotConnected,
    NotFound,
    UnknownAction,
    UnsupportedAction,
)
from glovebox.protocol.actions import FileEditAction, TaskTrackingAction
from glovebox.protocol.base import Action, Message, Observation, ObservationT
from glovebox.protocol.observations import ErrorObservation, FileEditObservation
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


class Runtime(Facts, Verbs, Chores):
    """A box and the connection to it.

        async with Runtime() as runtime:
            print((await runtime.run("ls")).content)

    Any number of calls may be under way at once; the box keeps order in each of its shells.
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
        draft: Draft | None = None,
        lint: Lint | None = None,
        mcp: McpConfig | None = None,
        tasks: Path | None = None,
        settings: HostSettings | None = None,
    ) -> None:
        """`backend` says where the box lives, by name or as an object; or it is the address of a box.

        With `attach`, the box `spec.name` is looked for, and left alone at the end. `timeout` is the limit of
        actions that have none. A box that does not answer any more is waited for `patience` seconds.
        `draft` asks a model for edits that are described in words, `lint` finds what is wrong with these.
        `tasks` is the directory of the host in which an agent's list of tasks is kept.
        """
        self.spec = spec
        self.timeout = timeout
        self.report = Reporter(status_callback, progress)
        self._settings = settings or host.load()
        self._name, self._settings = _chosen(backend, key, self._settings)
        self._given = None if isinstance(backend, str) else backend
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
        self._draft, self._lint, self._tasks = draft, lint, tasks
        self.mcp_servers = StartedServers(self, mcp)

    # Its life.

    async def connect(self) -> None:
        """Start the box, or find it, and wait until it answers. If this fails, nothing is left.

        Raises:
            GloveboxError: it cannot be; the class and the text say why.
        """
        async with self._changing:
            if self._closed:
                raise NotConnected(_USED_UP)
            if self._ready:
                return
            try:
                async with AsyncExitStack() as unfinished:
                    unfinished.push_async_callback(self._put_away)
                    await self._start()
                    unfinished.pop_all()
            except GloveboxError as error:
                self.report.status(RuntimeStatus.ERROR, f"{type(error).__name__}: {error}", "error")
                raise

    async def _start(self) -> None:
        self.report.status(RuntimeStatus.STARTING_RUNTIME)
        self._backend = self._given or registry.backend(self._name, self._settings)
        if self._attach:
            self._sandbox = await self._backend.attach(self.spec.name)
            if (await self._sandbox.info()).state in ("paused", "stopped"):
                await self._sandbox.resume()
        else:
            env = {**self._settings.sandbox_env, **self.spec.env}
            spec = msgspec.structs.replace(self.spec, env=env)
            self._sandbox = await self._backend.start(spec, self.report)
        self._connection = Connection(self._sandbox.address, patience=self._patience)
        self.report.status(RuntimeStatus.RUNTIME_STARTED)
        await self._check(self._connection)
        self._ready = True
        self.report.status(RuntimeStatus.READY)

    async def _check(self, connection: Connection) -> None:
        """That it is a box, and that the key is right."""
        decoded(await connection.request("GET", "/alive", limit=_TOKEN_LIMIT), _Alive)
        try:
            await connection.request("GET", "/vscode/connection_token", limit=_TOKEN_LIMIT)
        except (NotFound, UnknownAnswer):  # whatever else it says, it is not about the key
            return

    async def close(self) -> None:
        """Let go of the box, and delete it if it was started here and is not to be kept. Idempotent."""
        self._closed = True
        if self._closing is None or (self._closing.done() and self._sandbox is not None):
            self._closing = asyncio.create_task(self._finish())
        await asyncio.shield(self._closing)

    async def _finish(self) -> None:
        async with self._changing:
            await self._put_away()

    async def _put_away(self) -> None:
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
        """Stop the box for a while; it uses no CPU. Calls under way wait. Idempotent.

        Raises:
            NotSupported: this kind of box cannot.
        """
        sandbox = self._box()
        async with self._changing:
            await sandbox.pause()

    async def resume(self) -> None:
        """Go on after `pause`. Idempotent."""
        sandbox, connection = self._box(), self._asked()
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
        self._asked()
        assert self._sandbox is not None
        return self._sandbox

    def _asked(self) -> Connection:
        if self._connection is None or not self._ready:
            raise NotConnected(_USED_UP if self._closed else _UNUSED)
        return self._connection

    # Actions.

    async def execute(self, action: Action[ObservationT]) -> ObservationT | ErrorObservation:
        """What an action came to.

        It is carried out once, also if the connection breaks or the box is restarted meanwhile. If the caller
        is cancelled or its time is over, the action may go on in the box.

        Raises:
            DeadlineExceeded: no answer within its time limit and five seconds more.
            Interrupted: the box was restarted, and whether the action took effect is not known.
            GloveboxError: it could not be carried out; its class says why.
        """
        return await execute.execute(self._asked(), action, self.timeout)

    async def run_action(self, action: Action[Any]) -> Observation:
        """The same by the rules of the contract, for whatever an agent comes up with.

        Notes of the agent to itself are answered here, unconfirmed actions are not carried out, and what the
        box cannot do is told by an observation.

        Raises:
            GloveboxError: it could not be carried out; its class says why.
        """
        if isinstance(action, TaskTrackingAction) and self._tasks is not None:
            return await task_tracking(action, self._tasks)
        answer = execute.unasked(action)
        if answer is not None:
            return answer
        try:
            if isinstance(action, FileEditAction):
                return await self.edit(action)
            observation: Observation = await self.execute(action)
        except UnknownAction:
            return ErrorObservation(
                content=f"Action {action.action} does not exist.", error_id=execute.BAD_ACTION
            )
        except UnsupportedAction:
            return ErrorObservation(
                content=f"Action {action.action} is not supported in the current runtime.",
                error_id=execute.BAD_ACTION,
            )
        return observation

    async def edit(
        self, path: str | FileEditAction, **fields: Unpack[EditFields]
    ) -> FileEditObservation | ErrorObservation:
        """Carry out an editor command: view, create, str_replace, insert or undo_edit.

        An edit that is described in words (`impl_source` is `llm_based_edit`) is drafted by the model that
        this runtime was given.
        """
        action = made(FileEditAction, path, "path", fields)
        if action.impl_source == LLM_BASED_EDIT and self._draft is not None:
            return await self.edit_with_draft(action, self._draft, lint=self._lint)
        return await self.execute(action)

    def stream(self, action: Action[ObservationT]) -> ActionStream[ObservationT]:
        """An action, followed while it runs: iterate over it, and its observation is the last item."""
        return ActionStream(self._asked(), action, self.timeout)

    def events(self, *, after: str = "", kinds: Iterable[str] = (), action_id: str = "") -> EventStream:
        """Everything that happens in the box: what it remembers, from `after` on, and then as it happens."""
        return EventStream(self._asked(), after=after, kinds=kinds, action_id=action_id)

    # Endpoints.

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: float = 60.0,
    ) -> bytes:
        """The body that an endpoint answers with. `body` is JSON; `limit` is the deadline in seconds.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
        return await self._asked().request(method, path, query=query, body=body, limit=limit)

    async def upload(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        form: aiohttp.FormData,
        limit: float = 300.0,
    ) -> bytes:
        """Send a form, a piece at a time, and give the body of the answer.

        Raises:
            GloveboxError: the box refused, or did not take it in time; its class says why.
        """
        return await self._asked().upload(path, query=query, form=form, limit=limit)

    def download(
        self, path: str, *, query: Mapping[str, str] | None = None, limit: float = 300.0
    ) -> AsyncGenerator[bytes, None]:
        """The body that an endpoint answers with, a piece at a time.

        Raises:
            GloveboxError: the box refused, or did not send all in time; its class says why.
        """
        return self._asked().download(path, query=query, limit=limit)

    async def alive(self) -> bool:
        connection = self._asked()
        try:
            await connection.request("GET", "/alive", limit=_ALIVE_LIMIT)
        except ClientError:
            return False
        return True

    async def vscode_token(self) -> str:
        """What VS Code in the box wants to be shown; empty if there is none."""
        if not self._token:
            answer = await self.call("GET", "/vscode/connection_token", limit=_TOKEN_LIMIT)
            self._token = decoded(answer, _Token).token or ""
        return self._token

    async def vscode_url(self) -> str | None:
        """Where VS Code shows the workspace; None if it is not served."""
        box, token = self._box(), await self.vscode_token()
        port, path = await self._vscode_place() if token else (None, "")
        if port is None or port not in box.ports:
            return None
        return f"{box.ports[port].rstrip('/')}{path}/?tkn={token}&folder={quote(box.workspace)}"

    async def _vscode_place(self) -> tuple[int | None, str]:
        """The port of VS Code in the box, and the path below which it is served."""
        try:
            answer = await self.call("GET", "/plugins/vscode", limit=_TOKEN_LIMIT)
        except (NotFound, UnknownAnswer):  # a box of another make
            return self._vscode_port, ""
        told = decoded(answer, PluginInfo).health
        return told.get("port", self._vscode_port), told.get("path", "")


def _chosen(backend: str | Backend, key: str, settings: HostSettings) -> tuple[str, HostSettings]:
    """The name of the backend that is meant, and what it is told."""
    name = backend if isinstance(backend, str) else ""
    name = name or settings.backend or registry.DEFAULT
    if key:
        settings = dataclasses.replace(settings, key=key)
    if name.startswith(("http://", "https://")):
        if not name.partition("://")[2].strip("/"):
            raise BadSpec(f"{name!r} is not the address of a box.")
        return "remote", dataclasses.replace(settings, url=name)
    return name, settings
