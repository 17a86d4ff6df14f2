from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.cli.support import Home, Window
from tests.support.waiting import LIMIT

KEY = "a-key-for-tests-0123456789"


@contextmanager
def serving(home: Home, *flags: str) -> Iterator[tuple[Window, httpx.Client]]:
    """A box that a person serves in a terminal window, and a client with its key."""
    person = Window(home, "serve", *flags)
    try:
        person.see(b"Stop with Ctrl-C.")
        found = re.search(r"on (http://\S+) \(ready", person.shown.decode())
        assert found is not None
        with httpx.Client(
            base_url=found[1], headers={"X-Session-API-Key": KEY}, timeout=LIMIT, trust_env=False
        ) as client:
            yield person, client
    finally:
        person.close()


def run(client: httpx.Client, command: str) -> None:
    answer = client.post("/execute_action", json={"action": {"action": "run", "args": {"command": command}}})
    assert answer.status_code == 200, answer.text


def test_each_action_is_a_line_that_fits_and_the_end_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", SESSION_API_KEY=KEY, GLOVEBOX_VIEWER_URL_FILE=str(tmp_path / "viewer"))
    with serving(home, "--port", "0", "--working-dir", str(tmp_path)) as (person, client):
        run(client, "(exit 7)")
        person.see(b"exit 7")
        run(client, f"echo $'\\x1b[31m' {KEY} {'long ' * 100}")
        person.see(b"exit 0")
        assert client.post("/exec", json={"argv": ["sh", "-c", "exit 9"]}).status_code == 200
        person.see(b"exit 9")
        assert client.post("/commands", json={"command": "(exit 8)"}).status_code == 200
        person.see(b"exit 8")
        read = {"action": {"action": "read", "args": {"path": "/nowhere"}}}
        client.post("/execute_action", json=read)
        person.see(b"/nowhere")
        os.kill(person.process.pid, signal.SIGINT)
        assert person.end() == 0
    lines = person.shown.decode().splitlines()
    shown = [line for line in lines if re.match(r"\d\d:\d\d:\d\d  ", line)]
    assert [line.split()[1] for line in shown] == ["run", "run", "exec", "run", "read"]
    assert re.search(r"run      \(exit 7\) .* \d\.\d\d s  exit 7$", shown[0])
    assert max(map(len, shown)) <= 100
    assert KEY not in person.shown.decode()
    assert "Goodbye." in lines[-1]


def test_no_lines_are_printed_if_nobody_wants_them(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", SESSION_API_KEY=KEY, GLOVEBOX_VIEWER_URL_FILE=str(tmp_path / "viewer"))
    with serving(home, "0", "--quiet", "--working-dir", str(tmp_path)) as (person, client):
        run(client, "echo hidden")
        os.kill(person.process.pid, signal.SIGINT)
        assert person.end() == 0
    assert b"hidden" not in person.shown


def test_a_terminal_that_is_stopped_does_not_stop_the_box(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", SESSION_API_KEY=KEY, GLOVEBOX_VIEWER_URL_FILE=str(tmp_path / "viewer"))
    with serving(home, "0", "--working-dir", str(tmp_path)) as (person, client):
        person.press(b"\x13")  # Ctrl-S
        for number in range(50):
            run(client, f"echo {number}; {'#' * 2000}")
        person.press(b"\x11")
        person.see(b"echo 49")
        os.kill(person.process.pid, signal.SIGINT)
        assert person.end() == 0


def test_the_request_that_it_prints_works_as_it_is(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", SESSION_API_KEY=KEY, GLOVEBOX_VIEWER_URL_FILE=str(tmp_path / "viewer"))
    with serving(home, "--port", "0", "--working-dir", str(tmp_path)) as (person, _):
        (request,) = re.findall(r"^  (curl .*)\r?$", person.shown.decode(), re.MULTILINE)
        environment = {**os.environ, "SESSION_API_KEY": KEY}
        answer = subprocess.run(["bash", "-c", request], env=environment, capture_output=True, check=True)
    assert b'"output":"hello\\n"' in answer.stdout
