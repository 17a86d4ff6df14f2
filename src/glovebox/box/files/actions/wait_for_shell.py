"""Says that something is missing only when no earlier command can still be making it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from glovebox.box.files.disk.path_errors import FileActionError
from glovebox.box.shell import Shell
from glovebox.protocol.base import Observation
from glovebox.protocol.observations import ErrorObservation

ObservationT = TypeVar("ObservationT", bound=Observation)


async def answered(
    shell: Shell, attempt: Callable[[bool], Awaitable[ObservationT]], timeout: float | None
) -> ObservationT | ErrorObservation:
    """Try, and when something is not found try once more after the shell has settled.

    `attempt` is told whether it has, and resolves paths itself: the shell may be elsewhere by then.
    """
    try:
        try:
            return await attempt(False)
        except FileActionError as refused:
            if refused.error_id != "not_found":
                raise
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await shell.settled()
        return await attempt(True)
    except FileActionError as refused:
        return refused.observation()
