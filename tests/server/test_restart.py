"""Answers outlive a server that is killed."""

from __future__ import annotations

import concurrent.futures
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.reading import envelope, joined, streaming, until
from tests.support.running import RunningBox, running_box, wait_until


@contextlib.contextmanager
def kept_box(directory: Path) -> Iterator[RunningBox]:
    with running_box(directory / "ws", "--state-dir", str(directory / "state")) as box:
        yield box


def kill(box: RunningBox) -> None:
    box.process.send_signal(signal.SIGKILL)
    box.process.wait()


def post(box: RunningBox, body: dict[str, Any]) -> httpx.Response:
    return box.client.post("/execute_action", json=body)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_an_answer_that_was_given_is_given_again(tmp_path: Path, log: Path) -> None:
    body = {
        **envelope("run", command=f"echo ran >> {log}; echo answer"),
        "idempotency_key": "k",
        "details": True,
    }
    failing = {**envelope("nope"), "idempotency_key": "f"}
    with kept_box(tmp_path) as box:
        first, failed = post(box, body), post(box, failing)
        kill(box)
    with kept_box(tmp_path) as box:
        second = post(box, body)
        assert second.content == first.content
        again = post(box, failing)
        assert (again.status_code, again.content) == (500, failed.content)
        assert again.headers["x-glovebox-error"] == "unknown_action"
        with streaming(box, body) as told:
            assert list(told)[-1].data.encode() == first.content
        other = post(box, {**envelope("run", command="true"), "idempotency_key": "k"})
        assert other.headers["x-glovebox-error"] == "idempotency_key_reused"
    assert log.read_text() == "ran\n"


def test_a_command_that_was_running_is_picked_up_again(tmp_path: Path, log: Path) -> None:
    gate = tmp_path / "gate"
    command = f"echo ran >> {log}; echo one; until [ -e {gate} ]; do sleep 0.05; done; echo two"
    body = {**envelope("run", command=command, blocking=True), "idempotency_key": "k"}
    with kept_box(tmp_path) as box, contextlib.suppress(httpx.HTTPError), streaming(box, body) as told:
        before = until(told, "output", "one")
        kill(box)
    with kept_box(tmp_path) as box:
        with streaming(box, body) as told:
            assert next(told).json["id"] == before[0].json["id"]
            gate.touch()
            rest = list(told)
        assert rest[-1].json["content"] == "one\ntwo"
        assert joined(rest) == "one\ntwo\n"
        assert post(box, body).content == rest[-1].data.encode()
    assert log.read_text() == "ran\n"


def test_an_action_that_cannot_be_picked_up_is_told_to_be_interrupted(tmp_path: Path) -> None:
    body = {**envelope("read", path=str(tmp_path / "late.txt")), "idempotency_key": "k"}
    with kept_box(tmp_path) as box, concurrent.futures.ThreadPoolExecutor(2) as pool:
        gate = tmp_path / "gate"
        waits = envelope("run", command=f"touch {tmp_path}/begun; until [ -e {gate} ]; do sleep 0.05; done")
        asked = [pool.submit(post, box, waits)]
        wait_until((tmp_path / "begun").exists, what="the command")
        asked.append(pool.submit(post, box, body))  # a read waits for what the shell is doing
        answers = tmp_path / "state" / "answers"
        wait_until(lambda: answers.exists() and bool(answers.read_text()), what="the action to be begun")
        kill(box)
        for one in asked:
            assert isinstance(one.exception(30), httpx.HTTPError)
    with kept_box(tmp_path) as box:
        told = post(box, body)
        assert (told.status_code, told.headers["x-glovebox-error"]) == (500, "action_interrupted")
        assert "restarted" in told.json()["detail"]
        assert post(box, body).content == told.content
