"""`POST /execute_action_stream`: an action's events as they happen, and its observation at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.box import Box
from glovebox.box.terminal.rendering import LiveText
from glovebox.errors import KeyReused, NoSuchCommand, OutputGone
from glovebox.protocol.base import Message
from glovebox.protocol.events import ActionOutput, ActionState, CommandEnded, Event
from glovebox.server.asking import decode_asked
from glovebox.server.execute import Answer, Executions, Running
from glovebox.server.responses import ErrorBody, action_failed
from glovebox.server.sse import Stream, message, more_events

#: Whoever is behind by more characters reads the rest from the log, in larger pieces and without memory.
_MOST_WAITING = 262_144
_PIECE = 65_536


class Started(Message):
    """An action begins."""

    id: str
    action: str


class Output(Message):
    """Text that was printed; `offset` and `end` say which bytes of the command's output it stands for."""

    offset: int
    end: int
    text: str
    command_id: str | None = None


class Gap(Message):
    """Output that is not kept any more."""

    offset: int
    end: int
    command_id: str | None = None


class Failure(Message):
    """An action that failed, with what `/execute_action` would have answered."""

    status: int
    code: str
    detail: str


class ExecuteActionStream:
    """The endpoint."""

    def __init__(self, box: Box, executions: Executions) -> None:
        self._box = box
        self._executions = executions

    async def __call__(self, request: Request) -> Response:
        """Decode, execute, and tell while it runs."""
        asked = await decode_asked(request)
        if isinstance(asked, Response):
            return asked
        try:
            running, answer = self._executions.begin(asked)
        except KeyReused as error:
            return action_failed(error)
        return Stream(_messages(self._box, running, answer, asked.details))


async def _messages(
    box: Box, running: Running, answer: asyncio.Future[Answer], details: bool
) -> AsyncGenerator[bytes, None]:
    follower = _Follower(box, running)
    events = box.executor.events
    started = False
    while True:
        ended = answer.done()  # asked first: whatever it caused before its end is in the log by now
        waiting = follower.take()
        if running.action and not started:
            started = True
            yield message("started", Started(id=running.id, action=running.action))
        async for told in follower.told(waiting):
            yield told
        if ended:
            break
        await more_events(events, follower.seq, answer)
    result = answer.result()
    if result.code:
        detail = msgspec.json.decode(result.body, type=ErrorBody).detail
        yield message("error", Failure(status=result.status, code=result.code, detail=detail))
    else:
        yield message("observation", result.told(details=details))


class _Follower:
    """Makes messages from the events of one action; what the event log dropped is read from the command's."""

    def __init__(self, box: Box, running: Running) -> None:
        self._box = box
        self._id = running.id
        self.seq = running.after
        self._position: int | None = None

    def take(self) -> list[Event]:
        """The events of the action that have not been looked at yet."""
        events = self._box.executor.events
        own = [event for event in events.since(self.seq) if event.action_id == self._id]
        self.seq = events.last
        return _shortened(own)

    async def told(self, events: Iterable[Event]) -> AsyncGenerator[bytes, None]:
        """The messages for these events."""
        for event in events:
            if isinstance(event, ActionState | CommandEnded):
                yield message("state", event.command)
            elif isinstance(event, ActionOutput):
                if self._position is None:  # the action that began a command tells all of it
                    self._position = 0 if event.command_id in (None, self._id) else event.offset
                if event.offset > self._position:
                    async for told in self._missed(event.command_id, self._position, event.offset):
                        yield told
                if event.end > self._position:
                    self._position = event.end
                    yield message("output", Output(
                        offset=event.offset, end=event.end, text=event.text, command_id=event.command_id
                    ))  # fmt: skip

    async def _missed(self, command_id: str | None, start: int, end: int) -> AsyncGenerator[bytes, None]:
        live, told, at = LiveText(), start, start
        try:
            command = self._box.terminal.command(command_id or "")
            while at < end and (data := await command.read(at, min(_PIECE, end - at))):
                at += len(data)
                text, settled = live.feed(data)
                if at == end:
                    rest, settled = live.flush()
                    text += rest
                if text:
                    yield message("output", Output(
                        offset=told, end=start + settled, text=text, command_id=command_id
                    ))  # fmt: skip
                told = start + settled
        except (NoSuchCommand, OutputGone):
            yield message("gap", Gap(offset=told, end=end, command_id=command_id))


def _shortened(events: list[Event]) -> list[Event]:
    """Much output by its last piece only, which lets the rest be read from the command's log."""
    outputs = [event for event in events if isinstance(event, ActionOutput) and event.command_id is not None]
    if sum(len(event.text) for event in outputs) <= _MOST_WAITING:
        return events
    states = [event for event in events if isinstance(event, ActionState | CommandEnded)]
    return [outputs[-1], *states[-1:]]
