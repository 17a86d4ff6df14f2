from __future__ import annotations

import asyncio

from glovebox.box.events import EventLog
from glovebox.protocol.events import ActionOutput, ActionStarted, Event
from tests.support.waiting import LIMIT


def start(log: EventLog, name: str) -> None:
    log.append(ActionStarted, action_id=name, action="run")


async def collect(log: EventLog, seq: int, count: int) -> list[Event]:
    found: list[Event] = []
    stream = log.follow(seq)
    async for event in stream:
        found.append(event)
        if len(found) == count:
            break
    return found


async def test_a_follower_gets_what_was_and_then_what_comes() -> None:
    log = EventLog()
    start(log, "a")
    follower = asyncio.create_task(collect(log, 0, 3))
    await asyncio.sleep(0)
    start(log, "b")
    start(log, "c")
    events = await asyncio.wait_for(follower, LIMIT)
    assert [event.action_id for event in events] == ["a", "b", "c"]


async def test_following_from_a_number_gives_only_what_is_newer() -> None:
    log = EventLog()
    for name in "abc":
        start(log, name)
    assert [event.seq for event in await asyncio.wait_for(collect(log, 2, 1), LIMIT)] == [3]
    assert log.since(3) == []


async def test_memory_is_bounded_by_count_and_by_characters() -> None:
    log = EventLog(keep_events=3)
    for name in "abcde":
        start(log, name)
    assert [event.seq for event in log.since(0)] == [3, 4, 5]
    log = EventLog(keep_characters=10)
    for number in range(5):
        log.append(ActionOutput, action_id="a", offset=number * 4, end=number * 4 + 4, text="four")
    assert [event.seq for event in log.since(0)] == [4, 5]


async def test_many_followers_each_get_everything() -> None:
    log = EventLog()
    followers = [asyncio.create_task(collect(log, 0, 50)) for _ in range(20)]
    await asyncio.sleep(0)
    for number in range(50):
        start(log, str(number))
        if number % 7 == 0:
            await asyncio.sleep(0)
    for follower in followers:
        assert [event.seq for event in await asyncio.wait_for(follower, LIMIT)] == list(range(1, 51))
