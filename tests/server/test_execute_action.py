from __future__ import annotations

import concurrent.futures
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import RunningBox
from tests.support.waiting import LIMIT

PATH = "/execute_action"


def envelope(action: str, **args: Any) -> dict[str, Any]:
    return {"action": {"action": action, "args": args}}


def test_an_answer_has_the_contracts_keys_and_no_others(box: RunningBox, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    answer = box.client.post(PATH, json=envelope("read", path=str(tmp_path / "a.txt")))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "message": f"I read the file {tmp_path}/a.txt.",
        "observation": "read",
        "content": "hello\n",
        "extras": {"path": f"{tmp_path}/a.txt", "impl_source": "default"},
    }
    assert b'": ' not in answer.content


def test_details_are_given_when_asked_for(box: RunningBox, tmp_path: Path) -> None:
    answer = box.client.post(
        PATH, json={**envelope("mkdir", path=str(tmp_path / "d")), "details": True}
    ).json()
    assert set(answer["details"]) == {"action_id", "started", "seconds", "command", "cell"}
    assert 0 <= answer["details"]["seconds"] < 60


@pytest.mark.parametrize(
    ("body", "content_type", "status", "text"),
    [
        (b"", "application/json", 422, "Field required"),
        (b"null", "application/json", 422, "Field required"),
        (b"[1]", "application/json", 422, "valid dictionary or object"),
        (b"{", "application/json", 422, "json_invalid"),
        (b'{"foo": 1}', "application/json", 422, "('body', 'action')"),
        (b'{"action": "run"}', "application/json", 422, "dict_type"),
        (b'{"action": {"action": "null"}}', "text/plain", 422, "valid dictionary or object"),
        (b'{"action": {"action": "null"}}', "application/x-www-form-urlencoded", 422,
         "send Content-Type: application/json"),
        (b'{"action": {"action": "null"}, "idempotency_key": 5}', "application/json", 422, "idempotency_key"),
        (b'{"action": {"action": "null"}, "idempotency_key": ""}', "application/json", 422, "1 to 512"),
        (b'{"action": "\xff"}', "application/json", 400, "There was an error parsing the body"),
        (b'{"action": "\\ud800"}', "application/json", 422, "Invalid request parameters"),
        (b"[" * 100_000, "application/json", 400, "There was an error parsing the body"),
        (b'{"action": {}}', "application/json", 500, "Unknown event type: {}"),
        (b'{"action": {"observation": "run"}}', "application/json", 500, "400: Invalid action type"),
        (b'{"action": {"action": "nope"}}', "application/json", 500, "is not defined"),
        (b'{"action": {"action": "think"}}', "application/json", 500, "no attribute 'think'"),
        (b'{"action": {"action": "run_ipython", "args": {"code": "1"}}}', "application/json", 500,
         "JupyterRequirement not found. Unable to run IPython action."),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_carried_out_says_why_and_the_box_goes_on(
    box: RunningBox, body: bytes, content_type: str, status: int, text: str
) -> None:
    answer = box.client.post(PATH, content=body, headers={"Content-Type": content_type})
    assert answer.status_code == status
    assert text in answer.text
    assert answer.headers["x-glovebox-error"]
    assert box.client.get("/alive").json() == {"status": "ok"}


def test_a_body_without_a_type_is_read_as_json(box: RunningBox) -> None:
    request = box.client.build_request(
        "POST", PATH, content=b'{"action": {"action": "run", "args": {"command": "echo typed"}}}'
    )
    request.headers.pop("content-type", None)
    assert box.client.send(request).json()["content"] == "typed"


def test_the_same_key_gives_the_same_answer_and_runs_once(box: RunningBox, tmp_path: Path) -> None:
    body = {
        **envelope("run", command=f"echo x >> {tmp_path}/log; wc -l < {tmp_path}/log"),
        "idempotency_key": "once",
    }
    body["idempotency_key"] = f"once-{tmp_path}"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: box.client.post(PATH, json=body).json(), range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["content"] == "1"
    assert (tmp_path / "log").read_text() == "x\n"


def test_a_failure_is_replayed_like_a_success(box: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "late.txt"
    body = {**envelope("read", path=str(path)), "idempotency_key": f"fails-{tmp_path}"}
    first = box.client.post(PATH, json=body).json()
    path.write_text("now it is there")
    assert box.client.post(PATH, json=body).json() == first
    assert first["observation"] == "error"


def test_a_key_that_comes_back_with_another_action_is_refused(box: RunningBox, tmp_path: Path) -> None:
    key = f"reused-{tmp_path}"
    box.client.post(PATH, json={**envelope("mkdir", path=str(tmp_path / "a")), "idempotency_key": key})
    other = box.client.post(
        PATH, json={**envelope("mkdir", path=str(tmp_path / "b")), "idempotency_key": key}
    )
    assert other.status_code == 500
    assert other.headers["x-glovebox-error"] == "idempotency_key_reused"
    assert not (tmp_path / "b").exists()


def test_a_slow_command_does_not_delay_a_file_read(box: RunningBox, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("quick")
    fifo = tmp_path / "fifo"
    box.run(f"mkfifo {fifo}")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(box.run, f"cat {fifo}")
        assert box.execute("read", path=str(tmp_path / "a.txt"))["content"] == "quick"
        assert not slow.done()
        fifo.write_text("now")
        assert slow.result(LIMIT) == "now"


def test_a_file_that_a_running_command_is_about_to_make_is_waited_for(
    box: RunningBox, tmp_path: Path
) -> None:
    fifo, late = tmp_path / "fifo", tmp_path / "late.txt"
    box.run(f"mkfifo {fifo}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        slow = pool.submit(
            box.run, f"touch {tmp_path}/started; cat {fifo} > {late}.tmp; mv {late}.tmp {late}"
        )
        while not (tmp_path / "started").exists():
            assert not slow.done()
        read = pool.submit(box.execute, "read", path=str(late))
        fifo.write_text("made")
        assert slow.result(LIMIT) == ""
        assert read.result(LIMIT)["content"] == "made"


def test_a_mistyped_argument_is_refused_in_the_form_the_contract_gives_it(box: RunningBox) -> None:
    assert box.execute("run", command=None)["observation"] == "error"
    edit = box.execute("edit", path="/a", command="str_replace", old_str=5)
    assert (edit["observation"], edit["extras"]["old_content"]) == ("edit", 5)
    answer = box.client.post(PATH, json=envelope("read", path=3.5))
    assert (answer.status_code, answer.headers["x-glovebox-error"]) == (500, "wrong_arguments")


def test_the_message_of_a_search_is_right_for_any_number(box: RunningBox, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("needle\n")
    assert box.execute("grep", pattern="needle")["message"] == "Lines that match needle: 1."
    assert box.execute("glob", pattern="*.txt")["message"] == "Paths that match *.txt: 1."
