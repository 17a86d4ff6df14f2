"""`GET /events`: everything that happens in a box, numbered, so that a reader can go on where it stopped."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.events import EventLog
from glovebox.http.endpoints import Answer, Endpoint, Parameter
from glovebox.http.sse import EVENTS, Stream, described, message
from glovebox.protocol.events import Event
from glovebox.protocol.streams import Missed, Reset

#: Events held for a reader while it is slow.
_BATCH = 100


class EventStream:
    """The endpoint. Ids carry a token of this server, so that those of an earlier one are not confused."""

    def __init__(self, events: EventLog, closing: asyncio.Event) -> None:
        self._events = events
        self._closing = closing
        self._boot = secrets.token_hex(4)

    async def __call__(self, request: Request) -> Response:
        """Tell everything after what the reader has seen."""
        query = request.query_params
        seen = query.get("after") or request.headers.get("last-event-id") or ""
        kinds = frozenset(query.get("kinds", "").replace(",", " ").split())
        messages = self._messages(seen, kinds, query.get("action_id"))
        return Stream(messages, closing=self._closing)

    async def _messages(
        self, seen: str, kinds: frozenset[str], action_id: str | None
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
        "GET", "/events", EventStream(events, closing).__call__, "Everything that happens in the box",
        {200: Answer("Server-sent events, without end.", described(*kinds), EVENTS)},
        parameters=(
            Parameter("after", text, "The id of the last event seen; also as the header `Last-Event-ID`."),
            Parameter("kinds", text, "Only events of these kinds, separated by commas."),
            Parameter("action_id", text, "Only events of this action."),
        ),
    )  # fmt: skip
