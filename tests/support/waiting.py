"""How tests wait: for a condition, with one limit that is long enough for a machine that is very busy."""

from __future__ import annotations

import asyncio
import inspect
import select
import time
from collections.abc import Callable

#: Seconds for anything that is to happen. Tests do not check how fast things are.
LIMIT = 60.0
_INTERVAL = 0.01


def wait_until(condition: Callable[[], object], seconds: float = LIMIT, what: str = "condition") -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(_INTERVAL)


async def until(condition: Callable[[], object], what: str = "condition", seconds: float = LIMIT) -> None:
    """Wait for a condition, which may be one to await, while the event loop goes on."""
    deadline = time.monotonic() + seconds
    while not await _met(condition):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        await asyncio.sleep(_INTERVAL)


async def _met(condition: Callable[[], object]) -> bool:
    value = condition()
    return bool(await value if inspect.isawaitable(value) else value)


def readable(descriptor: int, seconds: float = 0) -> bool:
    """Whether there is something to read, now or soon. `select.select` knows low numbers only."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
