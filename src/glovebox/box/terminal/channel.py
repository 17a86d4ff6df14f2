"""The seam between a shell's bytes and what they mean: who owns the terminal does not matter above it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class Receiver(Protocol):
    """Who is told what a terminal's shell does."""

    def received(self, data: bytes) -> None:
        """The terminal printed something."""

    def hung_up(self, status: int | None) -> None:
        """The shell is gone; its exit status (128 + signal if killed) if that is known. Comes once, last."""


class Channel(Protocol):
    """A terminal with a shell in it."""

    @property
    def pid(self) -> int:
        """The shell's process id."""

    def write(self, data: bytes) -> None:
        """Type something; never blocks."""

    async def close(self) -> None:
        """End the shell and everything it started."""


#: `await connect(rcfile, cwd, receiver)` starts a bash in a directory and connects it.
Connect = Callable[[str, str, Receiver], Awaitable[Channel]]
