"""The seam for processes that live as long as the box does, whoever serves it.

They run as the sandbox user, end with the box and take along whatever they started. Where shells outlive a
server that is killed, they do too, and the next server finds them by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    import socket
    import subprocess


class Launched(Protocol):
    """The process that is to hold shells and all the others, started before the rest of the box is loaded."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...

    @property
    def connection(self) -> socket.socket: ...

    def order(self, arguments: list[str]) -> None:
        """Tell it what to do. Without that it ends with whoever started it."""


class ServiceProcess(Protocol):
    """A process of the sandbox user, in a session of its own."""

    @property
    def name(self) -> str:
        """What it was started as."""

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group and session."""

    @property
    def directory(self) -> str:
        """A private directory of that user with a short path, removed when the process is closed."""

    @property
    def exited(self) -> asyncio.Future[int | None]:
        """Done when it has ended: its exit status, 128 + signal if it was killed, None if nobody knows."""

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it runs in the foreground; to one that has ended, nothing."""

    async def printed(self, most: int = 4096) -> str:
        """The end of what it printed: why it could not start, say."""

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
        """The names of all of them."""

    def state_file(self, name: str) -> str | None:
        """Where something about them can be written for the next server; None if they end with this one."""
