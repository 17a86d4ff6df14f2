"""An action's output as it is printed, and at the end exactly what the plain endpoint answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from glovebox.http.sse import Stream, message
from tests.server.reading import envelope, joined, messages, streaming, until
from tests.server.serving import serving
from tests.support.running import RunningBox, wait_until
from tests.support.waiting import LIMIT

PATH = "/execute_action_stream"


def test_output_arrives_while_the_command_runs(box: RunningBox, tmp_path: Path) -> None:
    box.run("mkfifo gate")
    with streaming(box, envelope("run", command="echo one; cat gate; echo three")) as told:
        started = next(told)
        assert (started.event, started.json["action"]) == ("started", "run")
        first = until(told, "output", "one")
        (tmp_path / "gate").write_text("two\n")
        rest = list(told)
    assert joined([*first, *rest]) == "one\ntwo\nthree\n"
    assert rest[-1].event == "observation"
    assert rest[-1].json["content"] == "one\ntwo\nthree"


def test_the_observation_is_byte_for_byte_what_the_plain_endpoint_answers(
    box: RunningBox, tmp_path: Path
) -> None:
    for details in (False, True):
        body = {**envelope("run", command="echo 'ä \"q\"'"), "idempotency_key": f"same-{tmp_path}"}
        body["details"] = details
        plain = box.client.post("/execute_action", json=body)
        with streaming(box, body) as told:
            last = list(told)[-1]
        assert last.data.encode() == plain.content
        assert ("details" in last.json) == details


def test_details_tell_of_the_command_and_what_it_cost(box: RunningBox, tmp_path: Path) -> None:
    with streaming(box, {**envelope("run", command="echo hi"), "details": True}) as told:
        command = list(told)[-1].json["details"]["command"]
    assert (command["state"], command["exit_code"], command["output_bytes"]) == ("ended", 0, 4)
    assert command["bill"]["wall_seconds"] >= 0
    answer = box.client.post(
        "/execute_action", json={**envelope("mkdir", path=str(tmp_path / "d")), "details": True}
    )
    assert answer.json()["details"]["command"] is None


def test_states_are_told(box: RunningBox) -> None:
    body = envelope("run", command="read -p 'Your name? ' name; echo hello $name")
    with streaming(box, body) as told:
        waiting = until(told, "state", "waiting_for_input")[-1].json
        assert waiting["prompt"] == "Your name?"
        box.client.post(f"/commands/{waiting['id']}/signal", json={"signal": "INT"})
        rest = list(told)
    ended = [message.json for message in rest if message.event == "state"][-1]
    assert (ended["state"], ended["exit_code"]) == ("ended", 130)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'{"action": "run"}', "application/json"),
        (b'{"action": {"action": "null"}, "idempotency_key": ""}', "application/json"),
        (b'{"action": {"action": "null"}}', "text/plain"),
    ],
)
def test_a_malformed_request_is_answered_as_the_plain_endpoint_does(
    box: RunningBox, body: bytes, content_type: str
) -> None:
    answers = [
        box.client.post(path, content=body, headers={"Content-Type": content_type})
        for path in ("/execute_action", PATH)
    ]
    assert answers[0].status_code >= 400
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].content == answers[1].content
    assert answers[0].headers["x-glovebox-error"] == answers[1].headers["x-glovebox-error"]


@pytest.mark.parametrize("action", [{"action": "nope"}, {"action": "think"}, {"observation": "run"}, {}])
def test_a_failure_is_an_event_with_the_plain_endpoints_status_code_and_detail(
    box: RunningBox, action: dict[str, Any]
) -> None:
    plain = box.client.post("/execute_action", json={"action": action})
    with streaming(box, {"action": action}) as told:
        last = list(told)[-1]
    assert last.event == "error"
    assert {name: last.json[name] for name in ("status", "code", "detail")} == {
        "status": plain.status_code,
        "code": plain.headers["x-glovebox-error"],
        "detail": plain.json()["detail"],
    }


def test_a_client_that_goes_away_does_not_stop_the_command_and_can_join_again(
    box: RunningBox, tmp_path: Path
) -> None:
    box.run("mkfifo gate")
    body = {**envelope("run", command="echo one; cat gate; echo three"), "idempotency_key": f"j-{tmp_path}"}
    with streaming(box, body) as told:
        before = until(told, "output", "one")
    with streaming(box, body) as told:
        assert next(told).json["id"] == before[0].json["id"]
        again = until(told, "output", "one")
        (tmp_path / "gate").write_text("two\n")
        again += list(told)
    assert joined(again) == "one\ntwo\nthree\n"
    with streaming(box, body) as told:
        stored = list(told)
    assert [message.event for message in stored] == ["started", "observation"]
    assert stored[-1].data == again[-1].data


def test_two_streams_with_one_key_follow_one_run(box: RunningBox, tmp_path: Path) -> None:
    box.run("mkfifo gate")
    command = f"echo x >> {tmp_path}/log; cat gate; wc -l < {tmp_path}/log"
    body = {**envelope("run", command=command), "idempotency_key": f"two-{tmp_path}"}

    def follow() -> list[tuple[str, str]]:
        with streaming(box, body) as told:
            return [(message.event, message.data) for message in told if message.event != "state"]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(follow) for _ in range(2)]
        wait_until(lambda: (tmp_path / "log").exists(), what="the command")
        (tmp_path / "gate").write_text("go\n")
        first, second = (one.result(LIMIT) for one in both)
    assert first == second
    assert (tmp_path / "log").read_text() == "x\n"


def test_a_key_that_comes_back_with_another_action_is_refused(box: RunningBox, tmp_path: Path) -> None:
    key = f"other-{tmp_path}"
    box.client.post("/execute_action", json={**envelope("run", command="true"), "idempotency_key": key})
    refused = box.client.post(PATH, json={**envelope("run", command="false"), "idempotency_key": key})
    assert (refused.status_code, refused.headers["x-glovebox-error"]) == (500, "idempotency_key_reused")


def test_an_action_without_output_is_streamed_too(box: RunningBox, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content\n")
    with streaming(box, envelope("read", path=str(tmp_path / "a.txt"))) as told:
        assert [message.event for message in told] == ["started", "observation"]


def memory(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.timeout(600)
def test_a_reader_that_is_slow_loses_nothing_and_costs_no_memory(box: RunningBox, tmp_path: Path) -> None:
    box.run("seq -f 'line %.0f of a long output, ä, and more' 1200000 > big.txt")
    expected = (tmp_path / "big.txt").read_bytes()
    assert len(expected) > 50_000_000
    before = memory(box.process.pid)
    where = urlsplit(box.url)
    body = json.dumps({**envelope("run", command="cat big.txt", blocking=True), "details": True}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: {box.key}\r\nConnection: close\r\n"
    with socket.create_connection((where.hostname or "", where.port or 0)) as slow:
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = slow.recv(4096)
        while b"event: output" not in answer:
            answer += slow.recv(4096)
        command = json.loads(answer.partition(b"data: ")[2].partition(b"\n")[0])["id"]
        wait_until(lambda: finished(box, command), 120, "the command to end unread")
        assert memory(box.process.pid) - before < 40_000_000
        while piece := slow.recv(1 << 20):
            answer += piece
    text = answer.partition(b"\r\n\r\n")[2]
    told = list(messages(httpx.Response(200, content=unchunked(text))))
    assert joined(told) == expected.decode()
    assert told[-1].event == "observation"
    assert memory(box.process.pid) - before < 40_000_000
    raw = box.client.get(f"/commands/{command}/output", params={"format": "raw"}).content
    assert raw == expected.replace(b"\n", b"\r\n")


def finished(box: RunningBox, command: str) -> bool:
    return bool(box.client.get(f"/commands/{command}").json()["state"] == "ended")


def unchunked(data: bytes) -> bytes:
    pieces: list[bytes] = []
    position = 0
    while True:
        end = data.index(b"\r\n", position)
        size = int(data[position:end], 16)
        if not size:
            return b"".join(pieces)
        pieces.append(data[end + 2 : end + 2 + size])
        position = end + 2 + size + 2


def test_a_stream_is_kept_alive_by_comments_and_ends_with_the_box() -> None:
    closing = asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield message("first", {"a": 1})
        await asyncio.Event().wait()

    async def stream(request: Request) -> Response:
        return Stream(pieces(), closing=closing, keep_alive=0.01)

    async def close(request: Request) -> Response:
        closing.set()
        return Response()

    app = Router([Route("/stream", stream), Route("/close", close)])
    with (
        serving(app) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
        client.stream("GET", "/stream") as response,
    ):
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        lines = response.iter_lines()
        assert [next(lines) for _ in range(5)] == ["event: first", 'data: {"a":1}', "", ": keep-alive", ""]
        client.get("/close")
        assert set(lines) <= {": keep-alive", ""}
