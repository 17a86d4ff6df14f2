"""What becomes of a call that its client has given up."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol, runtime_checkable

from glovebox.box.shell import Shell
from glovebox.errors import CommandEnded, NoSuchCommand

#: What a command is told, in turn, until it ends.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
#: How long it may take to end after each, in seconds.
_PATIENCE = 1.0


class Signalled(Protocol):
    """A command that runs in a shell."""

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground.

        Raises:
            CommandEnded: there is nothing to signal.
        """


@runtime_checkable
class Commands(Protocol):
    """A shell that knows its commands."""

    def command(self, command_id: str) -> Signalled:
        """The command that an action began.

        Raises:
            NoSuchCommand: it began none.
        """


async def give_up(shell: Shell | None, action_id: str, running: asyncio.Future[Any]) -> None:
    """End an action that nobody waits for.

    A command that it began is interrupted, and its end awaited: then the shell is free for the next one. An
    action that only looks at a command, or waits for its turn, is dropped.
    """
    try:
        command = _command(shell, action_id)
        if command is None:
            return
        for name in _SIGNALS:
            with contextlib.suppress(CommandEnded):  # or it has not begun yet
                await command.signal(name)
            if (await asyncio.wait([running], timeout=_PATIENCE))[0]:
                return
    finally:
        running.cancel()


def _command(shell: Shell | None, action_id: str) -> Signalled | None:
    try:
        return shell.command(action_id) if isinstance(shell, Commands) else None
    except NoSuchCommand:
        return None
