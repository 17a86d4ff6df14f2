"""`SyncRuntime`: `Runtime` for callers that block.

Every method is `Runtime`'s own, run by an event loop in a thread that all share.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # its own end must come after ours
import functools
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from glovebox.client.backend import RuntimeStatus, Sandbox
from glovebox.client.connection.events import Happening
from glovebox.client.connection.streaming import Progress
from glovebox.client.runtime import BoxFacts, Runtime
from glovebox.errors import GloveboxError
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.observations import ErrorObservation

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
ItemT = TypeVar("ItemT", covariant=True)


class _Loop:
    """An event loop in a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine. An interrupt cancels it, and waits for the cancellation."""
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
        try:
            return outcome.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            concurrent.futures.wait([outcome])
            raise

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


_LOOP = _Loop()
#: Runtimes to close when the interpreter ends, and the processes that opened them.
_OPEN: dict[Runtime, int] = {}


def _close_all() -> None:
    for runtime, process in list(_OPEN.items()):
        del _OPEN[runtime]
        if process != os.getpid():  # a fork must not end the boxes of its parent
            continue
        try:
            _LOOP.run(runtime.close())
        except GloveboxError as error:
            log.warning("A box may be left behind: %s", error)


# `atexit` handlers run when no thread can be started any more, and backends need some to delete boxes.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


def blocking(
    method: Callable[Concatenate[Runtime, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncRuntime, P], T]:
    """A method of `Runtime` as a blocking one."""

    @functools.wraps(method)
    def wait(self: SyncRuntime, /, *arguments: P.args, **named: P.kwargs) -> T:
        return _LOOP.run(method(self._runtime, *arguments, **named))

    return wait


def _built_like(
    kind: Callable[P, Runtime],
) -> Callable[[Callable[[SyncRuntime, Runtime], None]], Callable[Concatenate[SyncRuntime, P], None]]:
    """Gives a constructor the parameters of another."""

    def like(
        constructor: Callable[[SyncRuntime, Runtime], None],
    ) -> Callable[Concatenate[SyncRuntime, P], None]:
        def build(self: SyncRuntime, /, *arguments: P.args, **named: P.kwargs) -> None:
            constructor(self, kind(*arguments, **named))

        return build

    return like


class _Source(Protocol[ItemT]):
    def __anext__(self) -> Awaitable[ItemT]: ...

    def aclose(self) -> Coroutine[Any, Any, None]: ...


def _items(source: _Source[ItemT]) -> Iterator[ItemT]:
    try:
        while True:
            try:
                yield _LOOP.run(_next(source))
            except _Ended:
                return
    finally:
        _LOOP.run(source.aclose())


class _Ended(Exception):
    """The end of an iterator: StopAsyncIteration cannot be set on a future."""


async def _next(source: _Source[ItemT]) -> ItemT:
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        raise _Ended from None


class SyncRuntime(BoxFacts):
    """A box and the connection to it.

        with SyncRuntime() as runtime:
            print(runtime.run("ls").content)

    Any number of threads may use it. What is left open is closed when the interpreter ends.
    Callbacks are called in another thread.
    """

    @_built_like(Runtime)
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.spec = runtime.spec

    def connect(self) -> None:
        """Start the box, or attach to it, and wait until it answers. If this fails, nothing is left.

        Raises:
            GloveboxError: it failed; the class and the text say why.
        """
        _OPEN[self._runtime] = os.getpid()
        with ExitStack() as unfinished:
            unfinished.callback(_OPEN.pop, self._runtime, None)
            _LOOP.run(self._runtime.connect())
            unfinished.pop_all()

    def close(self) -> None:
        """Disconnect, and delete the box if it was started here without `keep`. Idempotent."""
        _LOOP.run(self._runtime.close())
        _OPEN.pop(self._runtime, None)

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    pause = blocking(Runtime.pause)
    resume = blocking(Runtime.resume)
    alive = blocking(Runtime.alive)
    vscode_token = blocking(Runtime.vscode_token)
    vscode_url = blocking(Runtime.vscode_url)
    execute = blocking(Runtime.execute)
    run_action = blocking(Runtime.run_action)
    call = blocking(Runtime.call)
    upload = blocking(Runtime.upload)
    run = blocking(Runtime.run)
    run_ipython = blocking(Runtime.run_ipython)
    read = blocking(Runtime.read)
    write = blocking(Runtime.write)
    edit = blocking(Runtime.edit)
    browse = blocking(Runtime.browse)
    browse_interactive = blocking(Runtime.browse_interactive)
    call_tool_mcp = blocking(Runtime.call_tool_mcp)
    copy_to = blocking(Runtime.copy_to)
    copy_from = blocking(Runtime.copy_from)
    download_to = blocking(Runtime.download_to)
    list_files = blocking(Runtime.list_files)
    get_git_changes = blocking(Runtime.get_git_changes)
    get_git_diff = blocking(Runtime.get_git_diff)
    get_workspace_branch = blocking(Runtime.get_workspace_branch)
    add_env_vars = blocking(Runtime.add_env_vars)
    get_mcp_config = blocking(Runtime.get_mcp_config)

    def stream(self, action: Action[ObservationT]) -> Iterator[Progress | ObservationT | ErrorObservation]:
        """Execute an action and iterate over its events; the last item is its observation."""
        return _items(self._runtime.stream(action))

    def events(
        self, *, after: str = "", kinds: Iterable[str] = (), action_id: str = ""
    ) -> Iterator[Happening]:
        """The events of the box: stored ones from `after` on, then new ones."""
        return _items(self._runtime.events(after=after, kinds=kinds, action_id=action_id))

    def download(
        self, path: str, *, query: Mapping[str, str] | None = None, limit: float = 300.0
    ) -> Iterator[bytes]:
        """The response body of an endpoint, in pieces."""
        return _items(self._runtime.download(path, query=query, limit=limit))

    @property
    def timeout(self) -> float:
        """The limit of actions that have none, in seconds."""
        return self._runtime.timeout

    @property
    def status(self) -> RuntimeStatus:
        return self._runtime.report.last

    @property
    def runtime_initialized(self) -> bool:
        return self._runtime.runtime_initialized

    def _box(self) -> Sandbox:
        return self._runtime._box()
