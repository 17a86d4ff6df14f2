"""The event loop that everything is served on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None]) -> None:
    """Do it on the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: slower, not broken
        asyncio.run(work)
    else:
        uvloop.run(work)
