"""The seam between a runtime and the places where boxes live.

A backend starts a box from a spec and hands back a `Sandbox`: its address, and how to stop it. Nothing else
of a box is asked of a backend; everything that happens in a box goes over its API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Literal, Protocol

from glovebox.client.spec import BoxSpec
from glovebox.protocol.base import Message

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


class ProgressReport(Protocol):
    """Hears how a start goes on."""

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None:
        """A step begins or ends."""

    def progress(self, step: str, done: int, total: int | None) -> None:
        """So much of a step is done: bytes of a pull, say. `total` is None if nobody knows."""


class Silent:
    """A report that nobody hears."""

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None: ...

    def progress(self, step: str, done: int, total: int | None) -> None: ...


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
        """The lines that the box itself has printed; with `follow`, also what is to come until it ends."""


class Backend(Protocol):
    """A kind of place where boxes live. It is opened once, by whoever uses it, and closed after its boxes."""

    @property
    def name(self) -> str:
        """What it is called in entry points and on command lines."""

    async def start(self, spec: BoxSpec, report: ProgressReport) -> Sandbox:
        """Start a box; it answers when this returns. If this fails or is cancelled, nothing is left.

        Raises:
            BackendError: it cannot be; the text says why and what to do.
        """

    async def attach(self, name: str) -> Sandbox:
        """The box of that name, whoever started it. One that is stopped or paused is left so.

        Raises:
            NoSuchBox: there is none.
        """

    async def boxes(self) -> list[BoxInfo]:
        """All boxes here that this project has started, oldest first."""

    async def sweep(self) -> list[str]:
        """Remove boxes whose client is gone and that are not to be kept; their names."""

    async def close(self) -> None:
        """Let go of connections. Boxes stay. Idempotent."""
