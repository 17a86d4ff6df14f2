"""`POST /commands` and what goes with it, over HTTP."""

from __future__ import annotations

import concurrent.futures
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.test_restart import kept_box, kill
from tests.support.running import RunningBox, wait_until


def post(box: RunningBox, command: str, **fields: Any) -> httpx.Response:
    return box.client.post("/commands", json={"command": command, **fields})


def ran(box: RunningBox, command: str, **fields: Any) -> Any:
    answer = post(box, command, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers["x-glovebox-error"]


def test_a_script_is_run_and_listed(box: RunningBox) -> None:
    result = ran(box, "echo one\necho two >&2\n(exit 4)")
    assert result["output"] == "one\ntwo\n"
    assert (result["command"]["exit_code"], result["command"]["state"]) == (4, "ended")
    assert (result["output_offset"], result["output_end"], result["notes"]) == (0, 10, [])
    other = ran(box, "true", session="other")
    listed = box.client.get("/commands").json()
    assert [one["id"] for one in listed[:2]] == [other["command"]["id"], result["command"]["id"]]
    assert box.client.get("/commands", params={"session": "main", "limit": 1}).json() == listed[1:2]
    assert problem(box.client.get("/commands", params={"limit": 0})) == (422, "request_invalid")


def test_a_busy_session_refuses_and_the_command_can_be_waited_for(box: RunningBox) -> None:
    begun = ran(box, "echo begun; read -p 'go? ' x; echo got $x", wait=False)["command"]
    busy = post(box, "echo no")
    assert problem(busy) == (409, "session_busy")
    assert begun["id"] in busy.json()["detail"]
    path = f"/commands/{begun['id']}"
    asked = box.client.post(f"{path}/wait", json={"on_wait": "return"}).json()
    assert (asked["command"]["state"], asked["command"]["prompt"]) == ("waiting_for_input", "go?")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(box.client.post, f"{path}/wait", json={"offset": asked["output_end"]})
        late = box.client.post(f"{path}/wait", json={"timeout": 0.2}).json()
        assert late["timed_out"]
        sent = box.client.post(f"{path}/input", json={"text": "on", "keys": ["Enter"]})
        assert sent.status_code == 200
        result = waiting.result().json()
    assert result["output"].endswith("got on\n")
    assert problem(box.client.post(f"{path}/input", json={"text": "x"})) == (409, "command_ended")
    assert problem(box.client.post("/commands/nope/input", json={})) == (404, "no_such_command")
    assert problem(box.client.post("/commands/nope/wait", json={})) == (404, "no_such_command")
    assert problem(post(box, "true", session="a b")) == (422, "bad_session")


@pytest.mark.parametrize("body", [{}, {"command": 3}, {"command": "true", "unknown": 1}, {"command": " "}])
def test_a_wrong_request_is_refused(box: RunningBox, body: dict[str, Any]) -> None:
    assert box.client.post("/commands", json=body).status_code == 422


def test_unknown_keys_are_named(box: RunningBox) -> None:
    begun = ran(box, "cat", wait=False)["command"]
    answer = box.client.post(f"/commands/{begun['id']}/input", json={"keys": ["Hyper"]})
    assert problem(answer) == (422, "bad_input")
    assert "'Hyper'" in answer.json()["detail"]
    box.client.post(f"/commands/{begun['id']}/input", json={"keys": ["C-d"]})
    # Without a body, everything is as by default.
    assert box.client.post(f"/commands/{begun['id']}/wait").json()["command"]["exit_code"] == 0


def test_events_follow_a_command_to_its_result(box: RunningBox) -> None:
    body = {"command": "echo one; sleep 0.2; read -p 'name? ' x", "on_wait": "return"}
    with box.client.stream("POST", "/commands", json=body, headers={"Accept": "text/event-stream"}) as answer:
        text = "".join(answer.iter_text())
    events = [part.partition("\ndata: ") for part in text.split("\n\n") if part.startswith("event: ")]
    names = [name.removeprefix("event: ") for name, _, _ in events]
    assert names[0] == "started"
    assert "output" in names
    assert names[-1] == "result"
    result = json.loads(events[-1][2])
    assert result["command"]["prompt"] == "name?"
    assert result["output"].startswith("one\n")


def test_the_same_key_runs_once(box: RunningBox, tmp_path: Path) -> None:
    first = ran(box, "echo ran >> log; echo $RANDOM", idempotency_key="k")
    again = box.client.post(
        "/commands", json={"command": "echo ran >> log; echo $RANDOM"}, headers={"Idempotency-Key": "k"}
    )
    assert again.json() == first
    assert (tmp_path / "log").read_text() == "ran\n"
    assert problem(post(box, "true", idempotency_key="k")) == (409, "idempotency_key_reused")


def test_errors_have_their_status_with_a_key_too(box: RunningBox) -> None:
    begun = ran(box, "sleep 1000", wait=False)["command"]
    assert problem(post(box, "true", idempotency_key="b")) == (409, "session_busy")
    box.client.post(f"/commands/{begun['id']}/signal", json={"signal": "SIGINT"})


def test_a_command_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo ran >> {tmp_path}/log\necho one\nuntil [ -e {gate} ]; do sleep 0.05; done\necho two"
    with kept_box(tmp_path) as box, concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(post, box, script, idempotency_key="k")
        wait_until((tmp_path / "log").exists, what="its beginning")
        kill(box)
        with pytest.raises(httpx.HTTPError):
            waiting.result()
    with kept_box(tmp_path) as box:
        assert problem(post(box, "echo no")) == (409, "session_busy")
        gate.touch()
        result = ran(box, script, idempotency_key="k")
        assert (result["output"], result["command"]["exit_code"]) == ("one\ntwo\n", 0)
        assert ran(box, "echo next")["output"] == "next\n"
        box.process.send_signal(signal.SIGKILL)
        box.process.wait()
    with kept_box(tmp_path) as box:
        assert ran(box, script, idempotency_key="k") == result
        assert ran(box, "echo after")["output"] == "after\n"
    assert (tmp_path / "log").read_text() == "ran\n"
