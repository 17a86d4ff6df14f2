"""The seam for processes that live as long as the box, and for programs that callers start.

They run as the sandbox user and end with the box, together with their children. Where shells outlive a server
that is killed, these processes do too, and the next server finds them by name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from glovebox.protocol.terminal import Limits

if TYPE_CHECKING:
    import asyncio
    import socket
    import subprocess


class Activity:
    """When the box was last used: by an action, or by a request that does as much."""

    def __init__(self) -> None:
        self.last = time.time()

    def touch(self) -> None:
        self.last = time.time()


class Launched(Protocol):
    """The holder process, started before the rest of the box is loaded."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...

    @property
    def connection(self) -> socket.socket: ...

    def order(self, arguments: list[str]) -> None:
        """Send it its arguments. Without them it ends with its parent."""


class ServiceProcess(Protocol):
    """A process of the sandbox user, in a session of its own."""

    @property
    def name(self) -> str:
        """The name that it was started under."""

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group and session."""

    @property
    def directory(self) -> str:
        """A private directory of that user with a short path, removed when the process is closed."""

    @property
    def exited(self) -> asyncio.Future[int | None]:
        """Done when it has ended: its exit status, 128 + signal if it was killed, None if that is unknown."""

    def signal(self, number: int) -> None:
        """Send a signal to its process group, unless it has ended."""

    async def printed(self, most: int = 4096) -> str:
        """The last `most` bytes of its output."""

    async def close(self) -> None:
        """End it and everything it started. A second call does nothing."""


class Keeper(Protocol):
    """Starts such processes and finds them again."""

    async def keep(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        pipes: bool = False,
    ) -> ServiceProcess:
        """Start a process under a name that is free: letters, digits, dots and dashes.

        It sees the environment of commands and, on top, `environment`. `files` are put into its directory
        before it starts. `{directory}` in arguments, environment and files becomes the path of that
        directory. Its standard input is empty; with `pipes`, input and output are the named pipes `in` and
        `out` in that directory, whose other ends the caller opens, and the first line of output is empty.

        Raises:
            OSError: it could not be started.
        """

    def kept(self, name: str) -> ServiceProcess | None:
        """A process of that name: one started here, or one that an earlier server left."""

    def names(self) -> list[str]:
        """The names of all processes."""

    def state_file(self, name: str) -> str | None:
        """Where state for the next server can be written; None if processes end with this one."""


class ProgramSpec(msgspec.Struct, kw_only=True, frozen=True):
    """A program to start without a shell."""

    #: A word that is no other program's.
    name: str
    arguments: list[str]
    cwd: str
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: Without the environment of commands.
    bare: bool = False
    #: Empty for the sandbox user.
    user: str = ""
    #: The first bytes of its standard input.
    stdin: bytes = b""
    #: More of them follow.
    stdin_open: bool = False
    timeout: float | None = None
    limits: Limits | None = None
    #: Rows and columns of its terminal; without them it has pipes.
    size: tuple[int, int] | None = None
    #: How many bytes of each stream are kept.
    keep: int = 1 << 30
    #: What the next server wants to know of it.
    label: str = ""


class ProgramResult(msgspec.Struct, kw_only=True, frozen=True):
    """How a program ended."""

    #: None if a signal killed it, or if it is not known.
    code: int | None
    signal: int
    #: Why it was ended, if it did not end by itself: `timeout`, `limit`, `signal` or `lost`.
    reason: str
    detail: str
    #: Seconds since 1970.
    ended: float
    cpu_seconds: float | None
    peak_memory: int | None


class StartedProgram(Protocol):
    """A program that runs or has ended. Its streams are 0 (standard output) and 1 (standard error)."""

    @property
    def label(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def sizes(self) -> tuple[int, int]:
        """How much it has printed to each stream."""

    @property
    def result(self) -> ProgramResult | None:
        """Set when it has ended; what it had printed by then is counted in `sizes`."""

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when `result` is set."""

    @property
    def stdin_taken(self) -> int:
        """How many bytes were taken for its standard input."""

    @property
    def stdin_waiting(self) -> int:
        """How many of them it has not read yet."""

    @property
    def stdin_open(self) -> bool:
        """Whether more can be written to it."""

    async def changed(self) -> None:
        """Wait until it has printed, read or ended."""

    async def read(self, stream: int, offset: int, limit: int) -> bytes:
        """Some of what it printed; empty at the end.

        Raises:
            OutputGone: so old output is not kept.
        """

    def oldest(self, stream: int) -> int:
        """The offset of the oldest output that is kept."""

    def following(self, stream: int, offset: int) -> int:
        """Where the output goes on after a part that is not kept."""

    def write(self, data: bytes) -> None:
        """Add bytes to its standard input."""

    def close_stdin(self) -> None: ...

    def signal(self, number: int, reason: str = "", detail: str = "") -> None:
        """Send a signal to its process group. With a reason, whatever is left of it is killed soon after."""

    def resize(self, rows: int, columns: int) -> None: ...

    async def close(self) -> None:
        """Kill it and everything it started, and forget it."""

    def forget(self) -> None:
        """Remove the output of a program that has ended; what it left running goes on."""


class Starter(Protocol):
    """Starts programs, and has those of an earlier server."""

    async def start(self, spec: ProgramSpec) -> StartedProgram:
        """Start a program.

        Raises:
            ProcessError: it could not be started.
        """

    def started(self) -> Sequence[StartedProgram]:
        """Those that an earlier server started."""

    def enforce(self, program: StartedProgram, limits: Limits) -> None:
        """Keep one of these to its limits."""
