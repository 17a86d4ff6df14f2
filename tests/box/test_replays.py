from __future__ import annotations

import asyncio

import pytest

from glovebox.box.replays import Replays
from glovebox.errors import KeyReused


async def test_a_key_runs_once_also_while_the_first_is_running() -> None:
    replays: Replays[str] = Replays(len)
    release, runs = asyncio.Event(), []

    async def run() -> str:
        runs.append(1)
        await release.wait()
        return "done"

    asked = [asyncio.create_task(replays.once("k", b"1", run)) for _ in range(5)]
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(*asked) == ["done"] * 5
    assert await replays.once("k", b"1", run) == "done"
    assert len(runs) == 1


async def test_a_caller_that_goes_away_does_not_stop_the_action() -> None:
    replays: Replays[str] = Replays(len)
    release = asyncio.Event()

    async def run() -> str:
        await release.wait()
        return "done"

    first = asyncio.create_task(replays.once("k", b"1", run))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    release.set()
    assert await replays.once("k", b"1", run) == "done"


async def test_a_key_that_comes_with_another_action_is_refused() -> None:
    replays: Replays[str] = Replays(len)

    async def run() -> str:
        return "done"

    await replays.once("k", b"1", run)
    with pytest.raises(KeyReused, match="different action"):
        await replays.once("k", b"2", run)


async def test_old_results_are_forgotten_when_they_grow_too_many_or_too_large() -> None:
    async def run() -> str:
        runs.append(1)
        return "12345"

    for replays in (Replays(len, keep=2), Replays(len, keep_size=11)):
        runs: list[int] = []
        for key in ("a", "b", "c", "a"):
            await replays.once(key, b"1", run)
        assert len(runs) == 4
        await replays.once("c", b"1", run)
        assert len(runs) == 4
