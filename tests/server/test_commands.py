"""A command can be looked at, read from any place, searched and signalled by its id."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.reading import (
    Message,
    envelope,
    finished_command,
    following,
    joined,
    messages,
    started_command,
    streaming,
    until,
)
from tests.support.running import RunningBox, wait_until

SIGNALLED = """bash -c 'trap "echo got it; exit 4" INT; echo ready; while :; do sleep 0.1; done'"""


def output(box: RunningBox, command: str, **query: Any) -> httpx.Response:
    return box.client.get(f"/commands/{command}/output", params=query)


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers["x-glovebox-error"]


def test_a_command_is_told_of_while_it_runs_and_after(box: RunningBox, tmp_path: Path) -> None:
    box.run("mkfifo gate")
    command = started_command(box, "echo one; cat gate; exit_with() { return 3; }; exit_with")
    info = box.client.get(f"/commands/{command}").json()
    assert (info["id"], info["session"], info["by"], info["exit_code"]) == (command, "main", "agent", None)
    (tmp_path / "gate").write_text("")
    wait_until(lambda: box.client.get(f"/commands/{command}").json()["state"] == "ended", what="its end")
    info = box.client.get(f"/commands/{command}").json()
    assert (info["exit_code"], info["output_bytes"]) == (3, 5)
    assert info["bill"]["output_bytes"] == 5


def test_output_is_given_as_bytes_as_text_and_as_a_person_saw_it(box: RunningBox) -> None:
    command = finished_command(box, r"printf 'a\033[31mred\033[0m\n50%%\r100%%\n'")
    raw = output(box, command, format="raw")
    assert raw.content == b"a\x1b[31mred\x1b[0m\r\n50%\r100%\r\n"
    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.headers["x-glovebox-next-offset"] == str(len(raw.content))
    text = output(box, command).json()
    assert text == {
        "command_id": command, "offset": 0, "end": len(raw.content),
        "text": "ared\n50%\r100%\n", "finished": True, "output_bytes": len(raw.content),
    }  # fmt: skip
    assert output(box, command, format="rendered").json()["text"] == "ared\n100%"


def test_output_can_be_read_piece_by_piece_and_nothing_is_lost_or_doubled(box: RunningBox) -> None:
    command = finished_command(box, r"for i in 1 2 3; do printf 'ä€😀 \033[1m%s\033[0m\n' $i; done")
    whole = output(box, command, format="raw").content
    for limit in (1, 2, 3, 5, 7, 1000):
        raw, text, offset = b"", "", 0
        while offset < len(whole):
            raw += output(box, command, format="raw", offset=offset, limit=limit).content
            offset = min(offset + limit, len(whole))
        assert raw == whole
        part: dict[str, Any] = {"end": 0, "output_bytes": 1}
        while part["end"] < part["output_bytes"]:
            before = part["end"]
            part = output(box, command, offset=before, limit=limit).json()
            assert part["end"] > before
            text += part["text"]
        assert text == "ä€😀 1\nä€😀 2\nä€😀 3\n"


def test_text_of_a_running_command_ends_before_a_character_that_is_not_whole(
    box: RunningBox, tmp_path: Path
) -> None:
    box.run("mkfifo gate")
    command = started_command(box, r"printf 'a\xe2\x82'; cat gate")
    wait_until(lambda: box.client.get(f"/commands/{command}").json()["output_bytes"] == 3, what="output")
    part = output(box, command).json()
    assert (part["text"], part["end"], part["finished"]) == ("a", 1, False)
    (tmp_path / "gate").write_bytes(b"\xac!")
    wait_until(lambda: output(box, command).json()["finished"], what="the end")
    assert output(box, command, offset=1).json()["text"] == "€!"


def test_following_goes_on_until_the_command_ends(box: RunningBox, tmp_path: Path) -> None:
    box.run("mkfifo gate")
    command = started_command(box, "echo one; cat gate; echo three")
    with following(box, f"/commands/{command}/output?follow=true") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        told = messages(response)
        seen = until(told, "output", "one")
        with following(box, f"/commands/{command}/output?follow=true&format=raw") as other:
            raw = other.iter_raw()
            first = next(raw)
            (tmp_path / "gate").write_text("two\n")
            assert first + b"".join(raw) == b"one\r\ntwo\r\nthree\r\n"
        seen += list(told)
    assert joined(seen) == "one\ntwo\nthree\n"
    assert (seen[-1].event, seen[-1].json["exit_code"]) == ("end", 0)


def test_a_reader_whose_connection_broke_gets_the_rest_once(box: RunningBox, tmp_path: Path) -> None:
    box.run("mkfifo gate")
    command = started_command(box, "echo one; cat gate; echo three")
    path = f"/commands/{command}/output?follow=true"
    with following(box, path) as response:
        seen = until(messages(response), "output", "one")
    (tmp_path / "gate").write_text("two\n")
    by_offset, by_id = seen[-1].json["end"], seen[-1].id

    def rest(path: str, **headers: str) -> list[Message]:
        with following(box, path, **headers) as response:
            return list(messages(response))

    assert joined([*seen, *rest(f"{path}&offset={by_offset}")]) == "one\ntwo\nthree\n"
    assert joined([*seen, *rest(path, **{"Last-Event-ID": by_id})]) == "one\ntwo\nthree\n"


def test_many_readers_of_one_command_all_get_everything(box: RunningBox) -> None:
    command = started_command(box, "for i in {1..20000}; do echo line $i; done")
    expected = "".join(f"line {i}\n" for i in range(1, 20_001))

    def read(kind: str) -> str:
        with following(box, f"/commands/{command}/output?follow=true&format={kind}") as response:
            if kind == "raw":
                return b"".join(response.iter_raw()).decode().replace("\r\n", "\n")
            return joined(list(messages(response)))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, ["raw", "text", "raw", "text"])) == [expected] * 4


def test_output_can_be_searched(box: RunningBox) -> None:
    command = finished_command(
        box, r"for i in {1..50}; do echo line $i; done; printf '\033[31mError\033[0m!\n'"
    )
    found = output(box, command, search="error", context=1).json()
    assert (found["total"], found["lines"], found["complete"]) == (1, 51, True)
    assert (found["matches"][0]["line"], found["matches"][0]["text"]) == (51, "Error!")
    assert found["matches"][0]["before"] == ["line 50"]
    at = found["matches"][0]["offset"]
    assert output(box, command, format="raw", offset=at).content.startswith(b"\x1b[31mError")
    assert output(box, command, search="error", case=True).json()["total"] == 0
    found = output(box, command, search=r"line \d$", regex=True, limit=2).json()
    assert (found["total"], len(found["matches"])) == (9, 2)


@pytest.mark.parametrize(
    "query",
    [
        {"offset": -1}, {"offset": "x"}, {"offset": 10**30}, {"offset": 10**6}, {"offset": "٣"},
        {"offset": ""},
        {"limit": 0}, {"limit": "1.5"}, {"limit": 10**12}, {"format": "html"}, {"follow": "perhaps"},
        {"search": ""}, {"search": "(", "regex": "true"}, {"search": "a", "context": -1},
        {"search": "a", "limit": 0}, {"search": "a" * 5000},
    ],
)  # fmt: skip
def test_a_parameter_that_makes_no_sense_is_refused(box: RunningBox, query: dict[str, Any]) -> None:
    command = finished_command(box, "echo hi")
    answer = output(box, command, **query)
    assert problem(answer) == (422, "request_invalid")
    wrong = "search" if query.get("regex") else list(query)[-1]
    assert f"('query', '{wrong}')" in answer.json()["errors"]


@pytest.mark.parametrize(
    "path", ["", "/output", "/output?format=raw", "/output?follow=1", "/output?search=a"]
)
def test_an_unknown_command_is_404(box: RunningBox, path: str) -> None:
    assert problem(box.client.get(f"/commands/nope{path}")) == (404, "no_such_command")


def test_a_signal_reaches_the_command(box: RunningBox) -> None:
    with streaming(box, envelope("run", command=SIGNALLED)) as told:
        command = next(told).json["id"]
        until(told, "output", "ready")
        answer = box.client.post(f"/commands/{command}/signal", json={"signal": "SIGINT"})
        assert answer.json()["id"] == command
        assert "got it" in list(told)[-1].json["content"]
    late = box.client.post(f"/commands/{command}/signal", json={"signal": "SIGINT"})
    assert problem(late) == (409, "command_ended")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"signal": "SIGNOPE"}', 422, "bad_session"),
        (b'{"signal": 2}', 422, "request_invalid"),
        (b"{}", 422, "request_invalid"),
        (b"", 422, "request_invalid"),
        (b'{"signal": "INT", "more": 1}', 422, "request_invalid"),
        (b'{"signal": "\xff"}', 422, "request_invalid"),
        (b" " * 100_000, 413, "too_large"),
    ],
)
def test_a_signal_that_is_none_is_refused(box: RunningBox, body: bytes, status: int, code: str) -> None:
    with streaming(box, envelope("run", command="sleep 100")) as told:
        command = next(told).json["id"]
        until(told, "state", "sleep")
        assert problem(box.client.post(f"/commands/{command}/signal", content=body)) == (status, code)
        assert box.client.post(f"/commands/{command}/signal", json={"signal": "9"}).status_code == 200
        list(told)
    unknown = box.client.post("/commands/nope/signal", json={"signal": "INT"})
    assert problem(unknown) == (404, "no_such_command")
