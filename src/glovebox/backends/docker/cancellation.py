"""Work that leaves something behind if it is broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def undoable(work: Coroutine[Any, Any, ResultT], undo: Callable[[ResultT], Awaitable[None]]) -> ResultT:
    """What some work comes to. If the caller is cancelled meanwhile, it ends nevertheless and is undone."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await regardless(_undone(task, undo))
        raise


async def _undone(task: asyncio.Future[ResultT], undo: Callable[[ResultT], Awaitable[None]]) -> None:
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())


async def regardless(work: Coroutine[Any, Any, None]) -> None:
    """Do something to its end, even if the caller is cancelled; the caller hears of that afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    task.result()
