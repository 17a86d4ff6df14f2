"""Blocking work leaves the event loop here.

Most of it is short: a small file, a stat. Python runs one thread at a time, so threads that do such work
while the loop is busy mostly hand the interpreter to each other, and everything gets slower. Hence the two
take turns: calls of one turn of the loop are handed over together, one thread does them in a row, and hands
the results back together. When that thread is stuck, at a slow disk or a long walk, others help until
nothing waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: Work that no thread has begun for this long needs another one.
PATIENCE = 0.005
#: Results are not kept back for longer than this.
HOLD = 0.001


class _Job(NamedTuple):
    future: asyncio.Future[Any]
    call: Callable[[], Any]


class Threads:
    """A named pool for blocking calls of one event loop, closed with its owner.

    `initializer` is called first in each thread. If it fails, that thread does no work: the calls that it
    would have done fail with the same error.
    """

    def __init__(self, name: str, workers: int, initializer: Callable[[], None] | None = None) -> None:
        self._name = name
        self._most = workers
        self._initializer = initializer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: deque[_Job] = deque()
        #: True wakes the thread that stays, False ends it.
        self._signal: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._signalling = False
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._telling = False
        self._counting = threading.Lock()
        self._workers = 0
        self._begun = 0
        #: Whether the last thread could not be started.
        self._is_short = False
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
        # With the caller's context: what is logged in the thread belongs to the same request.
        within = contextvars.copy_context().run
        self._jobs.append(_Job(future, functools.partial(within, call, *args, **kwargs)))
        if not self._signalling:
            self._signalling = True
            loop.call_soon(self._hand_over)
        return await future

    def close(self) -> None:
        """Let accepted calls end and refuse new ones."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
        self._signal.put(False)

    def _hand_over(self) -> None:
        """Wake the thread that stays, once for all calls of this turn."""
        self._signalling = False
        if self._workers == 0:
            self._add_worker(stays=True)
        self._signal.put(True)
        if self._watch is None and self._loop is not None:
            self._watch = self._loop.call_later(PATIENCE, self._relieve, self._begun)

    def _relieve(self, begun: int) -> None:
        """Add a thread if nothing has been begun since the last look although something waits."""
        self._watch = None
        self._tell()  # what was done right before something long is not kept back by that
        if not self._jobs or self._closed or self._loop is None:
            return
        if self._workers == 0:  # it could not be started before
            self._add_worker(stays=True)
        elif self._begun == begun and self._workers < self._most:
            self._add_worker(stays=False)
        self._watch = self._loop.call_later(PATIENCE, self._relieve, self._begun)

    def _add_worker(self, *, stays: bool) -> None:
        """Start a thread. Where the system has none left, work waits until `_relieve` gets one."""
        with self._counting:
            self._workers += 1
        name = f"{self._name}-{self._workers}"
        # A thread that hangs in the kernel must not keep the process from ending.
        thread = threading.Thread(target=self._work, args=(stays,), name=name, daemon=True)
        try:
            thread.start()
            self._is_short = False
        except RuntimeError as error:  # a limit of processes or memory
            with self._counting:
                self._workers -= 1
            if not self._is_short:
                log.warning("%s: work waits, for no thread can be started: %s", self._name, error)
            self._is_short = True

    def _work(self, stays: bool) -> None:
        unfit = None if self._initializer is None else _outcome(self._initializer)[1]
        while not stays or self._signal.get():
            self._do_all(unfit)
            if not stays:
                break
        else:
            self._do_all(unfit)  # what was accepted before the end
        with self._counting:
            self._workers -= 1

    def _do_all(self, unfit: BaseException | None) -> None:
        held_since = time.monotonic()
        while self._jobs:
            try:
                job = self._jobs.popleft()
            except IndexError:  # another thread was faster
                break
            self._begun += 1
            self._done.append((job.future, *(_outcome(job.call) if unfit is None else (None, unfit))))
            if time.monotonic() - held_since > HOLD:
                self._hand_back()
                held_since = time.monotonic()
        self._hand_back()

    def _hand_back(self) -> None:
        if self._done and not self._telling and self._loop is not None:
            self._telling = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:  # the loop is closed, and its futures with it
                return

    def _tell(self) -> None:
        self._telling = False
        while self._done:
            future, result, error = self._done.popleft()
            if future.done():  # it was cancelled
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


class Releasable:
    """Something that threads use one at a time, and that can be closed without waiting for them.

    If a thread is at work then, that thread releases it afterwards.
    """

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self.is_closed = False

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep other threads waiting; the work may look at `is_closed` to give up early."""
        try:
            with self._busy:
                yield
        finally:
            if self.is_closed:
                self.close()

    def close(self) -> None:
        """Release it, now or when the thread that uses it is done. A second call does nothing."""
        self.is_closed = True
        if self._busy.acquire(blocking=False):
            try:
                self._release()
            finally:
                self._busy.release()

    def _release(self) -> None:
        """Let go of what is held; called more than once."""
        raise NotImplementedError


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001  not swallowed: it is raised where the call is awaited
        return None, error
