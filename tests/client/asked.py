"""A runtime at a box that runs already."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from glovebox import Runtime
from glovebox.client.backend import StatusCallback
from tests.support.running import RunningBox


@contextlib.asynccontextmanager
async def connected(box: RunningBox, status: StatusCallback | None = None) -> AsyncIterator[Runtime]:
    """Connect, and leave the box as it is at the end."""
    async with Runtime(box.url, key=box.key, status_callback=status) as runtime:
        yield runtime
