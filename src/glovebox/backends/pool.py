"""Boxes that are started before anybody asks for them."""

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
    """Keeps some boxes of one kind ready, and hands them out as a backend does.

    A box has its name, its key and its labels from its start, so only who asks for the very spec of the pool
    gets one of them; anything else is started as it is asked for. It ends what nobody has got when it is
    closed; what a client that was killed had ready is swept like any other box.
    """

    def __init__(self, backend: Backend, spec: BoxSpec, size: int) -> None:
        """`spec` is what all boxes of the pool are like: without a name, a key or a fixed port.

        Raises:
            BadSpec: only one box could be like that.
        """
        if spec.name or spec.key or spec.port or any(spec.ports.values()):
            raise BadSpec("The boxes of a pool cannot share a name, a key or a port: leave them open.")
        if size < 1:
            raise BadSpec(f"A pool holds one box at least, not {size}.")
        self._backend = backend
        self._spec = spec
        self._size = size
        #: Boxes that are ready or will be, the oldest first.
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
        """That of the backend behind it."""
        return self._backend.name

    @property
    def ready(self) -> int:
        """How many boxes can be handed out at once."""
        return sum(_is_ready(task) for task in self._warm)

    def fill(self) -> None:
        """Begin to start what is missing."""
        while len(self._warm) < self._size and not self._closed:
            self._warm.append(asyncio.create_task(self._backend.start(self._spec, Silent())))

    async def start(self, spec: BoxSpec, report: ProgressReport) -> Sandbox:
        """Hand out a box that is ready or will soon be, or start one if none can be like that.

        Raises:
            BackendError: it cannot be; the text says why and what to do.
        """
        for _ in range(self._size):
            if not self._warm or not self._fits(spec):
                break
            task = self._warm.popleft()
            self.fill()
            sandbox = await self._got(task)
            if sandbox is None:
                continue
            if (await sandbox.info()).state == "running":
                return sandbox
            await sandbox.delete()  # it has died while it was waiting
        return await self._backend.start(spec, report)

    async def _got(self, task: asyncio.Task[Sandbox]) -> Sandbox | None:
        """The box that a task starts, or None if it cannot be."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # the pool was closed
                return None
            self._warm.appendleft(task)  # who asked for it has gone; it is for the next one
            raise
        except GloveboxError as error:
            log.warning("a box of the pool could not be started: %s", error)
            return None

    async def attach(self, name: str) -> Sandbox:
        """The box of that name, whoever started it.

        Raises:
            NoSuchBox: there is none.
        """
        return await self._backend.attach(name)

    async def boxes(self) -> list[BoxInfo]:
        """All boxes of the backend behind it, also those that are ready."""
        return await self._backend.boxes()

    async def sweep(self) -> list[str]:
        """Remove boxes whose client is gone and that are not to be kept; their names."""
        return await self._backend.sweep()

    async def close(self) -> None:
        """End what nobody has got, and close the backend. Idempotent."""
        self._closed = True
        warm, self._warm = list(self._warm), deque()
        for task in warm:
            task.cancel()  # which ends one that is being started
        if warm:
            await asyncio.wait(warm)
        await asyncio.gather(*(task.result().delete() for task in warm if _is_ready(task)))
        await self._backend.close()

    def _fits(self, spec: BoxSpec) -> bool:
        return structs.replace(spec, start_limit=self._spec.start_limit) == self._spec and not self._closed


def _is_ready(task: asyncio.Task[Sandbox]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
