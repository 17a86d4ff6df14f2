"""`/processes`: what is started can be looked at, waited for, read, written to and ended."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.box.processes.conftest import Call
from tests.box.system.memory_group import HUNGRY, enter, memory_group, readable_log
from tests.support.running import RunningBox, running_box, wait_until

Waiter = Callable[[str], dict[str, Any]]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_process_is_listed_and_looked_at(start: Call, client: httpx.Client, wait: Waiter) -> None:
    process = start(argv=["sleep", "600"], tag="listed")
    assert (process["state"], process["exit_code"], process["bill"]) == ("running", None, None)
    assert psutil.Process(process["pid"]).cmdline() == ["sleep", "600"]
    assert [one["id"] for one in client.get("/processes?tag=listed").json()] == [process["id"]]
    assert process["id"] in [one["id"] for one in client.get("/processes").json()]
    assert client.get(f"/processes/{process['id']}").json() == process
    running = client.post(f"/processes/{process['id']}/wait", json={"timeout": 0.05}).json()
    assert running["state"] == "running"
    client.post(f"/processes/{process['id']}/signal", json={"signal": "term"})
    ended = wait(process["id"])
    assert (ended["exit_code"], ended["signal"], ended["reason"]) == (None, "SIGTERM", "signal")
    assert ended["bill"]["wall_seconds"] > 0
    again = client.post(f"/processes/{process['id']}/signal", json={"signal": "TERM"})
    assert (again.status_code, again.headers["X-Glovebox-Error"]) == (409, "process_ended")


def test_a_process_that_is_killed_from_outside_has_ended_by_that_signal(start: Call, wait: Waiter) -> None:
    process = start(argv=["sleep", "600"])
    os.kill(process["pid"], signal.SIGKILL)
    ended = wait(process["id"])
    assert (ended["signal"], ended["reason"]) == ("SIGKILL", "signal")


def test_a_signal_reaches_the_whole_group(start: Call, client: httpx.Client, wait: Waiter) -> None:
    process = start(shell="sleep 600 & sleep 600 & echo $!; wait")
    wait_until(lambda: client.get(f"/processes/{process['id']}/stdout").text)
    child = int(client.get(f"/processes/{process['id']}/stdout").text)
    client.post(f"/processes/{process['id']}/signal", json={"signal": "SIGKILL"})
    assert wait(process["id"])["signal"] == "SIGKILL"
    wait_until(lambda: gone(child))


def test_a_timeout_ends_what_ignores_it_and_everything_it_started(
    start: Call, wait: Waiter, tmp_path: Path
) -> None:
    script = f"trap '' TERM; setsid sleep 600 & echo $! > {tmp_path}/child; while :; do sleep 0.1; done"
    ended = wait(start(shell=script, timeout=1)["id"])
    assert (ended["reason"], ended["signal"]) == ("timeout", "SIGKILL")
    wait_until(lambda: gone(int((tmp_path / "child").read_text())))


def test_a_program_may_end_in_good_order_at_its_timeout(
    start: Call, wait: Waiter, client: httpx.Client
) -> None:
    process = start(shell="trap 'echo bye; exit 7' TERM; while :; do sleep 0.05; done", timeout=1)
    ended = wait(process["id"])
    assert (ended["reason"], ended["exit_code"]) == ("timeout", 7)
    assert client.get(f"/processes/{process['id']}/stdout").text == "bye\n"


def test_removing_a_process_kills_everything_it_started(
    start: Call, client: httpx.Client, tmp_path: Path
) -> None:
    process = start(shell=f"(setsid sleep 600 & echo $! > {tmp_path}/child) ; sleep 600")
    wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    removed = client.delete(f"/processes/{process['id']}").json()
    assert removed["state"] == "ended"
    wait_until(lambda: gone(process["pid"]))
    wait_until(lambda: gone(int((tmp_path / "child").read_text())))
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/stdout"),
        ("GET", "/events"),
        ("GET", "/stream"),
    ):
        answer = client.request(method, f"/processes/{process['id']}{path}")
        assert (answer.status_code, answer.headers["X-Glovebox-Error"]) == (404, "no_such_process")


def test_output_is_exact_from_any_offset(start: Call, client: httpx.Client, wait: Waiter) -> None:
    process = start(argv=["python3", "-c", "import os; os.write(1, bytes(range(256)) * 1000)"])
    wait(process["id"])
    everything = bytes(range(256)) * 1000
    path = f"/processes/{process['id']}/stdout"
    assert client.get(path).content == everything
    assert client.get(path, params={"offset": 1000, "limit": 77}).content == everything[1000:1077]
    assert client.get(path, params={"offset": 250_000, "follow": True}).content == everything[250_000:]
    assert client.get(path, params={"offset": len(everything)}).content == b""
    assert client.get(path, params={"offset": len(everything) + 1}).status_code == 422


def test_64_megabytes_come_through_to_a_slow_reader(start: Call, client: httpx.Client) -> None:
    script = "import os, random; r = random.Random(1)\nfor _ in range(1024): os.write(1, r.randbytes(65536))"
    process = start(argv=["python3", "-c", script], stdin="")
    generator, expected, seen, size = random.Random(1), hashlib.sha256(), hashlib.sha256(), 0
    for _ in range(1024):
        expected.update(generator.randbytes(65536))
    with client.stream("GET", f"/processes/{process['id']}/stdout", params={"follow": True}) as answer:
        pause = threading.Event()
        for piece in answer.iter_raw():
            seen.update(piece)
            size += len(piece)
            if size % (1 << 20) < 4096:
                pause.wait(0.01)  # slower than it is printed
    assert (size, seen.digest()) == (64 << 20, expected.digest())


def test_a_reader_that_stops_reading_holds_up_nobody(start: Call, client: httpx.Client, wait: Waiter) -> None:
    process = start(argv=["head", "-c", "50000000", "/dev/zero"])
    with client.stream("GET", f"/processes/{process['id']}/stdout", params={"follow": True}):
        ended = wait(process["id"])
    assert (ended["exit_code"], ended["stdout_bytes"]) == (0, 50_000_000)


def test_two_wait_for_the_same_process(start: Call, client: httpx.Client) -> None:
    process = start(argv=["cat"], stdin_open=True)
    answers: list[dict[str, Any]] = []

    def wait() -> None:
        answers.append(client.post(f"/processes/{process['id']}/wait", json={}).json())

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    client.post(f"/processes/{process['id']}/stdin?close=true")
    for thread in threads:
        thread.join(60)
    assert [one["exit_code"] for one in answers] == [0, 0]


def test_input_is_written_later_and_repeated_safely(start: Call, client: httpx.Client, wait: Waiter) -> None:
    process = start(argv=["cat"], stdin="one,", stdin_open=True)
    path = f"/processes/{process['id']}/stdin"
    assert client.post(path, content=b"two,").json() == {"offset": 8, "closed": False}
    assert client.post(path, params={"offset": 4}, content=b"two,three").json()["offset"] == 13
    assert client.post(path, params={"offset": 4}, content=b"two,").json()["offset"] == 13
    ahead = client.post(path, params={"offset": 14}, content=b"x")
    assert (ahead.status_code, ahead.headers["X-Glovebox-Error"]) == (409, "wrong_offset")
    last = {"offset": 13, "close": True}
    assert client.post(path, params=last, content=b"!\0\xff").json() == {"offset": 16, "closed": True}
    assert client.post(path, params=last, content=b"!\0\xff").json() == {"offset": 16, "closed": True}
    wait(process["id"])
    assert client.get(f"/processes/{process['id']}/stdout").content == b"one,two,three!\0\xff"
    assert client.post(path, content=b"more").headers["X-Glovebox-Error"] == "process_ended"


def test_input_of_10_megabytes_goes_as_fast_as_it_is_read(
    start: Call, client: httpx.Client, wait: Waiter
) -> None:
    process = start(shell="sleep 0.5; sha256sum", stdin_open=True)
    data = os.urandom(10_000_000)
    path = f"/processes/{process['id']}/stdin"
    assert client.post(path, params={"close": True}, content=data).json()["offset"] == len(data)
    wait(process["id"])
    assert (
        client.get(f"/processes/{process['id']}/stdout").text.split()[0] == hashlib.sha256(data).hexdigest()
    )


def test_closed_input_is_told(start: Call, client: httpx.Client) -> None:
    process = start(argv=["sleep", "600"])
    answer = client.post(f"/processes/{process['id']}/stdin", content=b"x")
    assert (answer.status_code, answer.headers["X-Glovebox-Error"]) == (409, "stdin_closed")
    client.delete(f"/processes/{process['id']}")


def test_a_terminal_is_resized(start: Call, client: httpx.Client, wait: Waiter) -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    process = start(shell=script, pty={"rows": 10, "columns": 20})
    out = f"/processes/{process['id']}/stdout"
    wait_until(lambda: b"ready" in client.get(out).content)
    client.post(f"/processes/{process['id']}/resize", json={"rows": 55, "columns": 66})
    wait(process["id"])
    assert client.get(out).text == "ready\r\n55 66\r\n"
    pipes = start(argv=["true"])
    wrong = client.post(f"/processes/{pipes['id']}/resize", json={"rows": 5, "columns": 6})
    assert (wrong.status_code, wrong.headers["X-Glovebox-Error"]) == (409, "not_a_terminal")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("signal", {"signal": "SIGNOTHING"}),
        ("signal", {"signal": "0"}),
        ("signal", {}),
        ("wait", {"timeout": -1}),
        ("wait", {"timeout": "long"}),
        ("resize", {"rows": 0, "columns": 1}),
    ],
)
def test_wrong_requests_are_refused(
    start: Call, client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    process = start(argv=["sleep", "600"], pty={})
    assert client.post(f"/processes/{process['id']}/{path}", json=body).status_code == 422
    client.delete(f"/processes/{process['id']}")


def test_events_resume_where_the_reader_was(start: Call, client: httpx.Client, wait: Waiter) -> None:
    process = start(shell="printf abcdef; printf 123 >&2")
    wait(process["id"])

    def events(**headers: str) -> list[tuple[str, Any]]:
        text = client.get(f"/processes/{process['id']}/events?stdout=2&stderr=3", headers=headers).text
        blocks = [
            dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if block
        ]
        return [(block["event"], json.loads(block["data"])) for block in blocks]

    assert [name for name, _ in events()] == ["started", "stdout", "end"]
    assert events()[1][1] == {"offset": 2, "end": 6, "data": "cdef"}
    assert events(**{"Last-Event-ID": "5-1"})[1:3] == [
        ("stdout", {"offset": 5, "end": 6, "data": "f"}),
        ("stderr", {"offset": 1, "end": 3, "data": "23"}),
    ]


def attach(box: RunningBox, process: str) -> ClientConnection:
    address = f"{box.url.replace('http', 'ws', 1)}/processes/{process}/stream"
    return connect(address, additional_headers={"X-Session-API-Key": box.key})


def test_a_websocket_goes_both_ways(start: Call, shared_box: RunningBox) -> None:
    process = start(shell='read line; echo "got $line"; echo err >&2; cat', stdin_open=True)
    notices: list[dict[str, Any]] = []
    streams = {1: b"", 2: b""}
    with attach(shared_box, process["id"]) as socket:
        socket.send(b"hello\n")
        socket.send(json.dumps({"type": "nonsense"}))
        socket.send(json.dumps({"type": "resize", "rows": 1, "columns": 1}))
        socket.send(b"rest\0")
        socket.send(json.dumps({"type": "close_stdin"}))
        for received in socket:
            if isinstance(received, bytes):
                streams[received[0]] += received[1:]
            else:
                notices.append(json.loads(received))
    assert streams == {1: b"got hello\nrest\0", 2: b"err\n"}
    assert [one["type"] for one in notices] == ["started", "refused", "refused", "end"]
    assert [one["code"] for one in notices[1:3]] == ["request_invalid", "not_a_terminal"]
    assert notices[-1]["process"]["exit_code"] == 0


def test_a_websocket_of_no_process_is_refused(
    shared_box: RunningBox, client: httpx.Client, start: Call
) -> None:
    with attach(shared_box, "nothing") as socket:
        assert json.loads(socket.recv(60))["code"] == "no_such_process"
    plain = client.get(f"/processes/{start(argv=['true'])['id']}/stream")
    assert plain.status_code == 426


def test_limits_end_a_process(start: Call, wait: Waiter) -> None:
    eats = "import time; data = b'x' * 200_000_000; time.sleep(600)"
    memory = wait(start(argv=["python3", "-c", eats], limits={"memory": 100_000_000})["id"])
    assert (memory["reason"], memory["signal"]) == ("limit", "SIGKILL")
    assert "memory" in memory["detail"]
    assert memory["bill"]["peak_memory"] > 100_000_000
    cpu = wait(start(shell="while :; do :; done", limits={"cpu_seconds": 0.3})["id"])
    assert cpu["reason"] == "limit"
    many = wait(start(shell="for i in 1 2 3 4 5 6; do sleep 600 & done; wait", limits={"processes": 3})["id"])
    assert many["reason"] == "limit"
    size = wait(start(shell="exec head -c 100000 /dev/zero > big", limits={"file_size": 5000})["id"])
    assert (size["reason"], size["signal"]) == ("limit", "SIGXFSZ")


@pytest.mark.attack
def test_what_a_limited_process_leaves_behind_ends_with_it(start: Call, wait: Waiter) -> None:
    # Each starts two others and goes on; the first one ends at once. It stops by itself at 255 processes.
    more = "grow $(( $1 + 1 )) &"
    grow = f"grow() {{ if [ $1 -lt 7 ]; then {more} {more} fi; sleep 600; }}; grow 0 & echo $!"
    process = start(shell=grow, limits={"processes": 100_000})
    ended = wait(process["id"])
    assert (ended["reason"], ended["exit_code"]) == ("exit", 0)
    wait_until(lambda: not [one for one in psutil.process_iter() if in_session(one, process["pid"])])


def in_session(process: psutil.Process, leader: int) -> bool:
    try:
        return os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def test_old_processes_are_forgotten(tmp_path: Path) -> None:
    flags = ("--process-history", "5", "--process-history-size", "3M", "--process-log-size", "8M")
    with running_box(tmp_path / "workspace", *flags) as box:
        left = box.client.post("/exec", json={"shell": "sleep 600 & echo $!"}).json()
        ids = [
            box.client.post("/exec", json={"argv": ["echo", str(number)]}).json()["process"]["id"]
            for number in range(8)
        ]
        kept = [one["id"] for one in box.client.get("/processes").json()]
        assert kept == ids[:2:-1]
        assert not gone(int(left["stdout"]))  # it was forgotten, not killed
        box.client.post("/exec", json={"argv": ["head", "-c", "2000000", "/dev/zero"]})
        large = box.client.post("/exec", json={"argv": ["head", "-c", "2000000", "/dev/zero"]}).json()[
            "process"
        ]["id"]
        assert [one["id"] for one in box.client.get("/processes").json()] == [large]
        huge = box.client.post("/exec", json={"argv": ["head", "-c", "20000000", "/dev/zero"]}).json()[
            "process"
        ]
        lost = box.client.get(f"/processes/{huge['id']}/stdout?offset=0")
        assert (lost.status_code, lost.headers["X-Glovebox-Error"]) == (410, "output_gone")
        kept_size = len(box.client.get(f"/processes/{huge['id']}/stdout?offset=13000000").content)
        assert kept_size == 7_000_000


def test_there_is_a_bound_to_running_processes(tmp_path: Path) -> None:
    with running_box(tmp_path / "workspace") as box:
        statuses = [
            box.client.post("/processes", json={"argv": ["sleep", "600"]}).status_code for _ in range(1002)
        ]
        assert statuses == [201] * 1000 + [429] * 2


def test_a_process_that_the_system_kills_for_want_of_memory_has_that_reason(
    start: Call, client: httpx.Client, wait: Waiter
) -> None:
    if not readable_log():
        pytest.skip("the kernel's log cannot be read here")
    with memory_group(64_000_000) as group:
        process = start(shell=f"read line; exec {HUNGRY}", stdin_open=True)
        enter(group, process["pid"])
        client.post(f"/processes/{process['id']}/stdin", content=b"go\n")
        ended = wait(process["id"])
    assert (ended["reason"], ended["signal"]) == ("oom", "SIGKILL")
    assert "Out of memory" in ended["detail"]
