"""What other capabilities may know of the shell."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from glovebox.protocol.events import Output


class MainShell(Protocol):
    """The persistent shell, as seen from outside the terminal."""

    @property
    def cwd(self) -> str:
        """The shell's current directory, which relative paths start from."""

    async def settled(self) -> None:
        """Wait until every command that was accepted before now has been answered."""


class Outputs(Protocol):
    """The output of commands, for readers that were too slow for its events."""

    def reread(self, command_id: str, start: int, end: int) -> AsyncGenerator[Output, None]:
        """The text of some bytes of a command's output, in pieces.

        Raises:
            NoSuchCommand: it is forgotten.
            OutputGone: the log does not reach back so far.
        """
