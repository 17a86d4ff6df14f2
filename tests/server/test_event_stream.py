"""Everything that happens in a box as one stream that can be taken up again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
from starlette.routing import Route, Router

from glovebox.box.events import EventLog
from glovebox.protocol.events import SessionChanged
from glovebox.server.streaming import EventStreamEndpoint
from tests.server.reading import Message, finished_command, following, messages, until
from tests.server.serving import serving
from tests.support.running import RunningBox, running_box
from tests.support.waiting import LIMIT


def last_id(box: RunningBox) -> str:
    """The id of the newest event, which a command of our own makes."""
    command = finished_command(box, "true")
    with following(box, "/events") as response:
        return until(messages(response), "finished", command)[-1].id


def test_a_reader_is_told_what_happens_in_order(box: RunningBox) -> None:
    after = last_id(box)
    with following(box, f"/events?after={after}") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        told = messages(response)
        command = finished_command(box, "echo hi")
        seen = until(told, "finished", command)
    own = [message for message in seen if message.json["action_id"] == command]
    kinds = [message.event for message in own if message.event != "state"]
    assert kinds == ["started", "output", "command_ended", "finished"]
    numbers = [message.json["seq"] for message in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] == int(after.partition("-")[2]) + 1


def test_a_reader_goes_on_where_it_stopped(box: RunningBox) -> None:
    after = last_id(box)
    command = finished_command(box, "echo hi")
    with following(box, "/events", **{"Last-Event-ID": after}) as response:
        first = next(messages(response))
    with following(box, f"/events?after={first.id}") as response:
        second = next(messages(response))
    assert (first.json["action_id"], first.event) == (command, "started")
    assert second.json["seq"] == first.json["seq"] + 1


def test_only_what_is_asked_for_is_told(box: RunningBox) -> None:
    one, other = finished_command(box, "echo 1"), finished_command(box, "echo 2")
    with following(box, f"/events?action_id={other}&kinds=output,finished") as response:
        seen = until(messages(response), "finished")
    assert [(message.event, message.json["action_id"]) for message in seen if message.event != "gap"] == [
        ("output", other),
        ("finished", other),
    ]
    assert one != other


def test_an_id_of_another_server_begins_anew(box: RunningBox) -> None:
    newest = last_id(box)
    boot, _, number = newest.partition("-")
    for unknown in ("0000-3", "nonsense", f"{boot}-x", f"{boot}-{int(number) + 10**6}", f"{boot}--1"):
        with following(box, f"/events?after={unknown}") as response:
            told = messages(response)
            assert next(told).event == "reset"
            first = next(told)
            assert first.event == "gap" or first.json["seq"] == 1


@contextlib.contextmanager
def small_log() -> Iterator[tuple[httpx.Client, EventLog]]:
    log = EventLog(keep_events=3)
    app = Router([Route("/events", EventStreamEndpoint(log, asyncio.Event()).__call__)])
    with serving(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        yield client, log


def test_events_that_were_dropped_are_announced() -> None:
    with small_log() as (client, log):
        for number in range(10):
            log.append(SessionChanged, session="main", what=str(number))
        with client.stream("GET", "/events") as response:
            told = messages(response)
            seen: list[Message] = [next(told) for _ in range(4)]
    assert (seen[0].event, seen[0].json) == ("gap", {"missed": 7})
    assert [message.json["what"] for message in seen[1:]] == ["7", "8", "9"]


def test_streams_end_when_the_box_stops(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box, following(box, "/events") as response:
        told = messages(response)
        next(told)
        box.process.terminate()
        list(told)  # ends
        assert box.process.wait(LIMIT) == 0
