"""Streams of server-sent events, and the stream of all events of a box, across broken connections."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec

from glovebox.client.connection.http import MOST_BYTES, SILENCE, Connection, deadline
from glovebox.client.connection.retry import Lost, Patience
from glovebox.errors import BadAnswer
from glovebox.json_codec import convert, decode_json
from glovebox.protocol.base import Message
from glovebox.protocol.events import ActionState, CellState, Event, Missed, Reset

#: Seconds until a box begins to answer.
_BEGIN_LIMIT = 30.0

ItemT = TypeVar("ItemT")


class ServerSentEvent(NamedTuple):
    """One server-sent event."""

    event: str
    data: bytes
    id: str = ""


class EventParser:
    """Parses server-sent events from pieces of a response, and buffers incomplete ones up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """The events that end in this piece.

        Raises:
            BadAnswer: an event is larger than the limit.
        """
        searched = len(self._buffer)  # there is no line end before
        self._buffer += piece
        if len(self._buffer) + self._size > self._most:
            raise BadAnswer(f"An event of more than {self._most >> 20} MB is not taken.")
        begin = 0
        while (end := self._buffer.find(b"\n", max(begin, searched))) >= 0:
            line = bytes(self._buffer[begin:end]).removesuffix(b"\r")
            begin = end + 1
            if line:
                self._take(line)
            elif self._data:
                yield ServerSentEvent(self._event or "message", b"\n".join(self._data), self._id)
                self._reset()
            else:
                self._reset()
        del self._buffer[:begin]

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")

    def _reset(self) -> None:
        self._data, self._size, self._event, self._id = [], 0, "", ""


class ItemStream(Generic[ItemT]):
    """An async iterator; `aclose`, or the end of `async with`, closes its connection."""

    def __init__(self, items: AsyncGenerator[ItemT, None]) -> None:
        self._items = items

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ItemT:
        return await anext(self._items)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._items.aclose()


class Other(Message):
    """An event of a kind that this client does not know."""

    kind: str
    data: dict[str, Any]


Happening = Event | Missed | Reset | Other

_KINDS: dict[str, type[Message]] = {
    "gap": Missed,
    "reset": Reset,
    **{kind.event: kind for kind in Event.__subclasses__()},
}


class EventStream(ItemStream[Happening]):
    """The events of a box. The stream has no end of its own."""

    def __init__(
        self, connection: Connection, *, after: str = "", kinds: Iterable[str] = (), action_id: str = ""
    ) -> None:
        #: The id of the last event, where another stream can continue.
        self.last_id = after
        self._connection = connection
        self._query = {"kinds": ",".join(kinds), "action_id": action_id}
        super().__init__(self._follow())

    async def _follow(self) -> AsyncGenerator[Happening, None]:
        patience = Patience(self._connection.patience)
        while True:
            try:
                async with contextlib.aclosing(self._once()) as events:
                    async for event in events:
                        patience.reset()
                        item = decode_event(event)
                        self.last_id = event.id or self.last_id
                        yield item
                lost = Lost("The box has ended the stream of its events.", sent=True)
            except Lost as error:
                lost = error
            await patience.wait(lost)

    async def _once(self) -> AsyncGenerator[ServerSentEvent, None]:
        query = {name: value for name, value in self._query.items() if value}
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        async with contextlib.aclosing(
            server_sent_events(self._connection, "/events", query=query, headers=headers)
        ) as events:
            async for event in events:
                yield event


async def server_sent_events(
    connection: Connection,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[ServerSentEvent, None]:
    """The events of an endpoint until it, or the connection, ends.

    Raises:
        Lost: the connection failed or broke.
        GloveboxError: the box refused.
    """
    async with deadline(_BEGIN_LIMIT, f"GET {path} was not answered within {_BEGIN_LIMIT:g} seconds."):
        response = await connection.open("GET", path, query=query, headers=headers, silence=SILENCE)
    try:
        parser = EventParser(MOST_BYTES)
        while piece := await connection.piece(response):
            for event in parser.feed(piece):
                yield event
    finally:
        response.release()


def decode_event(event: ServerSentEvent) -> Happening:
    """The typed event.

    Raises:
        BadAnswer: it is not valid.
    """
    try:
        if event.event == "state":
            data = decode_json(event.data, dict[str, Any])
            return convert(data, ActionState if "command" in data else CellState)
        kind = _KINDS.get(event.event)
        if kind is None:
            return Other(kind=event.event, data=decode_json(event.data, dict[str, Any]))
        decoded: Any = decode_json(event.data, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(f"The box told an event that is none: {error}") from error
    happened: Happening = decoded
    return happened
