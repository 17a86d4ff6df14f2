"""The seam between what is decided and what is touched: whatever a box is made of is behind these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from glovebox.protocol.terminal import Limits

if TYPE_CHECKING:
    from glovebox.box.terminal.commands import RunningCommand, ShellEnd
    from glovebox.box.terminal.output.log import LogFiles
    from glovebox.box.terminal.shell.integration import EndReport


class ShellRefused(Exception):
    """The machine refuses; the text is for the caller of the action, the code for its program."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TerminalInfo(msgspec.Struct, frozen=True):
    """What a session's information says of the terminal; zeros and None are not known."""

    pid: int | None = None
    rows: int = 0
    columns: int = 0
    limits: Limits = Limits()
    #: The command line that attaches to it with tmux, if tmux holds it.
    attach: str | None = None


class Shell(Protocol):
    """The shell of one session: runs one command at a time.

    What a command prints and how it ends is reported to the command itself. A shell that is gone is replaced
    when the next command needs it.
    """

    @property
    def log(self) -> LogFiles:
        """The log of everything that its terminal printed."""

    @property
    def report(self) -> EndReport | None:
        """What it said at its newest prompt."""

    @property
    def unattended(self) -> bool:
        """Whether something may run in it that keys reach, and that is no command of the session any more."""

    @property
    def terminal(self) -> TerminalInfo: ...

    async def ready(self, cwd: str) -> ShellEnd | None:
        """Start it in a directory unless it runs; how the one before it ended, if that is why.

        Raises:
            StartupError: it could not be started.
        """

    async def run(self, command: RunningCommand, text: str, limits: Limits | None) -> None:
        """Begin a command at the idle prompt."""

    async def press(self, command: RunningCommand, key: bytes) -> None:
        """Press a key at the idle prompt that makes the shell print a new prompt, or end.

        Raises:
            ShellRefused: the machine refuses.
        """

    async def send(self, data: bytes, action_id: str) -> None:
        """Type something for the running command, because of an action.

        Raises:
            ShellRefused: the machine refuses.
        """

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground.

        Raises:
            BadSession: there is no such signal.
            CommandEnded: nothing runs.
        """

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal.

        Raises:
            BadSession: it cannot have that size.
        """

    async def close(self) -> None:
        """Let go of it. What runs in it has ended for the session when this returns."""
