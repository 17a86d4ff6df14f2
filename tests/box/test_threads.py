from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from glovebox.box.threads import Threads
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    pool = Threads("test-pool", 4)
    yield pool
    pool.close()


def alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("test-pool")]


async def test_a_call_runs_elsewhere_and_its_result_comes_back(threads: Threads) -> None:
    assert await threads.run(divmod, 7, 2) == (3, 1)
    assert await threads.run(threading.get_ident) != threading.get_ident()
    assert await threads.run(sorted, [1, 2], reverse=True) == [2, 1]


async def test_what_a_call_raises_is_raised_where_it_is_awaited(threads: Threads) -> None:
    with pytest.raises(FileNotFoundError):
        await threads.run(open, "/no/such/file")
    assert await threads.run(abs, -1) == 1


async def test_quick_work_is_done_by_one_thread(threads: Threads) -> None:
    await asyncio.gather(*(threads.run(abs, number) for number in range(500)))
    assert len(alive()) == 1


async def test_work_behind_a_stuck_call_is_done_by_another_thread_which_then_ends(threads: Threads) -> None:
    release = threading.Event()
    stuck = [asyncio.ensure_future(threads.run(release.wait, 30)) for _ in range(3)]
    assert await asyncio.wait_for(threads.run(abs, -1), LIMIT) == 1
    assert not any(call.done() for call in stuck)
    release.set()
    assert await asyncio.gather(*stuck) == [True] * 3
    await asyncio.to_thread(wait_until, lambda: len(alive()) == 1, what="helpers to end")


async def test_what_is_done_before_a_stuck_call_is_told_at_once(threads: Threads) -> None:
    release = threading.Event()
    quick = [asyncio.ensure_future(threads.run(abs, number)) for number in range(3)]
    stuck = asyncio.ensure_future(threads.run(release.wait, 30))  # in the same turn, so by the same thread
    assert await asyncio.wait_for(asyncio.gather(*quick), LIMIT) == [0, 1, 2]
    assert not stuck.done()
    release.set()
    assert await stuck


async def test_there_are_never_more_threads_than_allowed(threads: Threads) -> None:
    release = threading.Event()
    stuck = [asyncio.ensure_future(threads.run(release.wait, 30)) for _ in range(10)]
    await asyncio.to_thread(wait_until, lambda: len(alive()) == 4, what="all threads")
    release.set()
    assert await asyncio.gather(*stuck) == [True] * 10


async def test_a_caller_that_goes_away_harms_nobody(threads: Threads) -> None:
    release = threading.Event()
    impatient = asyncio.ensure_future(threads.run(release.wait, 30))
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    release.set()
    assert await threads.run(abs, -1) == 1


async def test_a_closed_pool_ends_its_threads_and_refuses_work() -> None:
    pool = Threads("test-pool", 4)
    await pool.run(abs, -1)
    pool.close()
    await asyncio.to_thread(wait_until, lambda: not alive(), what="threads to end")
    with pytest.raises(RuntimeError, match="closed"):
        await pool.run(abs, -1)


async def test_work_waits_while_the_system_has_no_thread_to_give(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, refused = threading.Thread.start, 0

    def start(thread: threading.Thread) -> None:
        nonlocal refused
        if thread.name.startswith("test-pool") and refused < 5:
            refused += 1
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    assert await asyncio.wait_for(threads.run(abs, -1), LIMIT) == 1
    assert len(alive()) == 1
    release, refused = threading.Event(), 0
    stuck = asyncio.ensure_future(threads.run(release.wait, 30))
    assert await asyncio.wait_for(threads.run(abs, -2), LIMIT) == 2  # by a second thread, which came late
    assert refused == 5
    release.set()
    assert await stuck
    assert caplog.text.count("no thread can be started: can't start new thread") == 2
