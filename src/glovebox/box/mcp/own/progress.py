"""Live output of an action as progress of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from glovebox.box.events import EventLog
from glovebox.box.mcp.own.text import valid
from glovebox.box.plugin import Services
from glovebox.box.shell import Outputs
from glovebox.errors import NoSuchCommand, OutputGone
from glovebox.protocol.events import ActionOutput

#: `await tell(progress, total, message)`.
Tell = Callable[[float, float | None, str | None], Awaitable[None]]

#: The least time between two messages: what is printed meanwhile goes along with the next.
_PAUSE = 0.07
#: The most characters of a message.
_LONGEST = 131_072


async def tell_output(
    services: Services, action_id: str, after: int, running: asyncio.Future[Any], tell: Tell
) -> None:
    """Tell what an action prints until `running` is done. `after`: the last event before the action.

    The progress is the number of bytes that were told.
    """
    follower = _Follower(services.events, services.outputs, action_id, after)
    told = 0
    while True:
        ended = running.done()  # asked first: what was printed before the end is in the log by now
        async for text in follower.take():
            for begin in range(0, len(text), _LONGEST):
                piece = valid(text[begin : begin + _LONGEST])
                told += len(piece.encode())
                await tell(told, None, piece)
        if ended:
            return
        await services.events.more(follower.seq, running)
        if not running.done():
            await asyncio.wait([running], timeout=_PAUSE)


class _Follower:
    """The output of one action; what the event log has dropped is read from the command's own log."""

    def __init__(self, events: EventLog, outputs: Outputs | None, action_id: str, after: int) -> None:
        self.seq = after
        self._events = events
        self._outputs = outputs
        self._id = action_id
        self._position: int | None = None

    async def take(self) -> AsyncGenerator[str, None]:
        """What was printed since the last time, in pieces."""
        waiting = [
            event
            for event in self._events.since(self.seq)
            if isinstance(event, ActionOutput) and event.action_id == self._id
        ]
        self.seq = self._events.last
        text: list[str] = []
        for event in waiting:
            if self._position is None:  # an action that looks at an earlier command tells what is new
                self._position = 0 if event.command_id in (None, self._id) else event.offset
            if event.offset > self._position:
                yield "".join(text)
                text = []
                async for piece in self._missed(event.command_id, self._position, event.offset):
                    yield piece
            if event.end > self._position:
                self._position = event.end
                text.append(event.text)
        yield "".join(text)

    async def _missed(self, command_id: str | None, start: int, end: int) -> AsyncGenerator[str, None]:
        if self._outputs is None or command_id is None:
            return
        try:
            async for piece in self._outputs.reread(command_id, start, end):
                start = piece.end
                yield piece.text
        except (NoSuchCommand, OutputGone):
            yield f"\n[{end - start} bytes are missing here]\n"
