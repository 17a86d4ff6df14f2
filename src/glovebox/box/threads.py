"""Blocking work leaves the event loop here."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """A named pool for blocking calls, closed with its owner."""

    def __init__(self, name: str, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await `call(*args, **kwargs)` in a thread of the pool."""
        job = functools.partial(call, *args, **kwargs) if kwargs or args else call
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)

    def close(self) -> None:
        """Let running calls end and refuse new ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)
