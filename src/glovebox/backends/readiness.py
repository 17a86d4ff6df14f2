"""Waiting until a box answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from glovebox.client.backend import Address
from glovebox.errors import BoxDied, DeadlineExceeded

#: Seconds between questions: short at first, as a box takes a fraction of a second, and longer later.
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5
_SHORT_PAUSES = 100
#: How long one question may take: what accepts a connection and says nothing is asked again.
_ANSWER_LIMIT = 5.0


async def until_alive(address: Address, limit: float, died: Callable[[], Awaitable[str | None]]) -> None:
    """Return when a box answers at an address. `died` gives its last words once it is gone, or None.

    Raises:
        BoxDied: it is gone.
        DeadlineExceeded: it does not answer within so many seconds.
    """
    import aiohttp

    from glovebox.client.connection.http import is_loopback

    answer_limit = aiohttp.ClientTimeout(total=_ANSWER_LIMIT)
    why = "nothing listens there"
    try:
        async with (
            asyncio.timeout(limit),
            # A proxy of the environment is for the world, not for this machine.
            aiohttp.ClientSession(timeout=answer_limit, trust_env=not is_loopback(address.url)) as session,
        ):
            pause, asked = _FIRST_PAUSE, 0
            while True:
                try:
                    async with session.get(f"{address.url.rstrip('/')}/alive") as answer:
                        if answer.status == 200:
                            return
                        why = f"the answer was {answer.status} {answer.reason}"
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    why = str(error) or type(error).__name__
                words = await died()
                if words is not None:
                    raise BoxDied(words)
                asked += 1
                if asked > _SHORT_PAUSES:
                    pause = min(pause * 1.5, _LONGEST_PAUSE)
                await asyncio.sleep(pause)
    except TimeoutError:
        raise DeadlineExceeded(
            f"No box answered at {address.url} within {limit:g} seconds ({why}). "
            "Give it more time, or look at its log."
        ) from None
