"""A server that is killed loses no byte and no end of a process, and starts nothing twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.running import wait_until
from tests.survival.mortal import MortalBox, mortal_box
from tests.survival.test_restart import holder_of


@pytest.fixture
def box(tmp_path: Path) -> Iterator[MortalBox]:
    with mortal_box(tmp_path) as started:
        yield started


def post(box: MortalBox, path: str, **body: Any) -> dict[str, Any]:
    with box.client() as client:
        answer = client.post(path, json=body)
    assert answer.status_code < 300, answer.text
    found: dict[str, Any] = answer.json()
    return found


def restart(box: MortalBox) -> None:
    box.kill()
    box.start()


def test_output_in_the_middle_of_a_kill_is_exact(box: MortalBox) -> None:
    script = (
        "import os, sys, random; r = random.Random(2)\n"
        "for i in range(400): os.write(1, r.randbytes(50000)); os.write(2, b'%d\\n' % i)\n"
        "sys.exit(9)"
    )
    process = post(box, "/processes", argv=["python3", "-c", script])["id"]
    wait_until(lambda: box.get(f"/processes/{process}").json()["stdout_bytes"] > 1_000_000)
    read = b""
    path = f"/processes/{process}/stdout"
    with (
        contextlib.suppress(httpx.HTTPError),
        box.client() as client,
        client.stream("GET", path, params={"follow": True}) as answer,
    ):
        for piece in answer.iter_raw():
            if not read:
                box.process.send_signal(signal.SIGKILL)  # type: ignore[union-attr]
            read += piece
    restart(box)
    rest = box.get(f"/processes/{process}/stdout", offset=len(read), follow=True).content
    generator = random.Random(2)
    expected = b"".join(generator.randbytes(50_000) for _ in range(400))
    assert hashlib.sha256(read + rest).digest() == hashlib.sha256(expected).digest()
    assert box.get(f"/processes/{process}/stderr").text == "".join(f"{i}\n" for i in range(400))
    ended = post(box, f"/processes/{process}/wait")
    assert (ended["exit_code"], ended["reason"]) == (9, "exit")


def test_an_end_while_no_server_runs_is_known(box: MortalBox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = post(
        box, "/processes", shell=f"until [ -e {go} ]; do sleep 0.05; done; echo end; exit 5", tag="a"
    )
    box.kill()
    go.touch()
    wait_until(lambda: not psutil.pid_exists(process["pid"]))
    box.start()
    ended = box.get(f"/processes/{process['id']}").json()
    assert (ended["exit_code"], ended["tag"], ended["pid"]) == (5, "a", process["pid"])
    assert box.get(f"/processes/{process['id']}/stdout").text == "end\n"


def test_a_timeout_is_kept_while_no_server_runs(box: MortalBox) -> None:
    process = post(box, "/processes", argv=["sleep", "600"], timeout=2)
    box.kill()
    wait_until(lambda: not psutil.pid_exists(process["pid"]))
    box.start()
    assert box.get(f"/processes/{process['id']}").json()["reason"] == "timeout"


def test_the_same_key_after_a_kill_gives_the_same_process(box: MortalBox, tmp_path: Path) -> None:
    asked = {"shell": f"echo x >> {tmp_path}/count; sleep 2; cat {tmp_path}/count", "idempotency_key": "once"}
    with contextlib.suppress(httpx.HTTPError), box.client() as client:
        client.post("/exec", json=asked, timeout=1)
    restart(box)
    first = post(box, "/exec", **asked)
    restart(box)
    assert post(box, "/exec", **asked) == first
    assert first["stdout"] == "x\n"
    assert (tmp_path / "count").read_text() == "x\n"


def test_input_goes_on_after_a_kill(box: MortalBox) -> None:
    process = post(box, "/processes", argv=["cat"], stdin="one,", stdin_open=True)["id"]
    with box.client() as client:
        client.post(f"/processes/{process}/stdin", params={"offset": 4}, content=b"two,")
    wait_until(lambda: box.get(f"/processes/{process}").json()["stdout_bytes"] == 8)
    restart(box)
    with box.client() as client:
        answer = client.post(
            f"/processes/{process}/stdin", params={"offset": 4, "close": True}, content=b"two,end"
        )
    assert answer.json() == {"offset": 11, "closed": True}
    assert post(box, f"/processes/{process}/wait")["exit_code"] == 0
    assert box.get(f"/processes/{process}/stdout").text == "one,two,end"


def test_limits_are_kept_after_a_kill(box: MortalBox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.05; done; while :; do :; done"
    process = post(box, "/processes", shell=script, limits={"cpu_seconds": 1})["id"]
    restart(box)
    go.touch()
    assert post(box, f"/processes/{process}/wait")["reason"] == "limit"


def test_a_child_that_holds_a_pipe_prints_on_over_a_kill(box: MortalBox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = post(box, "/exec", shell=f"(until [ -e {go} ]; do sleep 0.05; done; echo late) & echo now")[
        "process"
    ]
    restart(box)
    go.touch()
    wait_until(lambda: box.get(f"/processes/{process['id']}/stdout").text == "now\nlate\n")


def test_a_holder_that_is_killed_loses_its_processes_and_says_so(box: MortalBox) -> None:
    process = post(box, "/processes", argv=["sleep", "600"])
    os.kill(holder_of(process["pid"]), signal.SIGKILL)
    ended = post(box, f"/processes/{process['id']}/wait")
    assert (ended["reason"], ended["exit_code"]) == ("lost", None)
    wait_until(lambda: not psutil.pid_exists(process["pid"]))
    assert post(box, "/exec", argv=["echo", "again"])["stdout"] == "again\n"


def test_a_stop_ends_processes_except_detached_ones_with_keep_sessions(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--keep-sessions") as box:
        plain = post(box, "/processes", argv=["sleep", "600"])
        detached = post(box, "/processes", argv=["sleep", "601"], detached=True)
        box.stop()
        assert not psutil.pid_exists(plain["pid"])
        assert psutil.pid_exists(detached["pid"])
        box.start()
        assert [one["id"] for one in box.get("/processes").json()] == [detached["id"]]
    assert not psutil.pid_exists(detached["pid"])


def test_a_stop_leaves_no_process_and_no_log(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        process = post(
            box, "/processes", shell="trap '' TERM; echo here; while :; do sleep 0.1; done", detached=True
        )
        wait_until(lambda: box.get(f"/processes/{process['id']}/stdout").text)
        box.stop()
        assert not psutil.pid_exists(process["pid"])
        assert not list((box.state / "programs").glob("*"))
        box.start()
