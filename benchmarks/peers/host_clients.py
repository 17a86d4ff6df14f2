"""The clients that start boxes from a host: this project's, OpenHands' and SWE-ReX's.

Each is measured in a process of its own, in the interpreter that its library is installed for; a library is
imported when its client is made.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

#: Where boxes are started.
PROCESS, BUBBLEWRAP, CONTAINER, POOL = "process", "bubblewrap", "container", "pool"
#: How a client is used: from a coroutine, or by a caller that blocks.
ASYNC, SYNC = "async", "sync"


@dataclass(frozen=True)
class Started:
    """A box that has answered a first command: when (seconds since 1970), and where it answers."""

    made: float
    connected: float
    answered: float
    url: str = ""
    key: str = ""
    workspace: str = ""
    name: str = ""

    @property
    def seconds(self) -> float:
        """From the construction of the client's object to the answer."""
        return self.answered - self.made


class HostClient:
    """A client library: the boxes that it has started, the last of which is asked."""

    #: Make a client's object for a kind of box, add it to `opened`, and connect it; close it.
    start: Callable[[str], Awaitable[Any]]
    stop: Callable[[Any], Awaitable[None]]
    #: The output of a command (box, command, timeout) that must succeed; a function for it that blocks.
    run: Callable[..., Awaitable[str]]
    blocking: Callable[[Any], AbstractContextManager[Callable[[str], object]]]
    #: Copy into a box (box, source, directory, is_tree), or a directory out of it, into an archive.
    copy_to: Callable[[Any, str, str, bool], Awaitable[None]]
    copy_from: Callable[[Any, str], Awaitable[object]]

    def __init__(self, mark: str, image: str, docker_args: tuple[str, ...], has_plugins: bool) -> None:
        self.mark, self.image, self.docker_args, self.has_plugins = mark, image, docker_args, has_plugins
        self.opened: list[Any] = []
        self.load()

    def load(self) -> None:
        """Import the library."""

    async def prepare(self, kind: str) -> None:
        """What has to be done before the time of a start counts."""

    def about(self, box: Any) -> dict[str, str]:
        """The url, key, workspace and name of a box."""
        return {}

    async def begin(self, kind: str) -> Started:
        """Start a box and have it answer a command. It stays until `end`."""
        await self.prepare(kind)
        made = time.time()
        box = await self.start(kind)
        connected = time.time()
        output = await self.run(box, "echo first")
        answered = time.time()
        if output.strip() != "first":
            raise RuntimeError(f"wrong answer to a first command: {output[:100]!r}")
        return Started(made, connected, answered, **self.about(box))

    async def begin_many(self, kind: str, number: int) -> float:
        """Start so many at once; the seconds until all have answered."""
        began = time.perf_counter()
        await asyncio.gather(*(self.begin(kind) for _ in range(number)))
        return time.perf_counter() - began

    async def await_commands(self, number: int) -> list[float]:
        """Run `true` so many times in the last box; the milliseconds of each."""
        taken = []
        for _ in range(number):
            began = time.perf_counter()
            await self.run(self.opened[-1], "true")
            taken.append(1000 * (time.perf_counter() - began))
        return taken

    def block_commands(self, number: int) -> list[float]:
        taken = []
        with self.blocking(self.opened[-1]) as run:
            for _ in range(number):
                began = time.perf_counter()
                run("true")
                taken.append(1000 * (time.perf_counter() - began))
        return taken

    async def output(self, command: str) -> str:
        return await self.run(self.opened[-1], command, 600)

    async def copy_in(self, source: str, directory: str, is_tree: bool) -> float:
        """Copy into a directory of the last box; the seconds."""
        began = time.perf_counter()
        await self.copy_to(self.opened[-1], source, directory, is_tree)
        return time.perf_counter() - began

    async def copy_out(self, directory: str) -> tuple[float, str]:
        """Copy a directory out of the last box; the seconds, and the path of the archive."""
        began = time.perf_counter()
        archive = await self.copy_from(self.opened[-1], directory)
        return time.perf_counter() - began, str(archive)

    async def end(self) -> None:
        opened, self.opened = self.opened, []
        await asyncio.gather(*(self.stop(box) for box in opened))

    async def close(self) -> None:
        await self.end()


def _content(answer: Any) -> str:
    metadata = getattr(answer, "metadata", None)
    if metadata is None or metadata.exit_code != 0:
        raise RuntimeError(f"a command failed: {answer.content[:100]!r}")
    return str(answer.content)


class GloveboxClient(HostClient):
    """`Runtime`, used as its documentation says."""

    def load(self) -> None:
        from glovebox import BoxSpec, Runtime, SyncRuntime
        from glovebox.backends.pool import WarmPool
        from glovebox.client import registry
        from glovebox.client.transfer import files as transfer
        from glovebox.settings import host

        self._runtime, self._sync, self._transfer = Runtime, SyncRuntime, transfer
        docker = BoxSpec(image=self.image, labels={"benchmark": self.mark})
        local = {PROCESS: BoxSpec(isolation="none"), BUBBLEWRAP: BoxSpec(isolation="bubblewrap")}
        self._specs = {kind: ("process", spec) for kind, spec in local.items()}
        self._specs |= {CONTAINER: ("docker", docker), POOL: ("docker", docker)}
        self._make_pool: Any = lambda: WarmPool(registry.open_backend("docker", host.load()), docker, 1)
        self._pool: Any = None

    async def prepare(self, kind: str) -> None:
        if kind == POOL and self._pool is None:
            self._pool = self._make_pool()
            self._pool.fill()
        async with asyncio.timeout(60):
            while kind == POOL and self._pool.ready < 1:  # noqa: ASYNC110 - it has no event for that
                await asyncio.sleep(0.01)

    async def start(self, kind: str) -> Any:
        backend, spec = self._specs[kind]
        runtime = self._runtime(self._pool if kind == POOL else backend, spec)
        self.opened.append(runtime)
        await runtime.connect()
        return runtime

    async def run(self, box: Any, command: str, timeout: float | None = None) -> str:
        return _content(await box.run(command, **({} if timeout is None else {"timeout": timeout})))

    @contextmanager
    def blocking(self, box: Any) -> Iterator[Callable[[str], object]]:
        with self._sync(box.url, key=box.session_api_key) as runtime:
            yield lambda command: _content(runtime.run(command))

    def about(self, box: Any) -> dict[str, str]:
        return {"url": box.url, "key": box.session_api_key, "workspace": box.workspace, "name": box.name}

    async def copy_to(self, box: Any, source: str, directory: str, is_tree: bool) -> None:
        await self._transfer.copy_to(box, source, directory, recursive=is_tree)

    async def copy_from(self, box: Any, directory: str) -> object:
        return await self._transfer.copy_from(box, directory)

    async def stop(self, box: Any) -> None:
        await box.close()

    async def end(self) -> None:
        await super().end()
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


class OpenHandsClient(HostClient):
    """Runtimes made as OpenHands makes them: the class by its name, `connect`, `run_action`."""

    def load(self) -> None:
        # Its local server listens on all interfaces, and asks for a key only if there is one.
        os.environ["SESSION_API_KEY"] = uuid.uuid4().hex
        self._config: Any = importlib.import_module("openhands.core.config").OpenHandsConfig
        self._command: Any = importlib.import_module("openhands.events.action").CmdRunAction
        self._setup: Any = importlib.import_module("openhands.core.setup")
        self._kinds = {PROCESS: "local", CONTAINER: "docker"}
        # It imports a runtime when it is first used; an import is not what is measured.
        for kind in self._kinds.values():
            importlib.import_module("openhands.runtime").get_runtime_cls(kind)
        # More than by default, so that none of twenty starts waits for one.
        self._threads = ThreadPoolExecutor(64)

    async def start(self, kind: str) -> Any:
        asyncio.get_running_loop().set_default_executor(self._threads)
        options = {"enable_browser": False, "run_as_openhands": False, "file_store": "memory"}
        config = self._config(runtime=self._kinds[kind], **options)
        config.sandbox.runtime_container_image = self.image or None
        config.sandbox.runtime_binding_address = "127.0.0.1"
        config.sandbox.docker_runtime_kwargs = {"labels": {"benchmark": self.mark}}
        runtime = self._setup.create_runtime(config, sid=f"bench-{uuid.uuid4().hex[:12]}")
        if not self.has_plugins:
            runtime.plugins = []
        self.opened.append(runtime)
        await runtime.connect()
        return runtime

    def _run(self, box: Any, command: str, timeout: float | None = None) -> str:
        action = self._command(command=command)
        if timeout is not None:
            action.set_hard_timeout(timeout)
        return _content(box.run_action(action))

    async def run(self, box: Any, command: str, timeout: float | None = None) -> str:
        return await asyncio.to_thread(self._run, box, command, timeout)

    @contextmanager
    def blocking(self, box: Any) -> Iterator[Callable[[str], object]]:
        yield lambda command: self._run(box, command)

    def about(self, box: Any) -> dict[str, str]:
        key, workspace = getattr(box, "session_api_key", None), box.config.workspace_mount_path_in_sandbox
        return {"url": box.action_execution_server_url, "key": key or "", "workspace": workspace}

    async def copy_to(self, box: Any, source: str, directory: str, is_tree: bool) -> None:
        await asyncio.to_thread(box.copy_to, source, directory, is_tree)

    async def copy_from(self, box: Any, directory: str) -> object:
        return await asyncio.to_thread(box.copy_from, directory)

    async def stop(self, box: Any) -> None:
        await asyncio.to_thread(box.close)


class SweRexClient(HostClient):
    """Deployments, each with one session of bash."""

    def load(self) -> None:
        self._abstract: Any = importlib.import_module("swerex.runtime.abstract")
        self._local: Any = importlib.import_module("swerex.deployment.local").LocalDeployment
        self._docker: Any = importlib.import_module("swerex.deployment.docker").DockerDeployment

    async def start(self, kind: str) -> Any:
        arguments = [f"--label=benchmark={self.mark}", *self.docker_args]
        container = {"image": self.image, "pull": "never", "docker_args": arguments}
        deployment = self._docker(**container) if kind == CONTAINER else self._local()
        self.opened.append(deployment)
        await deployment.start()
        await deployment.runtime.create_session(self._abstract.CreateBashSessionRequest())
        return deployment

    async def run(self, box: Any, command: str, timeout: float | None = None) -> str:
        action = self._abstract.BashAction(command=command, timeout=600)  # which checks the exit code
        return str((await box.runtime.run_in_session(action)).output)

    async def stop(self, box: Any) -> None:
        await box.stop()
