"""SWE-ReX's own client, measured in its own interpreter."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from typing import Any

from benchmarks.boxes.peer import CONTAINER, PROCESS, Begun, Means, Stopwatch, serve


class SweRexPeer:
    """Deployments, each with one session of bash."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._abstract: Any = importlib.import_module("swerex.runtime.abstract")
        self._deployments: dict[str, Any] = {
            PROCESS: importlib.import_module("swerex.deployment.local").LocalDeployment,
            CONTAINER: importlib.import_module("swerex.deployment.docker").DockerDeployment,
        }
        self._runner = asyncio.Runner()
        self._open: list[Any] = []
        self._last: Any = None

    def begin(self, kind: str) -> Begun:
        return self._runner.run(self._begin(kind))

    async def _begin(self, kind: str) -> Begun:
        options: dict[str, Any] = {}
        if kind == CONTAINER:
            label = f"--label=benchmark={self._means.mark}"
            options = {"image": self._means.image, "pull": "never"}
            options["docker_args"] = [label, *self._means.docker_args]
        watch = Stopwatch()
        deployment = self._deployments[kind](**options)
        self._open.append(deployment)
        await deployment.start()
        await deployment.runtime.create_session(self._abstract.CreateBashSessionRequest())
        watch.connect()
        begun = watch.answer(await self._said(deployment, "echo first"), "first")
        self._last = deployment
        return begun

    async def _said(self, deployment: Any, command: str) -> str:
        action = self._abstract.BashAction(command=command, timeout=600)  # which checks the exit code
        output: str = (await deployment.runtime.run_in_session(action)).output
        return output

    def crowd(self, kind: str, number: int) -> float:
        return self._runner.run(self._crowd(kind, number))

    async def _crowd(self, kind: str, number: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(self._begin(kind) for _ in range(number)))
        return time.perf_counter() - began

    def commands(self, number: int, way: str) -> list[float]:
        return self._runner.run(self._commands(number))

    async def _commands(self, number: int) -> list[float]:
        taken = []
        for _ in range(number):
            began = time.perf_counter()
            await self._said(self._last, "true")
            taken.append(1000 * (time.perf_counter() - began))
        return taken

    def output(self, command: str) -> str:
        return self._runner.run(self._said(self._last, command))

    def copy_in(self, source: str, directory: str, is_tree: bool) -> float:
        raise NotImplementedError("not measured")

    def copy_out(self, directory: str) -> tuple[float, str]:
        raise NotImplementedError("not offered")

    def end(self) -> None:
        self._runner.run(self._end())

    async def _end(self) -> None:
        opened, self._open, self._last = self._open, [], None
        for deployment in opened:
            await deployment.stop()


if __name__ == "__main__":
    serve(SweRexPeer, int(sys.argv[1]))
