"""The ordered log of what happens in a box, kept in bounded memory and followed by any number of readers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from glovebox.protocol.events import ActionOutput, Event

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

    def append(self, kind: type[EventT], **fields: Any) -> EventT:
        """Add an event; its number and time are given here."""
        self._seq += 1
        event = kind(seq=self._seq, time=time.time(), **fields)
        self._events.append(event)
        if isinstance(event, ActionOutput):
            self._characters += len(event.text)
        while len(self._events) > self._keep_events or self._characters > self._keep_characters:
            oldest = self._events.popleft()
            if isinstance(oldest, ActionOutput):
                self._characters -= len(oldest.text)
        if self._followers:
            self._news.set()
            self._news = asyncio.Event()
        return event

    def since(self, seq: int) -> list[Event]:
        """The events after number `seq` that are still kept."""
        if not self._events or seq >= self._seq:
            return []
        skip = max(0, seq - self._events[0].seq + 1)
        return [self._events[index] for index in range(skip, len(self._events))]

    async def follow(self, seq: int = 0) -> AsyncIterator[Event]:
        """Every event after number `seq`: first the kept ones, then each as it happens."""
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
