"""The seam between a shell's bytes and what they mean, whatever owns the terminal."""

from __future__ import annotations

from typing import Protocol

from glovebox.box.terminal.output.log import LogFiles
from glovebox.protocol.base import Message


class ShellIdentity(Message):
    """What the next server needs to use a shell."""

    #: The terminal's number.
    number: int
    session_token: str
    start_token: str
    #: The directory with the command file.
    directory: str
    #: Where in the log it begins.
    position: int
    #: Whether its end marks can be distinguished from those of other programs.
    signs: bool = True


class Receiver(Protocol):
    """Gets what a terminal prints, and the end of its shell."""

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
        """Identifies the terminal in the holder."""

    @property
    def pid(self) -> int: ...

    @property
    def files(self) -> LogFiles:
        """The log of everything that it printed."""

    @property
    def position(self) -> int:
        """The place in the log up to which the receiver got the output."""

    @property
    def inputs(self) -> int:
        """How many inputs were sent so far."""

    def write(self, data: bytes, token: str = "") -> None:
        """Type something; never blocks.

        With a token it begins a command: the marks of its end are confirmed from now on, and its output may
        come in one piece if it ends soon.
        """

    def confirmed(self, offset: int) -> bool:
        """Whether the end mark at this place of the log was printed by the shell itself."""

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal."""

    async def close(self) -> None:
        """End the shell and everything it started."""
