"""Runs an action once per idempotency key, however often it is asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from glovebox.errors import KeyReused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    fingerprint: bytes
    task: asyncio.Task[T]


class Replays(Generic[T]):
    """Remembers the newest results by key, in bounded memory. A running action is never forgotten."""

    def __init__(self, size: Callable[[T], int], keep: int = 1000, keep_size: int = 16_000_000) -> None:
        self._size = size
        self._keep = keep
        self._keep_size = keep_size
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        self._total = 0

    async def once(self, key: str, fingerprint: bytes, run: Callable[[], Awaitable[T]]) -> T:
        """The result of `run`, which is called only if this key is new.

        Raises:
            KeyReused: the key came with another action before.
        """
        kept = self._kept.get(key)
        if kept is None:
            kept = _Kept(fingerprint, asyncio.ensure_future(self._finish(run)))
            self._kept[key] = kept
        elif kept.fingerprint != fingerprint:
            raise KeyReused(
                f"The idempotency key {key!r} was used for a different action. "
                "Use a new key for a new action."
            )
        # Whoever waits may go away; the action goes on.
        return await asyncio.shield(kept.task)

    async def _finish(self, run: Callable[[], Awaitable[T]]) -> T:
        result = await run()
        self._total += self._size(result)
        self._forget()
        return result

    def _forget(self) -> None:
        for key in list(self._kept):
            if len(self._kept) <= self._keep and self._total <= self._keep_size:
                return
            task = self._kept[key].task
            if task.done():
                del self._kept[key]
                self._total -= self._size(task.result())
