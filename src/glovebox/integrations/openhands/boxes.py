"""The boxes of conversations, and the event loop they are managed on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, ParamSpec, TypeVar

from glovebox.client import registry
from glovebox.client.backend import Backend, ProgressReport, Sandbox
from glovebox.client.spec import BoxSpec
from glovebox.errors import BackendError, EngineUnavailable, NoSuchBox, NotSupported
from glovebox.integrations.openhands.config import Ports
from glovebox.settings.host import HostSettings

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConversationBox:
    """A box, and the backend it lives in."""

    backend: Backend
    sandbox: Sandbox
    ports: Ports


async def open_backend(settings: HostSettings, report: ProgressReport) -> Backend:
    """The backend of GLOVEBOX_BACKEND, else containers if an engine answers, else isolated processes.

    Raises:
        NoSuchBackend: there is none of that name.
        BackendError: no backend is named, and the one for containers cannot be loaded.
    """
    if settings.backend:
        return registry.open_backend(settings.backend, settings)
    try:
        return await registry.open_default(settings, report, with_image=False)
    except BackendError as error:
        # A user who has containers must not lose them because a library is missing.
        raise BackendError(f"{error} Or set GLOVEBOX_BACKEND=process.") from error


async def acquire(
    backend: Backend, spec: Callable[[], BoxSpec], name: str, report: ProgressReport, *, attach: bool
) -> ConversationBox:
    """The box of that name, started if there is none; it answers when this returns.

    Raises:
        NoSuchBox: there is none, and `attach` forbids to start one.
        BackendError: it could not be started.
    """
    try:
        sandbox = await backend.attach(name)
    except NoSuchBox:
        if attach:
            raise
        sandbox = await backend.start(spec(), report)
    else:
        await sandbox.resume()
    return ConversationBox(backend, sandbox, Ports.from_labels((await sandbox.info()).labels))


async def pause(held: ConversationBox) -> None:
    """Freeze a box, if its backend can."""
    try:
        await held.sandbox.pause()
    except NotSupported:
        return


async def end(held: ConversationBox, *, remove: bool) -> None:
    """End a box; without `remove` its files stay, and the next `acquire` starts it again."""
    try:
        await (held.sandbox.delete() if remove else held.sandbox.stop())
    except (NotSupported, NoSuchBox):
        return  # it was not started here, or is deleted already


async def delete(settings: HostSettings, name: str) -> None:
    """Remove the box of that name from the backend of GLOVEBOX_BACKEND, or from the default ones.

    Raises:
        BackendError: it is there and cannot be removed.
    """
    for place in (settings.backend,) if settings.backend else ("docker", "process"):
        try:
            backend = registry.open_backend(place, settings)
        except BackendError:
            if settings.backend:
                raise
            continue  # a backend that cannot be loaded has started no box
        try:
            await (await backend.attach(name)).delete()
            return
        except (NoSuchBox, EngineUnavailable):
            continue
        finally:
            await backend.close()


class Background:
    """An event loop in a thread, for callers that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_Executor(thread_name_prefix="glovebox"))
        # A daemon: the exit of OpenHands must not wait for it.
        threading.Thread(target=self._loop.run_forever, name="glovebox", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; this thread waits for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; the caller's loop continues. Cancelling this cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class _Executor(ThreadPoolExecutor):
    """Threads for blocking calls; at exit, when none can be started, calls run in the caller's thread."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(work, *args, **kwargs)
        except RuntimeError:
            done: Future[T] = Future()
            try:
                done.set_result(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - the future passes it to its owner
                done.set_exception(error)
            return done


@cache
def background() -> Background:
    """The loop that all runtimes of this process share."""
    return Background()
