"""Boxes that are started before anybody asks for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from glovebox.backends.pool import WarmPool
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadSpec, BoxDied
from tests.backends.conftest import Place, killed, mentioning, run
from tests.backends.test_process import boxes_of, is_clear
from tests.support.waiting import until


async def test_boxes_are_ready_before_they_are_asked_for_and_more_follow(processes: Place) -> None:
    spec = processes.spec()
    async with WarmPool(processes.make(), spec, 2) as pool:
        await until(lambda: pool.ready == 2, "two boxes")
        ready = [info.name for info in await pool.boxes()]
        first = await pool.start(processes.spec(start_limit=5.0), Silent())
        assert first.name in ready
        assert await run(first, "echo here") == "here"
        await until(lambda: pool.ready == 2, "another one")
        second = await pool.start(spec, Silent())
        assert second.name in ready
        assert second.name != first.name
        assert (await pool.attach(first.name)).address == first.address
    # What was handed out is its owner's; the rest has gone with the pool.
    left = {info.name for info in await processes.make().boxes()}
    assert left == {first.name, second.name}
    await first.delete()
    await second.delete()
    assert is_clear(processes)


async def test_another_spec_gets_a_box_of_its_own(processes: Place) -> None:
    async with WarmPool(processes.make(), processes.spec(), 1) as pool:
        await until(lambda: pool.ready == 1, "a box")
        box = await pool.start(processes.spec(name="named", env={"A": "b"}), Silent())
        assert (box.name, await run(box, "echo $A"), pool.ready) == ("named", "b", 1)
        await box.delete()


async def test_who_comes_early_waits_for_the_box_that_is_on_its_way(processes: Place) -> None:
    spec = processes.spec()
    async with WarmPool(processes.make(), spec, 1) as pool:
        hurried = asyncio.create_task(pool.start(spec, Silent()))
        await until(lambda: _count(pool, 1), "the first box")
        hurried.cancel()
        await asyncio.wait([hurried])
        assert hurried.cancelled()
        box = await pool.start(spec, Silent())  # the one that nobody waited for any more
        assert box.name == (await pool.boxes())[0].name
        await box.delete()
    assert is_clear(processes)


async def _count(pool: WarmPool, number: int) -> bool:
    return len(await pool.boxes()) >= number


async def test_a_box_that_died_while_it_waited_is_not_handed_out(processes: Place) -> None:
    async with WarmPool(processes.make(), processes.spec(), 1) as pool:
        await until(lambda: pool.ready == 1, "a box")
        [info] = await pool.boxes()
        for pid in mentioning(boxes_of(processes) / info.name):
            await asyncio.to_thread(killed, pid)
        box = await pool.start(processes.spec(), Silent())
        assert box.name != info.name
        assert await run(box, "echo here") == "here"
        await box.delete()
    assert is_clear(processes)


async def test_a_spec_that_cannot_be_started_is_told_to_who_asks(processes: Place) -> None:
    spec = processes.spec(arguments=("--no-such-flag",))
    async with WarmPool(processes.make(), spec, 1) as pool:
        with pytest.raises(BoxDied, match="--no-such-flag"):
            await pool.start(spec, Silent())
    assert is_clear(processes)


async def test_a_pool_that_is_closed_while_it_fills_leaves_nothing(processes: Place) -> None:
    pool = WarmPool(processes.make(), processes.spec(), 2)
    pool.fill()
    await until(lambda: _count(pool, 1), "a box")
    await pool.close()
    await pool.close()
    assert is_clear(processes)


@pytest.mark.parametrize(
    "spec", [BoxSpec(name="a"), BoxSpec(key="a"), BoxSpec(port=1), BoxSpec(ports={1: 1})]
)
def test_what_only_one_box_can_have_is_refused(processes: Place, spec: BoxSpec) -> None:
    with pytest.raises(BadSpec):
        WarmPool(processes.make(), spec, 2)
    with pytest.raises(BadSpec):
        WarmPool(processes.make(), BoxSpec(), 0)


async def test_what_a_killed_client_had_ready_is_swept(processes: Place, tmp_path: Path) -> None:
    act = (
        "async def act(backend, spec):\n"
        "    from glovebox.backends.pool import WarmPool\n"
        "    async with WarmPool(backend, spec, 2) as pool:\n"
        "        while pool.ready < 2: await asyncio.sleep(0.01)\n"
        "        print('ready', flush=True)\n"
        "        await asyncio.sleep(600)"
    )
    with processes.client(act, processes.spec()) as client:
        assert client.stdout is not None
        assert await asyncio.to_thread(client.stdout.readline) == "ready\n"
    assert len(await processes.make().sweep()) == 2
    assert is_clear(processes)
