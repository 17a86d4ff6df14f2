"""How long an answer waits for a command: until it ends, is silent, or the caller's time is over."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Any, Protocol

from glovebox.protocol.actions import CmdRunAction

#: A quick command is given the time to end, however short the caller's limit.
_LEAST_TIMEOUT = 0.2
_NEVER = float("inf")


class WaitOutcome(enum.Enum):
    """What came first."""

    ENDED = enum.auto()
    SILENT = enum.auto()
    LATE = enum.auto()


class Followed(Protocol):
    """A command that somebody waits for."""

    #: When it printed something last, by the clock of the event loop.
    last_output: float

    @property
    def ended(self) -> asyncio.Future[Any]:
        """Done when it has ended."""


async def outcome_of(followed: Followed, action: CmdRunAction, silence: Callable[[], float]) -> WaitOutcome:
    """Wait for whatever comes first; `silence` is for how long the command may print nothing, as of now."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    late = _NEVER if action.timeout is None else begin + max(action.timeout, _LEAST_TIMEOUT)
    while not followed.ended.done():
        silent = _NEVER if action.blocking else max(begin, followed.last_output) + silence()
        now, wake = loop.time(), min(silent, late)
        if now >= wake:
            return WaitOutcome.SILENT if silent <= late else WaitOutcome.LATE
        await asyncio.wait([followed.ended], timeout=None if wake == _NEVER else wake - now)
    return WaitOutcome.ENDED
