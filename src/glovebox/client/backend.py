"""The interfaces of the host's side: backends below a runtime, and the runtime below its functions.

A backend starts a box from a spec and returns a `Sandbox`: its address, and how to stop it. Everything that
happens in a box goes over the box's API.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from enum import StrEnum
from typing import Literal, Protocol

from glovebox.client.spec import BoxSpec
from glovebox.protocol.base import Action, Message, ObservationT
from glovebox.protocol.observations import ErrorObservation

log = logging.getLogger(__name__)

Level = Literal["info", "warning", "error"]
#: `missing`: it is gone, and only its name is left.
State = Literal["starting", "running", "paused", "stopped", "missing"]


class RuntimeStatus(StrEnum):
    """How far a runtime is, in the words of the contract."""

    STOPPED = "STATUS$STOPPED"
    BUILDING_RUNTIME = "STATUS$BUILDING_RUNTIME"
    STARTING_RUNTIME = "STATUS$STARTING_RUNTIME"
    RUNTIME_STARTED = "STATUS$RUNTIME_STARTED"
    SETTING_UP_WORKSPACE = "STATUS$SETTING_UP_WORKSPACE"
    SETTING_UP_GIT_HOOKS = "STATUS$SETTING_UP_GIT_HOOKS"
    READY = "STATUS$READY"
    ERROR = "STATUS$ERROR"
    ERROR_RUNTIME_DISCONNECTED = "STATUS$ERROR_RUNTIME_DISCONNECTED"


#: `callback(level, status, message)`, as the contract has it.
StatusCallback = Callable[[Level, RuntimeStatus, str], None]
#: `callback(step, done, total)`; `total` is None if it is not known.
ProgressCallback = Callable[[str, int, int | None], None]


#: Warnings that were logged.
_logged: set[str] = set()


class ProgressReport(Protocol):
    """Receives the progress of a start."""

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None:
        """A step begins or ends."""

    def progress(self, step: str, done: int, total: int | None) -> None:
        """So much of a step is done: bytes of a pull, say. `total` is None if it is not known."""


class Silent:
    """Discards progress."""

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None: ...

    def progress(self, step: str, done: int, total: int | None) -> None: ...


class Reporter:
    """Passes progress on to callbacks, and remembers the last status.

    Without a callback, warnings are logged, each once in a process; Python prints these to standard error.
    """

    def __init__(self, status: StatusCallback | None, progress: ProgressCallback | None) -> None:
        self.last = RuntimeStatus.STOPPED
        self._status = status
        self._progress = progress

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None:
        self.last = status
        if self._status is not None:
            self._status(level, status, message)
        elif level == "warning" and message not in _logged:
            _logged.add(message)
            log.warning("%s", message)

    def progress(self, step: str, done: int, total: int | None) -> None:
        if self._progress is not None:
            self._progress(step, done, total)


class Address(Message):
    """Where a box answers, and the key it wants."""

    url: str
    key: str = ""

    def __repr__(self) -> str:
        return f"Address({self.url!r})"  # logs must not have the key


class BoxInfo(Message):
    """A box, as its backend lists it."""

    name: str
    backend: str
    state: State
    #: Empty if it cannot be reached right now.
    url: str = ""
    image: str = ""
    workspace: str = ""
    #: Seconds since 1970.
    created: float = 0.0
    keep: bool = False
    labels: dict[str, str] = {}


class Sandbox(Protocol):
    """One box, wherever it lives."""

    @property
    def name(self) -> str:
        """Its name, unique in its backend."""

    @property
    def address(self) -> Address:
        """Where it answers. It may be another one after `resume`."""

    @property
    def workspace(self) -> str:
        """The path of the workspace, as the box sees it."""

    @property
    def ports(self) -> Mapping[int, str]:
        """Under which address the host reaches each published port of the box."""

    async def info(self) -> BoxInfo: ...

    async def pause(self) -> None:
        """Stop it for a while: it uses no CPU, and goes on with `resume`. Idempotent.

        Raises:
            NotSupported: this kind of box cannot.
        """

    async def resume(self) -> None:
        """Go on after `pause` or `stop`; it answers when this returns. Idempotent."""

    async def stop(self) -> None:
        """End what runs in it; its files stay until it is deleted. Idempotent."""

    async def delete(self) -> None:
        """End it and remove what it leaves, but no directory or volume that was given. Idempotent."""

    def logs(self, *, follow: bool = False) -> AsyncIterator[str]:
        """The lines that the box has printed; with `follow`, also later ones until it ends."""


class Backend(Protocol):
    """A place where boxes live. Its user opens it once, and closes it after its boxes."""

    @property
    def name(self) -> str:
        """Its name in entry points and on command lines."""

    async def start(self, spec: BoxSpec, report: ProgressReport) -> Sandbox:
        """Start a box; it answers when this returns. If this fails or is cancelled, nothing is left.

        Raises:
            BackendError: it could not be started; the text says why and what to do.
        """

    async def attach(self, name: str) -> Sandbox:
        """The box of that name, of any client. A stopped or paused one stays so.

        Raises:
            NoSuchBox: there is none.
        """

    async def boxes(self) -> list[BoxInfo]:
        """All boxes here that this project has started, oldest first."""

    async def sweep(self) -> list[str]:
        """Remove boxes whose client is gone, unless their spec says `keep`; their names."""

    async def close(self) -> None:
        """Close connections. Boxes stay. Idempotent."""


class BoxClient(Protocol):
    """What functions over a box need of a runtime."""

    @property
    def workspace(self) -> str:
        """The path of the workspace, as the box sees it."""

    @property
    def report(self) -> ProgressReport: ...

    async def execute(self, action: Action[ObservationT]) -> ObservationT | ErrorObservation:
        """Execute an action.

        Raises:
            GloveboxError: it could not be executed; its class says why.
        """

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: float = 60.0,
    ) -> bytes:
        """The response body of an endpoint. `body` is JSON; `limit` is the deadline in seconds.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
