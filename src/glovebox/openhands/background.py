"""An event loop in a thread of its own.

OpenHands calls a runtime from many threads, each with a loop that may be gone a moment later, while the
connections of a backend belong to one loop for as long as they live.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, ParamSpec, TypeVar

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
