"""Blocking work leaves the event loop here.

Most of it is short: a small file, a stat. Python runs one thread at a time, so several threads that do such
work mostly hand the interpreter to each other, and everything gets slower. Hence one thread does the work as
long as it keeps up; when it is stuck, at a slow disk or a long walk, others help until nothing waits.
"""

from __future__ import annotations

import asyncio
import functools
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Work that nobody has begun for this long needs another thread.
PATIENCE = 0.005


class _Job(NamedTuple):
    future: asyncio.Future[Any]
    call: Callable[[], Any]


class Threads:
    """A named pool for blocking calls of one event loop, closed with its owner."""

    def __init__(self, name: str, workers: int) -> None:
        self._name = name
        self._most = workers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._telling = False
        self._counting = threading.Lock()
        self._workers = 0
        self._begun = 0
        self._watch: asyncio.TimerHandle | None = None
        self._closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await `call(*args, **kwargs)` in a thread of the pool.

        Raises:
            RuntimeError: the pool is closed.
        """
        if self._closed:
            raise RuntimeError(f"the threads of {self._name} are closed")
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(future, functools.partial(call, *args, **kwargs)))
        if self._workers == 0:
            self._add_worker(stays=True)
        if self._watch is None:
            self._watch = loop.call_later(PATIENCE, self._relieve, self._begun)
        return await future

    def close(self) -> None:
        """Let accepted calls end and refuse new ones."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
        self._jobs.put(None)

    def _relieve(self, begun: int) -> None:
        """Add a thread if nothing has been begun since the last look although something waits."""
        self._watch = None
        if self._jobs.empty() or self._closed or self._loop is None:
            return
        if self._begun == begun and self._workers < self._most:
            self._add_worker(stays=False)
        self._watch = self._loop.call_later(PATIENCE, self._relieve, self._begun)

    def _add_worker(self, *, stays: bool) -> None:
        with self._counting:
            self._workers += 1
        name = f"{self._name}-{self._workers}"
        # A thread that hangs in the kernel must not keep the process from ending.
        threading.Thread(target=self._work, args=(stays,), name=name, daemon=True).start()

    def _work(self, stays: bool) -> None:
        while True:
            try:
                job = self._jobs.get(block=stays)
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)  # for whoever else is there
                break
            self._begun += 1
            self._do(job)
        with self._counting:
            self._workers -= 1

    def _do(self, job: _Job) -> None:
        result, error = None, None
        try:
            result = job.call()
        except BaseException as raised:  # noqa: BLE001  not swallowed: it is raised again where the call is awaited
            error = raised
        self._done.append((job.future, result, error))
        if not self._telling and self._loop is not None:
            self._telling = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:  # the loop is gone, and with it whoever waited
                return

    def _tell(self) -> None:
        """Hand out all results there are: under load, one turn of the loop serves many."""
        self._telling = False
        while self._done:
            future, result, error = self._done.popleft()
            if future.done():  # whoever waited has gone away
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
