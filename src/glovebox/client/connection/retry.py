"""Retries: how long and how often requests to a box that does not answer are repeated."""

from __future__ import annotations

import asyncio
import random
import time

from glovebox.errors import BoxUnreachable

#: Seconds of retries: a little more than a restart of a box takes.
PATIENCE = 15.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
#: A connection that lasted longer has reached the box.
_HELD = 2.0


class Lost(BoxUnreachable):
    """A connection failed or broke. With `sent`, the box may have received the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Patience:
    """The retries of one request, with growing pauses."""

    def __init__(self, seconds: float, deadline: float | None = None) -> None:
        """`deadline` is a time of `time.monotonic()` after which there are no retries."""
        self._seconds = seconds
        self._deadline = deadline
        self._failing_since: float | None = None
        self._pause = _FIRST_PAUSE
        self._tried = time.monotonic()

    def reset(self) -> None:
        """The box has answered: later failures are new ones."""
        self._failing_since = None
        self._pause = _FIRST_PAUSE

    async def wait(self, lost: Lost) -> None:
        """Wait before the next attempt.

        Raises:
            BoxUnreachable: the time for retries is over.
        """
        now = time.monotonic()
        if lost.sent and now - self._tried > _HELD:
            self.reset()
        if self._failing_since is None:
            self._failing_since = now
        # Random, so that clients of one box do not all retry in the same moment.
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        end = self._failing_since + self._seconds
        if self._deadline is not None:
            end = min(end, self._deadline)
        if now + pause > end:
            raise lost
        await asyncio.sleep(pause)
        self._tried = time.monotonic()
