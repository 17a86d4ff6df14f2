"""What becomes of a call that its client has given up."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from glovebox.box.shell import Outputs
from glovebox.box.tools import Toolbox
from glovebox.errors import GloveboxError, NoSuchCommand
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import CommandEnded
from glovebox.protocol.observations import CmdOutputObservation
from glovebox.protocol.tools.base import ToolCall

#: What a person would press, in turn, until the command ends.
_KEYS = ("C-c", "C-c", "C-\\")
#: How long a command may take to end after each.
_PATIENCE = 2.0


class Interrupter:
    """Ends the commands of calls that were given up, so that their shells are free again.

    A call that only looked at a command, or sent it input, leaves it running: another call began it.
    """

    def __init__(self, toolbox: Toolbox, outputs: Outputs | None) -> None:
        self._toolbox = toolbox
        self._outputs = outputs

    async def interrupt(
        self, call: ToolCall, action_id: str, after: int, given_up: asyncio.Future[Any]
    ) -> None:
        """Press keys until the command of that action ends; `after` is the last event before it."""
        await asyncio.wait([given_up])
        with contextlib.suppress(GloveboxError):
            action = await self._toolbox.action(call)
            if not isinstance(action, CmdRunAction) or not await self._began(action_id):
                return
            for key in _KEYS:
                if self._ended(action_id, after):
                    return
                press = CmdRunAction(
                    command=key, is_input=True, blocking=True, session=action.session, timeout=_PATIENCE
                )
                answer = await self._toolbox.executor.execute(press)
                if not isinstance(answer, CmdOutputObservation):
                    return

    async def _began(self, action_id: str) -> bool:
        """Whether the action came as far as to begin a command: it may have waited for its turn."""
        if self._outputs is None:
            return False
        try:
            async for _ in self._outputs.reread(action_id, 0, 0):
                pass
        except NoSuchCommand:
            return False
        return True

    def _ended(self, action_id: str, after: int) -> bool:
        return any(
            isinstance(event, CommandEnded) and event.command.id == action_id
            for event in self._toolbox.executor.events.since(after)
        )
