"""The seam for processes that live as long as the box.

They run as the sandbox user and end with the box, together with their children. Where shells outlive a server
that is killed, these processes do too, and the next server finds them by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    import socket
    import subprocess


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
