"""Persistent shells by name, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.reading import envelope, streaming, until
from tests.support.running import RunningBox


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers["x-glovebox-error"]


@pytest.fixture
def session(box: RunningBox) -> Iterator[str]:
    name = f"of-a-test-{uuid.uuid4().hex[:8]}"
    answer = box.client.post("/sessions", json={"name": name, "rows": 30, "columns": 90})
    assert answer.status_code == 201, answer.text
    yield name
    box.client.delete(f"/sessions/{name}")


def test_a_session_is_opened_used_and_ended(box: RunningBox, tmp_path: Path) -> None:
    limits = {"memory": 500_000_000, "cpu_seconds": None, "processes": None, "file_size": None}
    body = {"name": "mine", "cwd": str(tmp_path), "rows": 40, "columns": 100, "limits": limits}
    made = box.client.post("/sessions", json=body)
    assert made.status_code == 201
    info = made.json()
    assert {name: info[name] for name in body} == body
    assert box.run("pwd; stty size", session="mine") == f"{tmp_path}\n40 100"
    box.run("here=mine", session="mine")
    assert box.run("echo $here") == ""
    assert "mine" in [one["name"] for one in box.client.get("/sessions").json()]
    pid = box.client.get("/sessions/mine").json()["pid"]
    assert Path(f"/proc/{pid}").exists()
    ended = box.client.delete("/sessions/mine")
    assert (ended.status_code, ended.content) == (204, b"")
    assert not Path(f"/proc/{pid}").exists()
    assert problem(box.client.get("/sessions/mine")) == (404, "no_such_session")


def test_the_main_session_is_always_there(box: RunningBox) -> None:
    info = box.client.get("/sessions/main").json()
    assert (info["name"], info["taken"], info["command"]) == ("main", False, None)
    assert info["cwd"] == box.run("pwd")


def test_a_session_can_be_resized(box: RunningBox, session: str) -> None:
    answer = box.client.post(f"/sessions/{session}/resize", json={"rows": 50, "columns": 120})
    assert (answer.json()["rows"], answer.json()["columns"]) == (50, 120)
    assert box.run("stty size", session=session) == "50 120"


def test_a_signal_goes_to_what_runs_in_the_session(box: RunningBox, session: str) -> None:
    idle = box.client.post(f"/sessions/{session}/signal", json={"signal": "SIGINT"})
    assert problem(idle) == (409, "command_ended")
    with streaming(box, envelope("run", command="sleep 100", session=session)) as told:
        until(told, "state", "sleep")
        info = box.client.get(f"/sessions/{session}").json()
        answer = box.client.post(f"/sessions/{session}/signal", json={"signal": "TERM"})
        assert answer.json()["command"] in (info["command"], None)
        assert list(told)[-1].json["extras"]["metadata"]["exit_code"] == 143


def test_a_name_that_is_taken_is_refused(box: RunningBox, session: str) -> None:
    assert problem(box.client.post("/sessions", json={"name": session})) == (409, "session_exists")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "request_invalid"),
        ([], "request_invalid"),
        ({"name": 5}, "request_invalid"),
        ({"name": "a", "colour": "red"}, "request_invalid"),
        ({"name": "a", "limits": {"memory": "much"}}, "request_invalid"),
        ({"name": ""}, "bad_session"),
        ({"name": "../up"}, "bad_session"),
        ({"name": "a" * 1000}, "bad_session"),
        ({"name": "a", "rows": 100_000, "columns": 80}, "bad_session"),
        ({"name": "a", "rows": -5}, "bad_session"),
        ({"name": "a", "columns": 10**9}, "bad_session"),
        ({"name": "a", "cwd": "/no/such/directory"}, "bad_session"),
    ],
)
def test_a_session_that_cannot_be_is_refused(box: RunningBox, body: Any, code: str) -> None:
    before = [one["name"] for one in box.client.get("/sessions").json()]
    assert problem(box.client.post("/sessions", json=body)) == (422, code)
    assert [one["name"] for one in box.client.get("/sessions").json()] == before


def test_a_body_that_is_much_too_large_is_refused(box: RunningBox) -> None:
    answer = box.client.post("/sessions", json={"name": "a" * 1_000_000})
    assert problem(answer) == (413, "too_large")


@pytest.mark.parametrize(
    ("action", "body", "code"),
    [
        ("resize", {"rows": 0, "columns": 80}, "bad_session"),
        ("resize", {"rows": 24}, "request_invalid"),
        ("resize", {"rows": "24", "columns": 80}, "request_invalid"),
        ("signal", {"signal": "LOUD"}, "bad_session"),
        ("signal", None, "request_invalid"),
    ],
)
def test_what_a_session_cannot_do_is_refused(box: RunningBox, action: str, body: Any, code: str) -> None:
    assert problem(box.client.post(f"/sessions/main/{action}", json=body)) == (422, code)
    good = {"resize": {"rows": 24, "columns": 80}, "signal": {"signal": "INT"}}[action]
    assert problem(box.client.post(f"/sessions/nope/{action}", json=good)) == (404, "no_such_session")


def test_an_unknown_session_is_404(box: RunningBox) -> None:
    assert problem(box.client.get("/sessions/nope")) == (404, "no_such_session")
    assert problem(box.client.delete("/sessions/nope")) == (404, "no_such_session")


def test_the_key_is_needed(box: RunningBox) -> None:
    for method, path in (
        ("GET", "/sessions"),
        ("GET", "/events"),
        ("GET", "/commands/a"),
        ("DELETE", "/sessions/a"),
    ):
        answer = httpx.request(method, box.url + path, trust_env=False)
        assert problem(answer) == (403, "invalid_api_key")
        inside = httpx.request(method, box.url + path, params={"session_api_key": box.key}, trust_env=False)
        assert problem(inside) == (403, "invalid_api_key")
