"""Commands for boxes that are there: inspect, top, events, url, open, env, prune, df."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx

from tests.cli.support import Home, Window
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


def test_a_table_fits_the_window(home: Home, box: str) -> None:
    for command in (("ls",), ("df",)):
        with closing(Window(home, *command, columns=80)) as person:
            assert person.end() == 0
        lines = person.shown.decode().splitlines()
        assert len(lines) > 1
        assert max(map(len, lines)) <= 80
    assert "…" in person.shown.decode()


def test_a_box_is_inspected(home: Home, box: str) -> None:
    known = json.loads(home.glovebox("inspect", box, "--json").stdout)
    assert (known["name"], known["state"], known["backend"]) == (box, "running", "process")
    assert known["server"]["uptime"] > 0
    assert "key" not in known
    text = home.glovebox("inspect", box).stdout
    assert f"name: {box}\n" in text
    assert "session main: " in text
    assert "plugins: " in text
    missing = home.glovebox("inspect", "nobody")
    assert (missing.returncode, missing.stdout) == (1, "")


def test_the_address_and_the_key_are_what_curl_needs(home: Home, box: str) -> None:
    url = home.glovebox("url", box).stdout.strip()
    assert httpx.get(f"{url}/alive", trust_env=False).status_code == 200
    lines = home.glovebox("env", box).stdout
    script = f'{lines}\nprintf "%s\\n" "$GLOVEBOX_URL" "$SESSION_API_KEY"'
    shell = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    address, key = shell.stdout.split()
    assert address == url
    answer = httpx.get(f"{address}/sessions", headers={"X-Session-API-Key": key}, trust_env=False)
    assert answer.status_code == 200
    # The same box by its address.
    named = home.glovebox("inspect", "--json", GLOVEBOX_URL=address, SESSION_API_KEY=key)
    assert json.loads(named.stdout)["url"] == url
    assert home.glovebox("url", box, "--port", "3000").stdout == "http://127.0.0.1:3000\n"


def test_open_logs_a_web_browser_in(home: Home, box: str, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {shlex.quote(str(tmp_path / "opened"))}\n')
    browser.chmod(0o755)
    opened = home.glovebox("open", box, BROWSER=str(browser))
    assert (opened.returncode, opened.stdout) == (0, ""), opened.stderr
    links = [(tmp_path / "opened").read_text().strip(), home.glovebox("open", "--print", box).stdout.strip()]
    assert links[0] != links[1]
    for link in links:
        with httpx.Client(trust_env=False, follow_redirects=True) as person:
            assert person.get(link).status_code == 200
            assert person.get(link).status_code == 403


def test_events_are_shown_and_followed(home: Home, box: str, workspace: Path) -> None:
    assert home.glovebox("run", "--box", box, "--", "echo", "shown").returncode == 0
    told = home.glovebox("events", box)
    assert (told.returncode, told.stderr) == (0, "")
    assert "started" in told.stdout
    events = [json.loads(line) for line in home.glovebox("events", "--json", box).stdout.splitlines()]
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    address = home.glovebox("url", box).stdout.strip()
    key = home.glovebox("env", box).stdout.partition("SESSION_API_KEY=")[2].strip()
    with home.running("events", "-f", "--kinds", "started", box) as following:
        assert following.stdout is not None
        run = {"action": {"action": "read", "args": {"path": "/etc/hostname"}}}
        answer = httpx.post(
            f"{address}/execute_action", json=run, headers={"X-Session-API-Key": key}, trust_env=False
        )
        assert answer.status_code == 200
        for line in following.stdout:
            if "read" in line:
                break
        following.send_signal(signal.SIGINT)
        assert following.wait(LIMIT) == 130


def test_top_tells_what_boxes_and_their_processes_use(home: Home, box: str) -> None:
    once = home.glovebox("top")
    assert once.returncode == 0
    head, *rows = once.stdout.splitlines()
    assert head.split()[:4] == ["NAME", "CPU", "MEMORY", "PROCESSES"]
    assert any(row.startswith(f"{box} ") for row in rows)
    sample = json.loads(home.glovebox("top", "--json", box).stdout)
    assert sample[box]["processes"]["count"] > 0
    assert "bash" in home.glovebox("top", box).stdout
    missing = home.glovebox("top", "nobody")
    assert (missing.returncode, missing.stdout) == (1, "")
    with closing(Window(home, "top", columns=80)) as person:
        person.see(box.encode())
        person.press(b"\x03")
        assert person.end() == 130
        assert b"Traceback" not in person.shown


def test_prune_removes_what_nobody_uses(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    script = (
        "import asyncio, os\n"
        "from glovebox.client import registry\n"
        "from glovebox.client.backend import Silent\n"
        "from glovebox.client.spec import BoxSpec\n"
        "from glovebox.settings import host\n"
        "async def leave():\n"
        "    await registry.open_backend('process', host.load()).start(BoxSpec(name='orphan'), Silent())\n"
        "    os._exit(0)\n"
        "asyncio.run(leave())\n"
    )
    subprocess.run([sys.executable, "-c", script], env=home.environment, check=True, timeout=LIMIT)
    assert home.names() == ["orphan"]
    pruned = home.glovebox("prune")
    assert (pruned.returncode, pruned.stdout) == (0, "orphan\n")
    assert home.names() == []
    assert "nothing to remove" in home.glovebox("prune").stderr
    assert home.glovebox("run", "--keep", "--name", "still", "--", "true").returncode == 0
    assert home.glovebox("stop", "still").returncode == 0
    assert json.loads(home.glovebox("prune", "--json").stdout) == []
    assert json.loads(home.glovebox("prune", "--stopped", "--json").stdout) == ["still"]
    assert home.names() == []


def test_df_counts_the_files_of_boxes(home: Home, box: str, workspace: Path) -> None:
    (workspace / "large").write_bytes(os.urandom(3_000_000))
    try:
        found = json.loads(home.glovebox("df", "--json").stdout)
    finally:
        (workspace / "large").unlink()
    [own] = [one for one in found if one["kind"] == "box" and one["path"].endswith(f"/{box}")]
    assert own["bytes"] >= 3_000_000
    table = home.glovebox("df").stdout
    assert table.splitlines()[0].split() == ["KIND", "NAME", "SIZE", "PATH"]


def test_a_box_that_is_stopped_has_no_address(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.glovebox("run", "--keep", "--name", "still", "--", "true").returncode == 0
    try:
        assert home.glovebox("stop", "still").returncode == 0
        refused = home.glovebox("url", "still")
        assert refused.returncode == 1
        assert "glovebox resume still" in refused.stderr
        assert json.loads(home.glovebox("inspect", "--json", "still").stdout)["state"] == "stopped"
    finally:
        home.glovebox("rm", "--all")
    wait_until(lambda: home.names() == [], what="the end of the box")
