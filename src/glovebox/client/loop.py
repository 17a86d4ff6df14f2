"""The event loop in a thread that runs everything for callers that block."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # its own end must come after ours
import functools
import logging
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from glovebox.errors import GloveboxError

if TYPE_CHECKING:
    from glovebox.client.runtime import Runtime

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
ItemT = TypeVar("ItemT", covariant=True)


class Relay:
    """Has callbacks called in the thread that waits, where they may use the box themselves."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def wrap(self, callback: Callable[P, object] | None) -> Callable[P, None] | None:
        """A callback for the loop that has the given one called in the thread that waits."""
        if callback is None:
            return None

        def later(*arguments: P.args, **named: P.kwargs) -> None:
            self._calls.put(functools.partial(callback, *arguments, **named))

        return later

    def serve(self, outcome: concurrent.futures.Future[T]) -> T:
        """Call what arrives until there is an outcome, which is returned."""
        outcome.add_done_callback(lambda _: self._calls.put(None))
        while (call := self._calls.get()) is not None:
            call()
        return outcome.result()


class BackgroundLoop:
    """An event loop in a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._finishing: set[asyncio.Task[None]] = set()

    def finish(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that cleans up. An iterator may be collected in any thread, also in the loop's."""
        if threading.current_thread() is not self._thread:
            self.run(coroutine)
            return
        task = asyncio.get_running_loop().create_task(coroutine)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    def run(self, coroutine: Coroutine[Any, Any, T], relay: Relay | None = None) -> T:
        """Run a coroutine. An interrupt or a failed callback cancels it, and waits for the cancellation."""
        loop = self._running()
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("A callback of a runtime cannot wait for a runtime: it would wait for itself.")
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(loop.create_task(coroutine))
            tasks[0].add_done_callback(functools.partial(_hand_over, outcome))

        loop.call_soon_threadsafe(start)
        with ExitStack() as unfinished:
            unfinished.callback(concurrent.futures.wait, [outcome])
            unfinished.callback(loop.call_soon_threadsafe, lambda: tasks[0].cancel())
            result = outcome.result() if relay is None else relay.serve(outcome)
            unfinished.pop_all()
        return result

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # threads do not follow into a fork
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="glovebox-runtimes", daemon=True
                )
                self._thread.start()
            return self._loop


def _hand_over(outcome: concurrent.futures.Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(concurrent.futures.CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


LOOP = BackgroundLoop()
#: Runtimes to close when the interpreter ends, and the processes that opened them.
_OPEN: dict[Runtime, int] = {}


def close_at_exit(runtime: Runtime) -> None:
    """Have a runtime closed when the interpreter ends, if it is not closed before."""
    _OPEN[runtime] = os.getpid()


def connect(runtime: Runtime) -> None:
    """Connect a runtime, which is closed when the interpreter ends if not before."""
    close_at_exit(runtime)
    with ExitStack() as unfinished:
        unfinished.callback(_OPEN.pop, runtime, None)
        LOOP.run(runtime.connect())
        unfinished.pop_all()


def close(runtime: Runtime) -> None:
    LOOP.run(runtime.close())
    _OPEN.pop(runtime, None)


def _close_all() -> None:
    for runtime, process in list(_OPEN.items()):
        del _OPEN[runtime]
        if process != os.getpid():  # a fork must not end the boxes of its parent
            continue
        try:
            LOOP.run(runtime.close())
        except GloveboxError as error:
            log.warning("A box may be left behind: %s", error)


# `atexit` handlers run when no thread can be started any more, and backends need some to delete boxes.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


class AsyncSource(Protocol[ItemT]):
    """An async iterator that can be closed."""

    def __anext__(self) -> Awaitable[ItemT]: ...

    def aclose(self) -> Coroutine[Any, Any, None]: ...


def blocking_items(source: AsyncSource[ItemT]) -> Iterator[ItemT]:
    """The items of an async iterator."""
    try:
        while True:
            try:
                yield LOOP.run(next_item(source))
            except IterationEnded:
                return
    finally:
        LOOP.finish(source.aclose())


class IterationEnded(Exception):
    """The end of an iterator: StopAsyncIteration cannot be set on a future."""


async def next_item(source: AsyncSource[ItemT]) -> ItemT:
    """The next item.

    Raises:
        IterationEnded: there is none.
    """
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        raise IterationEnded from None
