"""OpenHands' own client, measured in its own interpreter."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.boxes.peer import CONTAINER, PROCESS, SYNC, Begun, Means, Stopwatch, serve

_KINDS = {PROCESS: "local", CONTAINER: "docker"}
#: More than it would have by itself, so that none of twenty waits for a thread.
_THREADS = 64


class OpenHandsPeer:
    """Runtimes made as OpenHands makes them: the class by its name, `connect`, `run_action`."""

    def __init__(self, means: Means) -> None:
        self._means = means
        # Its local server listens on all interfaces, and asks for a key only if there is one.
        os.environ["SESSION_API_KEY"] = uuid.uuid4().hex
        config: Any = importlib.import_module("openhands.core.config")
        self._config = config.OpenHandsConfig
        self._command = importlib.import_module("openhands.events.action").CmdRunAction
        self._setup: Any = importlib.import_module("openhands.core.setup")
        # It imports a runtime when it is first asked for one; an import is not what is measured.
        for kind in _KINDS.values():
            importlib.import_module("openhands.runtime").get_runtime_cls(kind)
        self._runner = asyncio.Runner()
        self._runner.get_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        self._open: list[Any] = []
        self._last: Any = None

    def begin(self, kind: str) -> Begun:
        return self._runner.run(self._begin(kind))

    async def _begin(self, kind: str) -> Begun:
        watch = Stopwatch()
        runtime = self._made(kind)
        await runtime.connect()
        watch.connect()
        answer = await asyncio.to_thread(runtime.run_action, self._command(command="echo first"))
        begun = watch.answer(
            answer.content,
            "first",
            url=runtime.action_execution_server_url,
            key=getattr(runtime, "session_api_key", None) or "",
            workspace=runtime.config.workspace_mount_path_in_sandbox,
        )
        self._last = runtime
        return begun

    def _made(self, kind: str) -> Any:
        config = self._config(
            runtime=_KINDS[kind],
            enable_browser=False,
            run_as_openhands=False,
            file_store="memory",
        )
        config.sandbox.runtime_container_image = self._means.image or None
        config.sandbox.runtime_binding_address = "127.0.0.1"
        config.sandbox.docker_runtime_kwargs = {"labels": {"benchmark": self._means.mark}}
        runtime = self._setup.create_runtime(config, sid=f"bench-{uuid.uuid4().hex[:12]}")
        if not self._means.has_plugins:
            runtime.plugins = []
        self._open.append(runtime)
        return runtime

    def crowd(self, kind: str, number: int) -> float:
        return self._runner.run(self._crowd(kind, number))

    async def _crowd(self, kind: str, number: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(self._begin(kind) for _ in range(number)))
        return time.perf_counter() - began

    def commands(self, number: int, way: str) -> list[float]:
        if way != SYNC:
            raise NotImplementedError("its client blocks")
        taken = []
        for _ in range(number):
            began = time.perf_counter()
            answer = self._last.run_action(self._command(command="true"))
            if answer.exit_code != 0:
                raise RuntimeError(f"wrong answer to `true`: {answer.content[:100]!r}")
            taken.append(1000 * (time.perf_counter() - began))
        return taken

    def output(self, command: str) -> str:
        action = self._command(command=command)
        action.set_hard_timeout(600)
        content: str = self._last.run_action(action).content
        return content

    def copy_in(self, source: str, directory: str, is_tree: bool) -> float:
        began = time.perf_counter()
        self._last.copy_to(source, directory, recursive=is_tree)
        return time.perf_counter() - began

    def copy_out(self, directory: str) -> tuple[float, str]:
        began = time.perf_counter()
        archive = self._last.copy_from(directory)
        return time.perf_counter() - began, str(archive)

    def end(self) -> None:
        opened, self._open, self._last = self._open, [], None
        with ThreadPoolExecutor(max(1, len(opened))) as threads:
            list(threads.map(lambda runtime: runtime.close(), opened))


if __name__ == "__main__":
    serve(OpenHandsPeer, int(sys.argv[1]))
