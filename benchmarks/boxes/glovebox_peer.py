"""The client of this project, measured in a process of its own."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from benchmarks.boxes.peer import (
    ASYNC,
    BUBBLEWRAP,
    CONTAINER,
    POOL,
    PROCESS,
    Begun,
    Means,
    Stopwatch,
    serve,
)
from glovebox import BoxSpec, Runtime, SyncRuntime
from glovebox.backends.pool import WarmPool
from glovebox.client import registry, transfer
from glovebox.client.backend import Backend
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.settings import host

_POOL_SIZE = 1
_POOL_LIMIT = 60.0


class GloveboxPeer:
    """`Runtime`, used as its documentation says."""

    def __init__(self, means: Means) -> None:
        labels = {"benchmark": means.mark}
        docker = BoxSpec(image=means.image, labels=labels)
        self._boxes: dict[str, tuple[str, BoxSpec]] = {
            PROCESS: ("process", BoxSpec()),
            BUBBLEWRAP: ("process", BoxSpec(isolation="bubblewrap")),
            CONTAINER: ("docker", docker),
            POOL: ("docker", docker),
        }
        self._runner = asyncio.Runner()
        self._open: list[Runtime] = []
        self._pool: WarmPool | None = None
        self._last: Runtime | None = None

    def begin(self, kind: str) -> Begun:
        return self._runner.run(self._begin(kind))

    async def _begin(self, kind: str) -> Begun:
        name, spec = self._boxes[kind]
        backend: str | Backend = name
        if kind == POOL:
            backend = await self._warm(name, spec)
        watch = Stopwatch()
        runtime = Runtime(backend, spec)
        self._open.append(runtime)
        await runtime.connect()
        watch.connect()
        answer = await runtime.run("echo first")
        begun = watch.answer(
            answer.content,
            "first",
            url=runtime.url,
            key=runtime.session_api_key,
            workspace=runtime.workspace,
            name=runtime.name,
        )
        self._last = runtime
        return begun

    async def _warm(self, name: str, spec: BoxSpec) -> WarmPool:
        """A pool whose boxes are ready."""
        if self._pool is None:
            self._pool = WarmPool(registry.backend(name, host.load()), spec, _POOL_SIZE)
            self._pool.fill()
        async with asyncio.timeout(_POOL_LIMIT):
            while self._pool.ready < _POOL_SIZE:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        return self._pool

    def crowd(self, kind: str, number: int) -> float:
        return self._runner.run(self._crowd(kind, number))

    async def _crowd(self, kind: str, number: int) -> float:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(self._begin(kind))
        return time.perf_counter() - began

    def commands(self, number: int, way: str) -> list[float]:
        runtime = self._chosen()
        if way == ASYNC:
            return self._runner.run(_timed(runtime, number))
        with SyncRuntime(runtime.url, key=runtime.session_api_key) as blocking:
            return [_milliseconds(lambda: _check(blocking.run("true"))) for _ in range(number)]

    def output(self, command: str) -> str:
        return self._runner.run(self._chosen().run(command, timeout=600)).content

    def copy_in(self, source: str, directory: str, is_tree: bool) -> float:
        copy = transfer.copy_to(self._chosen(), source, directory, recursive=is_tree)
        return _milliseconds(lambda: self._runner.run(copy)) / 1000

    def copy_out(self, directory: str) -> tuple[float, str]:
        began = time.perf_counter()
        archive = self._runner.run(transfer.copy_from(self._chosen(), directory))
        return time.perf_counter() - began, str(archive)

    def end(self) -> None:
        self._last = None
        self._runner.run(self._end())

    async def _end(self) -> None:
        opened, self._open = self._open, []
        pool, self._pool = self._pool, None
        await asyncio.gather(*(runtime.close() for runtime in opened))
        if pool is not None:
            await pool.close()

    def _chosen(self) -> Runtime:
        assert self._last is not None
        return self._last


async def _timed(runtime: Runtime, number: int) -> list[float]:
    taken = []
    for _ in range(number):
        began = time.perf_counter()
        _check(await runtime.run("true"))
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def _check(answer: CmdOutputObservation | ErrorObservation) -> None:
    if not isinstance(answer, CmdOutputObservation) or answer.metadata.exit_code != 0:
        raise RuntimeError(f"wrong answer to `true`: {answer.content[:100]!r}")


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    serve(GloveboxPeer, int(sys.argv[1]))
