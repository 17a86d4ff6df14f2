"""Everything that happens in a box, followed across broken connections."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Any

import msgspec

from glovebox.client.connection.http import MOST_BYTES, SILENCE, Connection, deadline
from glovebox.client.connection.retry import Lost, Patience
from glovebox.client.connection.sse import EventParser, ServerSentEvent
from glovebox.errors import BadAnswer
from glovebox.json_codec import convert, decode_json
from glovebox.protocol.base import Message
from glovebox.protocol.events import (
    ActionDisplay,
    ActionFinished,
    ActionOutput,
    ActionStarted,
    ActionState,
    BrowserChanged,
    CellState,
    CommandFinished,
    Event,
    KernelChanged,
    Missed,
    PluginChanged,
    Reset,
    SessionChanged,
)

#: Seconds until a box begins to answer.
_BEGIN_LIMIT = 30.0


class Other(Message):
    """An event of a kind that is not known here."""

    kind: str
    data: dict[str, Any]


Happening = Event | Missed | Reset | Other

_KINDS: dict[str, type[Message]] = {
    "gap": Missed,
    "reset": Reset,
    **{
        kind.event: kind
        for kind in (
            ActionStarted, ActionOutput, ActionDisplay, ActionFinished, CommandFinished, SessionChanged,
            KernelChanged, BrowserChanged, PluginChanged,
        )
    },
}  # fmt: skip


class EventStream:
    """The events of a box, to be iterated over. It has no end; `aclose` or `async with` ends it."""

    def __init__(
        self, connection: Connection, *, after: str = "", kinds: Iterable[str] = (), action_id: str = ""
    ) -> None:
        #: The id of the last event that was told: where another stream can go on.
        self.last_id = after
        self._connection = connection
        self._query = {"kinds": ",".join(kinds), "action_id": action_id}
        self._told = self._follow()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Happening:
        return await anext(self._told)

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._told.aclose()

    async def _follow(self) -> AsyncGenerator[Happening, None]:
        patience = Patience(self._connection.patience)
        while True:
            try:
                async with contextlib.aclosing(self._once()) as events:
                    async for told in events:
                        patience.answered()
                        happened = happening(told)
                        self.last_id = told.id or self.last_id
                        yield happened
                lost = Lost("The box has ended the stream of its events.", sent=True)
            except Lost as error:
                lost = error
            await patience.wait(lost)

    async def _once(self) -> AsyncGenerator[ServerSentEvent, None]:
        query = {name: value for name, value in self._query.items() if value}
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        async with deadline(_BEGIN_LIMIT, "The box does not tell its events."):
            response = await self._connection.open(
                "GET", "/events", query=query, headers=headers, silence=SILENCE
            )
        try:
            parser = EventParser(MOST_BYTES)
            while piece := await self._connection.piece(response):
                for told in parser.feed(piece):
                    yield told
        finally:
            response.release()


def happening(told: ServerSentEvent) -> Happening:
    """The event that was told.

    Raises:
        BadAnswer: it is not one.
    """
    try:
        if told.event == "state":
            data = decode_json(told.data, dict[str, Any])
            return convert(data, ActionState if "command" in data else CellState)
        kind = _KINDS.get(told.event)
        if kind is None:
            return Other(kind=told.event, data=decode_json(told.data, dict[str, Any]))
        event: Any = decode_json(told.data, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(f"The box told an event that is none: {error}") from error
    happened: Happening = event
    return happened
