"""The ordered log of events of a box, in bounded memory, followed by any number of readers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

from glovebox.protocol.events import Event

EventT = TypeVar("EventT", bound=Event)


class EventLog:
    """Numbers events and keeps the newest.

    A reader that falls behind misses the oldest, and sees the gap in `seq`.
    It belongs to one event loop: everything but the constructor is called there.
    """

    def __init__(self, keep_events: int = 10_000, keep_characters: int = 8_000_000) -> None:
        self._keep_events = keep_events
        self._keep_characters = keep_characters
        self._events: deque[Event] = deque()
        self._characters = 0
        self._seq = 0
        self._news = asyncio.Event()
        self._followers = 0

    @property
    def last(self) -> int:
        """The number of the newest event, 0 before the first."""
        return self._seq

    def append(self, kind: type[EventT], /, **fields: Any) -> EventT:
        """Add an event; it gets its number and time here."""
        self._seq += 1
        event = kind(seq=self._seq, time=time.time(), **fields)
        self._events.append(event)
        self._characters += event.weight
        while len(self._events) > self._keep_events or self._characters > self._keep_characters:
            self._characters -= self._events.popleft().weight
        if self._followers:
            self._news.set()
            self._news = asyncio.Event()
        return event

    def since(self, seq: int) -> list[Event]:
        """The events after number `seq` that are still in memory."""
        if not self._events or seq >= self._seq:
            return []
        skip = max(0, seq - self._events[0].seq + 1)
        return [self._events[index] for index in range(skip, len(self._events))]

    async def follow(self, seq: int = 0) -> AsyncGenerator[Event, None]:
        """Every event after number `seq`: first those in memory, then each as it happens."""
        self._followers += 1
        try:
            while True:
                news = self._news
                for event in self.since(seq):
                    yield event
                    seq = event.seq
                if seq >= self._seq:
                    await news.wait()
        finally:
            self._followers -= 1

    async def more(self, seq: int, until: asyncio.Future[Any] | None = None) -> None:
        """Wait for an event after number `seq`, or until something else has ended."""
        follower = self.follow(seq)
        first = asyncio.ensure_future(anext(follower))
        try:
            await asyncio.wait({first, until} if until else {first}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await follower.aclose()
