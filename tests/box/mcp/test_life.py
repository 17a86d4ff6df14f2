"""How servers end and come back with their box, and whose processes they are."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.box.mcp.mcp_client import SCRIPT, call, connected, keys, post, put, ready, scripted
from tests.support.running import KEY, RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT
from tests.survival.mortal import MortalBox, mortal_box

USER = "nobody"


def served(box: MortalBox) -> RunningBox:
    """The same box, for those who speak to it."""
    assert box.process is not None
    return RunningBox(box.process, box.url, KEY, box.workspace)


async def test_a_box_ends_promptly_with_sessions_open_and_leaves_no_process(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--no-enable-browser") as box:
        post(box, scripted("one"), scripted("two"))
        pids = [info["pid"] for info in ready(box, "one", "two")]
        post(box, scripted("one"), scripted("two"), scripted("three", "hang"))
        with box.client.stream("GET", "/mcp/sse", headers=keys(box)) as stream:
            assert next(stream.iter_lines()) == "event: endpoint"
            async with connected(box, "http") as client:
                assert client.server_info is not None
                assert client.server_info.name == "glovebox"
                box.process.terminate()
                assert box.process.wait(LIMIT) == 0
        wait_until(lambda: not any(map(psutil.pid_exists, pids)), what="the end of its servers")


def servers_in(workspace: Path) -> list[int]:
    """The processes of scripted servers that were started there."""
    found = psutil.process_iter(["cmdline", "cwd"])
    return [
        one.pid for one in found
        if str(SCRIPT) in (one.info["cmdline"] or []) and one.info["cwd"] == str(workspace)
    ]  # fmt: skip


def test_posted_servers_are_back_after_a_box_was_killed(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--no-enable-browser") as mortal:
        box = served(mortal)
        with box.client:
            put(box, one={key: value for key, value in scripted("x", A="secret").items() if key != "name"},
                far={"url": "http://127.0.0.1:9/mcp", "api_key": "far-key"})  # fmt: skip
            before = ready(box, "one")[0]
        mortal.kill()
        mortal.start()
        box = served(mortal)
        with box.client:
            after = ready(box, "one")[0]
            listed = box.client.get("/mcp/servers").json()["servers"]
            assert [one["name"] for one in listed] == ["one", "far"]
            assert after["pid"] != before["pid"]
            assert not psutil.pid_exists(before["pid"])
            script = str(SCRIPT)
            running = [
                one for one in psutil.process_iter(["cmdline"]) if script in (one.info["cmdline"] or [])
            ]
            assert [one.pid for one in running if str(mortal.directory) in one.cwd()] == [after["pid"]]
            post(box)
        mortal.kill()
        mortal.start()
        assert mortal.get("/mcp/servers").json()["servers"] == []


def test_without_a_state_directory_nothing_is_remembered(tmp_path: Path) -> None:
    for expected in (["one"], []):
        with running_box(tmp_path / "ws", "--no-enable-browser") as box:
            if expected:
                post(box, scripted("one"))
            assert [one["name"] for one in box.client.get("/mcp/servers").json()["servers"]] == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_a_server_runs_as_the_sandbox_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    script = tmp_path / "scripted.py"
    script.write_bytes(SCRIPT.read_bytes())
    script.chmod(0o644)
    python = usable_python()
    with running_box(tmp_path / "ws", "--no-enable-browser", "--username", USER) as box:
        post(box, {"name": "one", "command": python, "args": ["-I", "-S", str(script)]})
        info = ready(box, "one")[0]
        uid = pwd.getpwnam(USER).pw_uid
        assert psutil.Process(info["pid"]).uids().effective == uid
        told = json.loads(json.loads(call(box, "environment")["content"])["content"][0]["text"])
        assert told["uid"] == uid
        assert told["variables"]["USER"] == USER


def usable_python() -> str:
    """One that the other user can run."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run([python, "-c", "import json"], user=USER, cwd="/", env={}, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip(f"no Python that {USER} can run")
