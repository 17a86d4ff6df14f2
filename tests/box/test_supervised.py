"""Things that are started once for all callers, and again when they are lost."""

from __future__ import annotations

import asyncio

import pytest

from glovebox.box.supervised import Supervised, back_off, race
from glovebox.errors import BrowserError, PluginFailed


class Thing:
    def __init__(self) -> None:
        self.alive = True


class Starts:
    """Starts things, each when it is allowed to."""

    def __init__(self) -> None:
        self.count = 0
        self.allowed = asyncio.Event()
        self.error: BrowserError | None = None

    async def __call__(self) -> Thing:
        self.count += 1
        await self.allowed.wait()
        if self.error is not None:
            raise self.error
        return Thing()


def supervise() -> tuple[Supervised[Thing], Starts]:
    starts = Starts()
    return Supervised(starts, lambda thing: thing.alive), starts


async def test_concurrent_callers_share_one_start() -> None:
    supervised, starts = supervise()
    callers = [asyncio.create_task(supervised.get()) for _ in range(5)]
    await asyncio.sleep(0)
    assert supervised.starting
    assert supervised.alive is None
    starts.allowed.set()
    found = await asyncio.gather(*callers)
    assert {id(thing) for thing in found} == {id(supervised.alive)}
    assert starts.count == 1


async def test_a_start_goes_on_when_its_caller_is_cancelled() -> None:
    supervised, starts = supervise()
    caller = asyncio.create_task(supervised.get())
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    starts.allowed.set()
    assert await supervised.get() is supervised.current
    assert starts.count == 1


async def test_one_that_is_lost_is_started_again() -> None:
    supervised, starts = supervise()
    starts.allowed.set()
    first = await supervised.get()
    assert await supervised.get() is first
    first.alive = False
    assert supervised.alive is None
    assert await supervised.get() is not first
    assert starts.count == 2


async def test_all_callers_get_the_error_of_a_start_and_the_next_one_tries_again() -> None:
    supervised, starts = supervise()
    starts.allowed.set()
    starts.error = BrowserError("no")
    results = await asyncio.gather(supervised.get(), supervised.get(), return_exceptions=True)
    assert results[0] is results[1] is starts.error
    starts.error = None
    assert (await supervised.get()).alive
    assert starts.count == 2


async def test_a_start_that_is_stopped_is_an_error_for_its_callers() -> None:
    supervised, _ = supervise()
    caller = asyncio.create_task(supervised.get())
    await asyncio.sleep(0)
    await supervised.stop()
    with pytest.raises(PluginFailed):
        await caller
    assert not supervised.starting


def test_pauses_double_up_to_the_longest() -> None:
    for failures, pause in ((1, 0.5), (2, 1.0), (5, 8.0), (50, 60.0)):
        assert 0.8 * pause <= back_off(failures, 0.5, 60.0) <= 1.2 * pause


async def test_the_losers_of_a_race_are_cancelled() -> None:
    slow = asyncio.create_task(asyncio.Event().wait())
    assert await race(slow, asyncio.sleep(0))
    await asyncio.wait([slow])
    assert slow.cancelled()
    assert not await race(asyncio.Event().wait(), limit=0)
