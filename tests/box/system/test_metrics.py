"""`/metrics/system` and `/server_info` of a real box."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from glovebox.protocol.system import SystemSample
from tests.server.reading import Message, following, messages
from tests.support.running import RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT
from tests.survival.mortal import mortal_box


def decoded(message: Message) -> SystemSample:
    assert message.event == "system"
    return msgspec.json.decode(message.data, type=SystemSample, strict=True)


@contextlib.contextmanager
def samples(box: RunningBox, **query: Any) -> Iterator[Iterator[SystemSample]]:
    asked = httpx.QueryParams(query)
    with following(box, f"/metrics/system?{asked}") as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield map(decoded, messages(response))


def once(box: RunningBox, **query: Any) -> SystemSample:
    with samples(box, count=1, **query) as told:
        (only,) = told
    return only


def test_one_sample_is_given_at_once_and_that_is_all(box: RunningBox) -> None:
    sample = once(box, interval=60)
    assert sample.workspace.path == str(box.workspace)
    assert sample.processes.count >= 3  # the server, what holds the shells, a shell
    assert sample.processes.rss > 20_000_000
    assert 1 <= len(sample.processes.top) <= 10
    assert sample.seconds > 0


def test_what_a_shell_started_is_among_the_processes(box: RunningBox) -> None:
    pid = int(box.run("sleep 12345 & echo $!").splitlines()[-1])
    stat = Path(f"/proc/{pid}/stat")
    wait_until(lambda: "(sleep) S" in stat.read_text(), what="the sleeping program")
    try:
        seen = next(one for one in once(box, top=100).processes.top if one.pid == pid)
        assert (seen.name, seen.command, seen.state) == ("sleep", "sleep 12345", "sleeping")
        assert seen.user == box.run("id -un")
    finally:
        box.run(f"kill {pid}; wait")


def test_work_is_seen_by_every_reader_for_itself(box: RunningBox) -> None:
    box.run("while :; do :; done &")
    with samples(box, interval=0.3, count=3) as slow, samples(box, interval=0.1, count=6) as fast:
        next(slow), next(fast)
        slow_rest, fast_rest = list(slow), list(fast)
    box.run("kill %; wait")
    assert (len(slow_rest), len(fast_rest)) == (2, 5)
    assert max(sample.processes.cpu_percent for sample in slow_rest) > 0
    assert max(sample.processes.cpu_percent for sample in fast_rest) > 0
    assert all(sample.seconds >= 0.2 for sample in slow_rest)
    assert fast_rest[0].time < slow_rest[-1].time


def test_no_processes_are_named_when_none_are_asked_for(box: RunningBox) -> None:
    sample = once(box, top=0)
    assert sample.processes.top == []
    assert sample.processes.count > 0


@pytest.mark.parametrize(
    "query", ["interval=0.05", "interval=61", "interval=nan", "interval=x", "count=0", "count=-1", "top=101"]
)
def test_what_cannot_be_asked_for_is_refused(box: RunningBox, query: str) -> None:
    answer = box.client.get(f"/metrics/system?{query}")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "Invalid request parameters"
    assert f"'{query.partition('=')[0]}'" in answer.json()["errors"]


def test_samples_need_the_key_and_server_info_does_not(box: RunningBox) -> None:
    stranger = {"X-Session-API-Key": "wrong"}
    assert box.client.get("/metrics/system?count=1", headers=stranger).status_code == 403
    info = box.client.get("/server_info", headers=stranger)
    assert info.status_code == 200
    assert list(info.json()) == ["uptime", "idle_time", "resources"]
    assert list(info.json()["resources"]) == ["cpu_percent", "memory", "disk", "io"]


def test_idleness_is_counted_from_the_end_of_the_last_action(box: RunningBox) -> None:
    before = box.client.get("/server_info").json()["uptime"]
    box.run("sleep 0.5")
    info = box.client.get("/server_info").json()
    last_asked = info["uptime"] - info["idle_time"]
    assert last_asked > before + 0.4


@pytest.mark.parametrize(
    ("method", "path", "body", "counts"),
    [
        ("POST", "/exec", {"argv": ["sleep", "0.3"]}, True),
        ("POST", "/processes", {"argv": ["true"]}, True),
        ("GET", "/processes", None, True),
        ("GET", "/files/stat?path=.", None, True),
        ("GET", "/files/list?path=.", None, True),
        ("GET", "/sessions", None, False),
    ],
)
def test_requests_for_processes_and_files_are_activity(
    box: RunningBox, method: str, path: str, body: object, counts: bool
) -> None:
    def last_used() -> float:
        info = box.client.get("/server_info").json()
        return float(info["uptime"] - info["idle_time"])

    before = last_used()
    assert box.client.request(method, path, json=body).status_code < 300
    after = last_used()
    assert after - before > 0.001 if counts else after == pytest.approx(before, abs=0.001)
    if path == "/exec":
        assert after > before + 0.2  # its end counts as well


def test_a_stream_ends_with_the_box(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box, samples(box, interval=60) as told:
        next(told)
        box.process.send_signal(signal.SIGTERM)
        assert list(told) == []
        box.process.wait(LIMIT)


def test_the_memory_monitor_logs_while_the_box_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def logged(text: str) -> bool:
        said.append(capfd.readouterr().err)
        return text in "".join(said)

    with running_box(tmp_path / "ws", "--runtime-memory-monitor"):
        wait_until(lambda: logged("[Memory usage] MEM "), what="a line of the monitor")
    assert logged("Memory monitoring stopped")
    assert logged("Memory monitoring started")


def test_without_being_told_to_nothing_is_monitored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_box(tmp_path / "ws") as box:
        box.run("sleep 0.2")
    assert "Memory monitoring" not in capfd.readouterr().err


def test_shells_of_an_earlier_server_are_among_the_processes(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as mortal:
        shell = int(mortal.execute("run", command="echo $$")["content"])
        mortal.kill()
        mortal.start()
        told = mortal.get("/metrics/system", count=1, top=100).text
    sample = msgspec.json.decode(told.partition("data: ")[2], type=SystemSample)
    assert shell in [one.pid for one in sample.processes.top]
