"""How long a box that does not answer is asked again, and how often."""

from __future__ import annotations

import asyncio
import random
import time

from glovebox.errors import BoxUnreachable

#: Seconds for which a box is waited for that was there before: as long as a restart takes, and a little more.
PATIENCE = 15.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
#: Seconds after which a connection that breaks was one: whoever cut it was there.
_HELD = 2.0


class Lost(BoxUnreachable):
    """A connection that could not be made or that broke. With `sent`, the box may have got the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Patience:
    """Counts the failures of one call, and waits longer after each."""

    def __init__(self, seconds: float, deadline: float | None = None) -> None:
        """`deadline` is a time of `time.monotonic()` after which there is no use in trying."""
        self._seconds = seconds
        self._deadline = deadline
        self._failing_since: float | None = None
        self._pause = _FIRST_PAUSE
        self._tried = time.monotonic()

    def answered(self) -> None:
        """The box is there: what fails from now on is a new failure."""
        self._failing_since = None
        self._pause = _FIRST_PAUSE

    async def wait(self, lost: Lost) -> None:
        """Wait before the next attempt.

        Raises:
            BoxUnreachable: it has been tried for long enough.
        """
        now = time.monotonic()
        if lost.sent and now - self._tried > _HELD:
            self.answered()
        if self._failing_since is None:
            self._failing_since = now
        # Clients that lost the same box must not all come back in the same moment.
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        end = self._failing_since + self._seconds
        if self._deadline is not None:
            end = min(end, self._deadline)
        if now + pause > end:
            raise lost
        await asyncio.sleep(pause)
        self._tried = time.monotonic()
