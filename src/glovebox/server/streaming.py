"""`POST /execute_action_stream`: an action's events as they happen, and its observation at the end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable

from starlette.requests import Request
from starlette.responses import Response

from glovebox import tracing
from glovebox.box.box import Box
from glovebox.box.events import EventLog
from glovebox.errors import KeyReused, NoSuchCommand, OutputGone
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody, action_failed
from glovebox.http.sse import EVENTS, Stream, described, message
from glovebox.json_codec import decode_json
from glovebox.protocol.events import (
    ActionDisplay,
    ActionOutput,
    ActionState,
    CellState,
    CommandFinished,
    Display,
    Event,
    Failure,
    Gap,
    Missed,
    Output,
    Reset,
    Started,
)
from glovebox.server.execute import Executions, Running, decode_asked
from glovebox.server.replays import ActionAnswer

#: A client that is behind by more characters gets the rest from the log, in larger pieces.
_MOST_WAITING = 262_144


class ExecuteActionStream:
    """The endpoint."""

    def __init__(self, box: Box, executions: Executions) -> None:
        self._box = box
        self._executions = executions

    async def __call__(self, request: Request) -> Response:
        asked = await decode_asked(request)
        if isinstance(asked, Response):
            return asked
        try:
            running, answer = self._executions.begin(asked)
        except KeyReused as error:
            return action_failed(error)

        def last(result: ActionAnswer) -> bytes:
            return message("observation", result.encode(details=asked.details))

        return Stream(action_messages(self._box, running, answer, last))


async def action_messages(
    box: Box,
    running: Running,
    answer: asyncio.Future[ActionAnswer],
    last: Callable[[ActionAnswer], bytes],
) -> AsyncGenerator[bytes, None]:
    """The events of an action as messages, and `last` of its answer, unless it failed."""
    follower = _Follower(box, running)
    events = box.executor.events
    started = False
    while True:
        ended = answer.done()  # first: all events before its end are in the log by now
        waiting = follower.take()
        if running.action and not started:
            started = True
            yield message("started", Started(id=running.id, action=running.action))
        async for piece in follower.messages(waiting):
            yield piece
        if ended:
            break
        await events.more(follower.seq, answer)
    result = answer.result()
    if result.code:
        detail = decode_json(result.body, ErrorBody).detail
        request_id = tracing.request_id.get() or None
        failure = Failure(status=result.status, code=result.code, detail=detail, request_id=request_id)
        yield message("error", failure)
    else:
        yield last(result)


class _Follower:
    """Makes messages from the events of one action; what the event log dropped is read from the command's."""

    def __init__(self, box: Box, running: Running) -> None:
        self._box = box
        self._id = running.id
        self.seq = running.after
        self._position: int | None = None

    def take(self) -> list[Event]:
        events = self._box.executor.events
        own = [event for event in events.since(self.seq) if event.action_id == self._id]
        self.seq = events.last
        return _shortened(own)

    async def messages(self, events: Iterable[Event]) -> AsyncGenerator[bytes, None]:
        for event in events:
            if isinstance(event, ActionState | CommandFinished):
                yield message("state", event.command)
            elif isinstance(event, CellState):
                yield message("state", event.cell)
            elif isinstance(event, ActionDisplay):
                yield message("display", Display(
                    kind=event.kind, data=event.data, metadata=event.metadata, display_id=event.display_id
                ))  # fmt: skip
            elif isinstance(event, ActionOutput):
                if self._position is None:  # the action that began a command streams all of it
                    self._position = 0 if event.command_id in (None, self._id) else event.offset
                if event.offset > self._position:
                    async for piece in self._missed(event.command_id, self._position, event.offset):
                        yield piece
                if event.end > self._position:
                    self._position = event.end
                    yield message("output", Output(
                        offset=event.offset, end=event.end, text=event.text, command_id=event.command_id
                    ))  # fmt: skip

    async def _missed(self, command_id: str | None, start: int, end: int) -> AsyncGenerator[bytes, None]:
        sent, outputs = start, self._box.services.outputs
        try:
            if outputs is None or command_id is None:
                raise NoSuchCommand("nothing is kept")
            async for piece in outputs.reread(command_id, start, end):
                sent = piece.end
                yield message("output", piece)
        except (NoSuchCommand, OutputGone):
            yield message("gap", Gap(offset=sent, end=end, command_id=command_id))


def _shortened(events: list[Event]) -> list[Event]:
    """Much output by its last piece only, which lets the rest be read from the command's log."""
    outputs = [event for event in events if isinstance(event, ActionOutput) and event.command_id is not None]
    if sum(len(event.text) for event in outputs) <= _MOST_WAITING:
        return events
    states = [event for event in events if isinstance(event, ActionState | CommandFinished)]
    return [outputs[-1], *states[-1:]]


#: Events held for a reader while it is slow.
_BATCH = 100


class EventStreamEndpoint:
    """The endpoint. Ids carry a token of this server, so that those of an earlier one are not confused."""

    def __init__(self, events: EventLog, closing: asyncio.Event) -> None:
        self._events = events
        self._closing = closing
        self._boot = secrets.token_hex(4)

    async def __call__(self, request: Request) -> Response:
        query = request.query_params
        seen = query.get("after") or request.headers.get("last-event-id") or ""
        kinds = frozenset(query.get("kinds", "").replace(",", " ").split())
        follow = query.get("follow", "true").lower() != "false"
        messages = self._messages(seen, kinds, query.get("action_id"), follow=follow)
        return Stream(messages, closing=self._closing)

    async def _messages(
        self, seen: str, kinds: frozenset[str], action_id: str | None, *, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        seq = self._seq(seen)
        if seq is None:
            yield message("reset", Reset(boot=self._boot), f"{self._boot}-0")
            seq = 0
        while True:
            for event in self._events.since(seq)[:_BATCH]:
                if event.seq > seq + 1:
                    yield message("gap", Missed(missed=event.seq - seq - 1))
                seq = event.seq
                if (not kinds or event.event in kinds) and action_id in (None, event.action_id):
                    yield message(event.event, event, f"{self._boot}-{seq}")
            if seq >= self._events.last:
                if not follow:
                    return
                await self._events.more(seq)

    def _seq(self, seen: str) -> int | None:
        """The number in an id; None if it is not one of ours."""
        if not seen:
            return 0
        boot, _, number = seen.partition("-")
        if boot != self._boot or not (number.isascii() and number.isdigit() and len(number) < 20):
            return None
        return int(number) if int(number) <= self._events.last else None


def event_endpoint(events: EventLog, closing: asyncio.Event) -> Endpoint:
    """The endpoint as it is served."""
    text = {"type": "string"}
    kinds = ("reset", "gap", *(kind.event for kind in Event.__subclasses__()))
    return Endpoint(
        "GET", "/events", EventStreamEndpoint(events, closing).__call__, "Everything that happens in the box",
        {200: Reply("Server-sent events; without end, unless `follow` is false.", described(*kinds), EVENTS)},
        parameters=(
            Parameter("after", text, "The id of the last event seen; also as the header `Last-Event-ID`."),
            Parameter("kinds", text, "Only events of these kinds, separated by commas."),
            Parameter("action_id", text, "Only events of this action."),
            Parameter("follow", {"type": "boolean"}, "False ends the stream with the newest event."),
        ),
    )  # fmt: skip
