"""A pool of boxes that are started in advance."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from types import TracebackType
from typing import Self

from msgspec import structs

from glovebox.client.backend import Backend, BoxInfo, ProgressReport, Sandbox, Silent
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadSpec, GloveboxError

log = logging.getLogger(__name__)


class WarmPool:
    """A backend that keeps boxes of one spec ready.

    A box has its name, key and labels from its start, so only a start with the spec of the pool gets a warm
    box; others are started by the backend. Closing the pool deletes its unused boxes; those of a killed
    client are swept like any other box.
    """

    def __init__(self, backend: Backend, spec: BoxSpec, size: int) -> None:
        """`spec` is that of all boxes of the pool: without a name, a key or a fixed port.

        Raises:
            BadSpec: it has one of these.
        """
        if spec.name or spec.key or spec.port or any(spec.ports.values()):
            raise BadSpec("The boxes of a pool cannot share a name, a key or a port: leave them open.")
        if size < 1:
            raise BadSpec(f"A pool holds one box at least, not {size}.")
        self._backend = backend
        self._spec = spec
        self._size = size
        #: Boxes that are ready or starting, the oldest first.
        self._warm: deque[asyncio.Task[Sandbox]] = deque()
        self._closed = False

    async def __aenter__(self) -> Self:
        self.fill()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        return self._backend.name

    @property
    def ready(self) -> int:
        """The number of boxes that are ready."""
        return sum(_is_ready(task) for task in self._warm)

    def fill(self) -> None:
        """Start the missing boxes in the background."""
        while len(self._warm) < self._size and not self._closed:
            self._warm.append(asyncio.create_task(self._backend.start(self._spec, Silent())))

    async def start(self, spec: BoxSpec, report: ProgressReport) -> Sandbox:
        """Return a warm box if the spec is that of the pool, else start one."""
        for _ in range(self._size):
            if not self._warm or not self._fits(spec):
                break
            task = self._warm.popleft()
            self.fill()
            sandbox = await self._result(task)
            if sandbox is None:
                continue
            if (await sandbox.info()).state == "running":
                return sandbox
            await sandbox.delete()  # it has died meanwhile
        return await self._backend.start(spec, report)

    async def _result(self, task: asyncio.Task[Sandbox]) -> Sandbox | None:
        """The box of a task, or None if it could not be started."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # the pool was closed
                return None
            self._warm.appendleft(task)  # the caller was cancelled; the next one gets the box
            raise
        except GloveboxError as error:
            log.warning("a box of the pool could not be started: %s", error)
            return None

    async def attach(self, name: str) -> Sandbox:
        return await self._backend.attach(name)

    async def boxes(self) -> list[BoxInfo]:
        """All boxes of the backend, also those that are ready."""
        return await self._backend.boxes()

    async def sweep(self) -> list[str]:
        return await self._backend.sweep()

    async def close(self) -> None:
        """Delete unused boxes, and close the backend. Idempotent."""
        self._closed = True
        warm, self._warm = list(self._warm), deque()
        for task in warm:
            task.cancel()  # which also ends a start
        if warm:
            await asyncio.wait(warm)
        await asyncio.gather(*(task.result().delete() for task in warm if _is_ready(task)))
        await self._backend.close()

    def _fits(self, spec: BoxSpec) -> bool:
        return structs.replace(spec, start_limit=self._spec.start_limit) == self._spec and not self._closed


def _is_ready(task: asyncio.Task[Sandbox]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
