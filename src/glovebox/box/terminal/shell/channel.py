"""The seam between a shell's bytes and what they mean: who owns the terminal does not matter above it."""

from __future__ import annotations

from typing import Protocol

from glovebox.box.terminal.output.log import LogFiles


class Receiver(Protocol):
    """Who is told what a terminal's shell does."""

    def received(self, data: bytes, offset: int) -> None:
        """The terminal printed something; `offset` is its place in the session's log.

        No data means that what was printed before `offset` is lost.
        """

    def hung_up(self, status: int | None) -> None:
        """The shell is gone; its exit status (128 + signal if killed) if that is known. Comes once, last."""


class Channel(Protocol):
    """A terminal with a shell in it."""

    @property
    def number(self) -> int:
        """What tells this terminal from all others."""

    @property
    def pid(self) -> int: ...

    @property
    def files(self) -> LogFiles:
        """Where everything it prints is kept."""

    @property
    def position(self) -> int:
        """The place in the log up to which the receiver has been told."""

    @property
    def inputs(self) -> int:
        """How many inputs were sent so far."""

    def write(self, data: bytes, token: str = "") -> None:
        """Type something; never blocks.

        With a token it begins a command: the marks of its end are confirmed from now on, and what it prints
        may be told in one piece if it ends soon.
        """

    def confirmed(self, offset: int) -> bool:
        """Whether the end mark at this place of the log was printed by the shell itself."""

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal."""

    async def close(self) -> None:
        """End the shell and everything it started."""


class Connect(Protocol):
    """Starts shells."""

    async def __call__(self, *, rcfile: str, token: str, cwd: str, log: str, receiver: Receiver) -> Channel:
        """Start a bash in a directory and connect it; what it prints goes to files in `log` too.

        `token` is the one with which it tells that it has started.

        Raises:
            OSError: it could not be started.
        """
