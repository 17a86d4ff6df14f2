"""`SyncRuntime`: `Runtime` for callers that block.

Every method is `Runtime`'s own, run by an event loop in a thread that all share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from glovebox.client import loop
from glovebox.client.backend import RuntimeStatus, Sandbox
from glovebox.client.connection.events import Happening
from glovebox.client.connection.streaming import Progress
from glovebox.client.loop import LOOP, blocking_items
from glovebox.client.runtime import BoxFacts, Runtime
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.observations import ErrorObservation

P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[Runtime, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncRuntime, P], T]:
    """A method of `Runtime` as a blocking one."""

    @functools.wraps(method)
    def wait(self: SyncRuntime, /, *arguments: P.args, **named: P.kwargs) -> T:
        return LOOP.run(method(self._runtime, *arguments, **named))

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

    @classmethod
    def over(cls, runtime: Runtime) -> Self:
        """The blocking form of a runtime whose event loop is that of `loop.LOOP`."""
        made = cls.__new__(cls)
        made._runtime, made.spec = runtime, runtime.spec
        return made

    def connect(self) -> None:
        """Start the box, or attach to it, and wait until it answers. If this fails, nothing is left.

        Raises:
            GloveboxError: it failed; the class and the text say why.
        """
        loop.connect(self._runtime)

    def close(self) -> None:
        """Disconnect, and delete the box if it was started here without `keep`. Idempotent."""
        loop.close(self._runtime)

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
        return blocking_items(self._runtime.stream(action))

    def events(
        self, *, after: str = "", kinds: Iterable[str] = (), action_id: str = ""
    ) -> Iterator[Happening]:
        """The events of the box: stored ones from `after` on, then new ones."""
        return blocking_items(self._runtime.events(after=after, kinds=kinds, action_id=action_id))

    def download(
        self, path: str, *, query: Mapping[str, str] | None = None, limit: float = 300.0
    ) -> Iterator[bytes]:
        """The response body of an endpoint, in pieces."""
        return blocking_items(self._runtime.download(path, query=query, limit=limit))

    def port_url(self, port: int) -> str | None:
        """The address at which the host reaches a port of the box; None if it does not."""
        return self._runtime.port_url(port)

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
