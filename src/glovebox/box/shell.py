"""What other capabilities may know of the shell."""

from __future__ import annotations

from typing import Protocol


class Shell(Protocol):
    """The persistent shell, as seen from outside the terminal."""

    @property
    def cwd(self) -> str:
        """The shell's current directory, which relative paths start from."""

    async def settled(self) -> None:
        """Wait until every command that was accepted before now has been answered."""
