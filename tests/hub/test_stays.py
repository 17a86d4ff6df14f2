"""Agents come to work in windows and leave again, through the endpoints of a hub."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from glovebox.protocol.window import Arrive, Depart
from tests.hub.hubs import RunningHub, running_hub
from tests.hub.window_client import OpenedWindow, opened_window
from tests.support.running import wait_until


@pytest.fixture
def window(hub: RunningHub, tmp_path: Path) -> Iterator[OpenedWindow]:
    with window_of(hub, tmp_path / "project") as window:
        yield window


@contextlib.contextmanager
def window_of(hub: RunningHub, folder: Path) -> Iterator[OpenedWindow]:
    folder.mkdir()
    with opened_window(hub.url, hub.key, folder) as window:
        yield window


def arrive(hub: RunningHub, stay: str, *windows: OpenedWindow, **other: Any) -> httpx.Response:
    said = {"stay": stay, "windows": [window.id for window in windows], "agent": "OpenHands", **other}
    return hub.client.post("/api/vscode/arrive", json=said)


def arrived(hub: RunningHub, stay: str, *windows: OpenedWindow, **other: Any) -> dict[str, Any]:
    answer = arrive(hub, stay, *windows, **other)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def depart(hub: RunningHub, stay: str, window: OpenedWindow) -> None:
    answer = hub.client.post(f"/api/vscode/depart/{window.id}", json={"stay": stay})
    assert answer.status_code == 200, answer.text


def answers(window: OpenedWindow, allowed: bool) -> None:
    async def answer(order: Arrive) -> bool:
        return allowed

    window.window.hands.answer = answer


def hesitates(window: OpenedWindow) -> None:
    async def answer(order: Arrive) -> bool:
        await asyncio.Event().wait()
        return True

    window.window.hands.answer = answer


def asked(window: OpenedWindow) -> list[Arrive]:
    return [order for order in window.window.begun if isinstance(order, Arrive) and order.ask]


def in_background(work: Any, *arguments: Any, **more: Any) -> Future[httpx.Response]:
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work, *arguments, **more)
    finally:
        pool.shutdown(wait=False)


def test_the_next_agent_starts_in_the_workspace_with_a_fresh_environment(
    hub: RunningHub, window: OpenedWindow
) -> None:
    folder = str(window.window.hands.folders[0])
    came = arrived(hub, "first", window, env={"GIVEN": "by the agent"})
    assert came["fresh"]
    assert (came["window"]["agent"], came["window"]["stay"]) == ("OpenHands", "first")
    assert hub.run(window.id, "export LEFT=over; mkdir sub; cd sub; echo $GIVEN") == "by the agent"
    depart(hub, "first", window)
    assert [one["agent"] for one in hub.windows(id=window.id)] == [""]
    assert window.window.hands.stay is None
    arrived(hub, "second", window)
    assert hub.run(window.id, 'pwd; echo "[$LEFT$GIVEN]"') == f"{folder}\n[]"


def test_what_runs_in_the_terminals_ends_with_the_stay(hub: RunningHub, window: OpenedWindow) -> None:
    arrived(hub, "first", window)
    running = in_background(hub.act, window.id, "run", command="echo $$ > shell; sleep 1000")
    pid = window.window.hands.folders[0] / "shell"
    wait_until(lambda: pid.exists() and pid.read_text().strip().isdigit(), what="a command that runs")
    depart(hub, "first", window)
    assert running.result(60).status_code in (200, 500)
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), what="the shell to end")
    assert hub.run(window.id, "echo $$") != pid.read_text().strip()


def test_a_stay_that_was_never_ended_ends_with_the_next_arrival(
    hub: RunningHub, window: OpenedWindow
) -> None:
    arrived(hub, "vanished", window)
    hub.run(window.id, "export LEFT=over")
    assert arrived(hub, "next", window)["fresh"]
    assert hub.run(window.id, 'echo "[$LEFT]"') == "[]"
    depart(hub, "vanished", window)  # too late: it is not there any more
    assert hub.run(window.id, "export KEPT=yes; echo $KEPT") == "yes"
    assert [one["stay"] for one in hub.windows(id=window.id)] == ["next"]


def test_the_user_decides_about_the_next_agent_while_the_earlier_one_works(
    hub: RunningHub, window: OpenedWindow
) -> None:
    arrived(hub, "working", window)
    running = in_background(hub.act, window.id, "run", command="echo begun > begun; sleep 1000")
    wait_until((window.window.hands.folders[0] / "begun").exists, what="a command that runs")
    answers(window, False)
    refused = arrive(hub, "next", window)
    assert (refused.status_code, refused.headers["X-Glovebox-Error"]) == (403, "window_refused")
    assert [one["stay"] for one in hub.windows(id=window.id)] == ["working"]
    assert not running.done()
    answers(window, True)
    assert arrived(hub, "next", window)["fresh"]
    running.result(60)


def test_an_agent_that_returns_finds_its_shells(hub: RunningHub, window: OpenedWindow) -> None:
    arrived(hub, "same", window)
    hub.run(window.id, "export KEPT=yes")
    assert not arrived(hub, "same", window)["fresh"]
    assert hub.run(window.id, "echo $KEPT") == "yes"


def test_an_agent_without_a_name_shares_the_shells_and_leaves_them(
    hub: RunningHub, window: OpenedWindow
) -> None:
    arrived(hub, "named", window)
    hub.run(window.id, "export KEPT=yes")
    assert not arrived(hub, "guest", window, agent="")["fresh"]
    assert hub.run(window.id, "echo $KEPT") == "yes"
    depart(hub, "guest", window)
    assert hub.run(window.id, "echo $KEPT") == "yes"
    depart(hub, "named", window)
    assert hub.run(window.id, 'echo "[$KEPT]"') == "[]"


def test_the_terminals_of_an_agent_without_a_name_can_be_read_until_the_next_agent_comes(
    hub: RunningHub, window: OpenedWindow
) -> None:
    arrived(hub, "guest", window, agent="")
    hub.run(window.id, "export LEFT=over")
    terminals = window.window.hands.terminals
    depart(hub, "guest", window)
    assert terminals.find("main") is not None
    arrived(hub, "another", window, agent="")
    assert terminals.find("main") is None
    assert hub.run(window.id, 'echo "[$LEFT]"') == "[]"


def test_clients_that_do_not_announce_themselves_keep_their_shell(
    hub: RunningHub, window: OpenedWindow
) -> None:
    hub.run(window.id, "export KEPT=yes")
    assert hub.run(window.id, "echo $KEPT") == "yes"
    assert [one["agent"] for one in hub.windows(id=window.id)] == [""]


def test_the_first_window_that_allows_it_is_taken_and_the_others_are_not_asked_any_more(
    hub: RunningHub, window: OpenedWindow, tmp_path: Path
) -> None:
    with window_of(hub, tmp_path / "second") as second, window_of(hub, tmp_path / "third") as third:
        hesitates(window)
        answers(second, False)
        answers(third, True)
        came = arrived(hub, "stay", window, second, third, ask=True)
        assert came["window"]["id"] == third.id
        wait_until(lambda: bool(window.window.cancelled), what="the question to be withdrawn")
        assert len(asked(window)) == len(asked(second)) == len(asked(third)) == 1
        assert window.window.hands.stay is second.window.hands.stay is None
        assert third.window.hands.stay is not None


def test_if_everybody_denies_it_that_is_told(hub: RunningHub, window: OpenedWindow, tmp_path: Path) -> None:
    with window_of(hub, tmp_path / "second") as second:
        answers(window, False)
        answers(second, False)
        refused = arrive(hub, "stay", window, second, ask=True)
        assert (refused.status_code, refused.headers["X-Glovebox-Error"]) == (403, "window_refused")
        assert refused.json()["detail"].startswith("OpenHands was not allowed to work in a VS Code window. ")
        assert "project: The user does not allow it.; second: The user" in refused.json()["detail"]


def test_if_nobody_answers_in_time_that_is_told_and_the_question_is_withdrawn(
    hub: RunningHub, window: OpenedWindow
) -> None:
    hesitates(window)
    refused = arrive(hub, "stay", window, ask=True, seconds=0.2)
    assert (refused.status_code, refused.headers["X-Glovebox-Error"]) == (403, "window_refused")
    assert "Nobody answered within 0.2 s whether OpenHands may work" in refused.json()["detail"]
    wait_until(lambda: bool(window.window.cancelled), what="the question to be withdrawn")


def test_a_client_that_goes_away_withdraws_its_questions(hub: RunningHub, window: OpenedWindow) -> None:
    hesitates(window)
    said = {"stay": "gone", "windows": [window.id], "agent": "OpenHands", "ask": True}
    with pytest.raises(httpx.ReadTimeout):
        hub.client.post("/api/vscode/arrive", json=said, timeout=1)
    wait_until(lambda: bool(window.window.cancelled), what="the question to be withdrawn")
    assert [one["stay"] for one in hub.windows(id=window.id)] == [""]


def test_an_allowance_that_comes_too_late_is_taken_back(
    hub: RunningHub, window: OpenedWindow, tmp_path: Path
) -> None:
    """Both allow at once; one is taken, and the other does not believe that an agent works there."""
    with window_of(hub, tmp_path / "second") as second:
        answers(window, True)
        answers(second, True)
        taken = arrived(hub, "stay", window, second, ask=True)["window"]["id"]
        other = second if taken == window.id else window

        def left() -> bool:
            told = [order for order in other.window.begun if isinstance(order, Depart)]
            return bool(told) and other.window.hands.stay is None

        wait_until(left, what="the other window to be told")


def test_a_reloaded_window_is_told_who_works_in_it(hub: RunningHub, window: OpenedWindow) -> None:
    arrived(hub, "stay", window, env={"GIVEN": "again"})

    async def reload() -> None:
        await window.window.break_off(forget=True)
        await window.window.hands.terminals.close()
        window.window.hands.stay = None
        await window.window.register(same=True)
        await window.window.connect()

    window.call(reload())
    wait_until(lambda: window.window.hands.stay is not None, what="the window to be told")
    assert hub.run(window.id, "echo $GIVEN") == "again"


def test_a_hub_that_was_restarted_ends_a_stay_that_it_has_forgotten(tmp_path: Path) -> None:
    with running_hub(tmp_path) as hub, window_of(hub, tmp_path / "project") as window:
        arrived(hub, "stay", window)
        hub.run(window.id, "export LEFT=over")
        hub.restart()
        hub.wait_for(window.id, "connected")
        window.call(window.window.greeted())
        depart(hub, "stay", window)
        assert hub.run(window.id, 'echo "[$LEFT]"') == "[]"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"stay": ""}, "stay"),
        ({"stay": "s" * 201}, "stay"),
        ({"agent": "a\nb"}, "agent"),
        ({"agent": "a" * 201}, "agent"),
        ({"windows": []}, "windows"),
        ({"windows": ["a", "b"]}, "ask"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": 1e9}, "seconds"),
        ({"env": {"A B": "c"}}, "env"),
        ({"env": {"A": "c\0"}}, "env"),
    ],
)
def test_an_announcement_that_makes_no_sense_is_refused(
    hub: RunningHub, said: dict[str, Any], field: str
) -> None:
    answer = hub.client.post("/api/vscode/arrive", json={"stay": "s", "windows": ["w"], **said})
    assert answer.status_code == 422, answer.text
    assert f"body.{field}" in str(answer.json()).replace("', '", "."), answer.text


@pytest.mark.attack
def test_no_stay_begins_or_ends_without_the_key(hub: RunningHub, window: OpenedWindow) -> None:
    arrived(hub, "stay", window)
    for path in ("arrive", f"depart/{window.id}"):
        answer = httpx.post(f"{hub.url}/api/vscode/{path}", json={"stay": "stay"}, trust_env=False)
        assert answer.status_code == 403, answer.text
    assert [one["stay"] for one in hub.windows(id=window.id)] == ["stay"]


def test_an_unknown_window_is_told(hub: RunningHub) -> None:
    answer = hub.client.post("/api/vscode/arrive", json={"stay": "s", "windows": ["nowhere"]})
    assert (answer.status_code, answer.headers["X-Glovebox-Error"]) == (404, "no_such_window")
