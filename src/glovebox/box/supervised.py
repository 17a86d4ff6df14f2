"""Processes of capabilities: started once for all callers, restarted, adopted after the server restarted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from glovebox.box.services import Keeper, ServiceProcess
from glovebox.errors import GloveboxError, PluginFailed

T = TypeVar("T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

#: Seconds between attempts to connect to a process that is starting.
_RETRY = 0.02
_MOST_DOUBLINGS = 20


class Supervised(Generic[T]):
    """Something that is started once for all concurrent callers, and again when it is no longer alive.

    A start continues when its callers are cancelled; `stop` cancels it.
    """

    def __init__(
        self, start: Callable[[], Coroutine[Any, Any, T]], is_alive: Callable[[T], bool] = lambda _: True
    ) -> None:
        self.current: T | None = None
        self._start = start
        self._is_alive = is_alive
        self._task: asyncio.Task[T] | None = None

    @property
    def starting(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def alive(self) -> T | None:
        """The current one if it can be used; None while another is started."""
        if self.starting or self.current is None or not self._is_alive(self.current):
            return None
        return self.current

    async def get(self) -> T:
        """The current one, started if none is alive. Raises what the start raises.

        Raises:
            PluginFailed: it was stopped during the start.
        """
        if (alive := self.alive) is not None:
            return alive
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            # Callers raise a failure; without any, it is not worth a warning.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        task = self._task
        await asyncio.wait([task])
        if task.cancelled():
            raise PluginFailed("It was stopped while it started.")
        return task.result()

    async def stop(self) -> None:
        """Cancel a start that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> T:
        started = self.current = await self._start()
        return started


async def keep_process(keeper: Keeper, name: str, arguments: Sequence[str], **options: Any) -> ServiceProcess:
    """Start a process, in place of one that an earlier server left under its name.

    Raises:
        OSError: it could not be started.
    """
    if left := keeper.kept(name):
        await left.close()
    starting = asyncio.ensure_future(keeper.keep(name, arguments, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await (await starting).close()  # half started, it could not be ended
        raise


async def until_ready(ready: Awaitable[T], close: Callable[[], Awaitable[None]]) -> T:
    """Wait until a new process is ready; `close` ends one that fails."""
    try:
        return await ready
    except (GloveboxError, OSError, asyncio.CancelledError):
        await close()
        raise


async def adopt_process(
    left: ServiceProcess | None, rejoin: Callable[[ServiceProcess], Awaitable[T | None]]
) -> T | None:
    """Take over a process that an earlier server left, if `rejoin` can use it; else end it."""
    if left is None:
        return None
    with contextlib.suppress(GloveboxError, OSError):
        if (found := await rejoin(left)) is not None:
            return found
    await left.close()
    return None


async def end_unknown(keeper: Keeper, prefix: str, known: Collection[str]) -> None:
    """End processes of an earlier server whose names begin with `prefix` and are not known."""
    for name in keeper.names():
        if name.startswith(prefix) and name not in known and (left := keeper.kept(name)):
            await left.close()


async def connect(process: ServiceProcess, socket: str, limit: float, buffer: int = 1 << 16) -> Streams:
    """Connect to a socket in the directory of a process, as soon as the process listens there.

    Raises:
        OSError: it has ended, or does not listen within `limit` seconds.
    """
    path = os.path.join(process.directory, socket)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit
    while True:
        try:
            return await asyncio.open_unix_connection(path, limit=buffer)
        except OSError:
            await asyncio.wait([process.exited], timeout=_RETRY)
            if process.exited.done() or loop.time() > deadline:
                raise


def spawn(
    tasks: set[asyncio.Task[T]], work: Coroutine[Any, Any, T], name: str | None = None
) -> asyncio.Task[T]:
    """Run something in the background; it is in `tasks` until it is done."""
    task = asyncio.create_task(work, name=name)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def race(*awaitables: Awaitable[Any], limit: float | None = None) -> bool:
    """Wait until one is done and cancel the others; False if none was within `limit` seconds."""
    tasks = [asyncio.ensure_future(one) for one in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()


def describe_exit(process: ServiceProcess) -> str:
    """How a process ended, for people."""
    status = process.exited.result()
    return "ended" if status is None else f"ended with exit status {status}"


def back_off(failures: int, first: float, longest: float) -> float:
    """How long to wait before a restart: twice as long after each failure, give or take a fifth."""
    pause: float = first * 2 ** min(failures - 1, _MOST_DOUBLINGS)
    return min(pause, longest) * random.uniform(0.8, 1.2)  # noqa: S311
