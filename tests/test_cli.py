from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glovebox import settings
from tests.support.running import RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT, readable


def glovebox(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glovebox", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], **environment},
    )


def test_help_explains_every_flag_with_its_variable() -> None:
    text = glovebox("serve", "--help").stdout
    for word in ("--working-dir", "GLOVEBOX_WORKING_DIR", "--plugins", "SESSION_API_KEY", "examples:"):
        assert word in text


def test_version_is_told() -> None:
    assert glovebox("--version").stdout.startswith("glovebox ")


def test_an_open_address_without_a_key_is_refused_with_what_to_do() -> None:
    refused = glovebox("serve", "0", "--host", "0.0.0.0")
    assert refused.returncode == 2
    assert "Set SESSION_API_KEY" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_plugin_is_refused_before_listening(tmp_path: Path) -> None:
    refused = glovebox("serve", "0", "--working-dir", str(tmp_path), "--plugins", "nope")
    assert refused.returncode == 3
    assert "Plugin nope not found" in refused.stderr


def test_a_taken_port_is_a_sentence_and_status_3(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = glovebox("serve", str(taken.getsockname()[1]), "--working-dir", str(tmp_path))
    assert refused.returncode == 3
    assert "Choose another port" in refused.stderr


def test_a_workspace_that_cannot_be_made_is_a_sentence_and_status_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = glovebox("serve", "0", "--working-dir", str(tmp_path / "file" / "below"))
    assert refused.returncode == 3
    assert "cannot be made" in refused.stderr


def test_log_lines_can_be_json(tmp_path: Path) -> None:
    with running_process(tmp_path, LOG_JSON="1", RUNTIME_MEMORY_MONITOR="1") as lines:
        logged = json.loads(next(lines))
    assert {"time", "level", "logger", "message"} <= set(logged)


@contextlib.contextmanager
def running_process(tmp_path: Path, **environment: str) -> Iterator[Iterator[str]]:
    """What a box that is started and ended writes to standard error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(tmp_path / "ws")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GLOVEBOX_VIEWER_URL_FILE": str(tmp_path / "viewer-url"), **environment},
    )
    assert process.stderr is not None
    try:
        yield process.stderr
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT)


def test_the_plugins_a_caller_of_the_reference_names_are_accepted(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--plugins", "agent_skills", "jupyter", "--no-enable-browser") as box:
        assert box.run("echo hi") == "hi"


def test_serving_loads_no_heavy_library(tmp_path: Path) -> None:
    script = (
        "import sys; import glovebox.server.run; from glovebox.box import plugin_life\n"
        "for name, where in plugin_life.OWN.items(): plugin_life.load(name, where)\n"
        "heavy = {'httpx', 'pydantic', 'docker', 'playwright', 'jupyter_client', 'mcp',"
        " 'charset_normalizer', 'psutil', 'zipfile', 'websockets', 'zmq', 'prometheus_client',"
        " 'opentelemetry', 'glovebox.box.telemetry.otel'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# glovebox attach


class Window:
    """A terminal window with a program in it."""

    def __init__(self, arguments: list[str], environment: dict[str, str], rows: int, columns: int) -> None:
        self.controller, self.terminal = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.terminal)
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "glovebox", "attach", *arguments],
            stdin=self.terminal, stdout=self.terminal, stderr=self.terminal,
            env={"PATH": os.environ["PATH"], **environment},
            preexec_fn=lambda: os.login_tty(os.dup(self.terminal)),
        )  # fmt: skip

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self.controller, keys)

    def see(self, text: bytes) -> None:
        deadline = time.monotonic() + 20
        while text not in self.shown:
            assert readable(self.controller, max(0, deadline - time.monotonic())), self.shown
            self.shown += os.read(self.controller, 65_536)

    def end(self) -> int:
        """The exit status of a program that ends; its terminal must be as it was."""
        deadline = time.monotonic() + 20
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            if readable(self.controller, 0.05):
                self.shown += os.read(self.controller, 65_536)
        while readable(self.controller, 0):
            self.shown += os.read(self.controller, 65_536)
        assert termios.tcgetattr(self.terminal) == self.before
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.controller)
        os.close(self.terminal)


@contextlib.contextmanager
def window(
    box: RunningBox, *arguments: str, rows: int = 24, columns: int = 80, **environment: str
) -> Iterator[Window]:
    given = {"GLOVEBOX_URL": box.url, "SESSION_API_KEY": box.key, **environment}
    with contextlib.closing(Window(list(arguments), given, rows, columns)) as opened:
        yield opened


@pytest.fixture
def session(box: RunningBox, tmp_path: Path) -> Iterator[str]:
    answer = box.client.post("/sessions", json={"name": "people", "cwd": str(tmp_path)})
    assert answer.status_code == 201, answer.text
    yield "people"
    box.client.delete("/sessions/people")


def state(box: RunningBox, session: str) -> dict[str, Any]:
    told: dict[str, Any] = box.client.get(f"/sessions/{session}").json()
    return told


def test_attaching_takes_the_session_over_and_detaching_hands_it_back(
    box: RunningBox, session: str, tmp_path: Path
) -> None:
    with window(box, "--session", session, rows=31, columns=97) as person:
        person.see(b"Ctrl-] detaches")
        assert state(box, session)["taken"]
        wait_until(lambda: state(box, session)["rows"] == 31, what="the size of the window")
        person.press(b"stty size > size; echo $((6 * 7)) answers\r")
        person.see(b"42 answers")
        person.resize(40, 110)
        person.process.send_signal(signal.SIGWINCH)
        wait_until(lambda: state(box, session)["columns"] == 110, what="the new size")
        person.press(b"\x1d")
        assert person.end() == 0
        assert b"detached from people" in person.shown
    assert (tmp_path / "size").read_text() == "31 97\n"
    wait_until(lambda: not state(box, session)["taken"], what="the session to be handed back")
    assert box.run("stty size", session=session) == "40 110"


def test_keys_reach_programs_as_they_are_pressed(box: RunningBox, session: str) -> None:
    with window(box, "--session", session, "--escape", "^Q") as person:
        person.see(b"Ctrl-Q detaches")
        person.press(b"sleep 1000\r")
        wait_until(lambda: state(box, session)["command"] is not None, what="the command")
        person.press(b"\x03")
        wait_until(lambda: state(box, session)["command"] is None, what="the command to be interrupted")
        person.press(b"echo status $?\r")
        person.see(b"status 130")
        person.press(b"\x11")
        assert person.end() == 0


def test_whoever_watches_changes_nothing(box: RunningBox, session: str, tmp_path: Path) -> None:
    before = state(box, session)
    with window(box, "--session", session, "--watch") as person:
        box.run("echo for all to see", session=session)
        person.see(b"for all to see")
        person.press(b"touch typed\r")
        assert state(box, session)["taken"] is False
        person.press(b"\x03")  # there is nothing it could interrupt
        assert person.end() == 0
        assert b"watching people" in person.shown
    assert not (tmp_path / "typed").exists()
    assert (before["rows"], before["columns"]) == (
        state(box, session)["rows"],
        state(box, session)["columns"],
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(
    box: RunningBox, session: str, number: signal.Signals
) -> None:
    with window(box, "--session", session) as person:
        person.see(b"detaches")
        person.press(b"printf '\\033[?1049h\\033[?25lfull screen'\r")
        person.see(b"\x1b[?25lfull screen")
        person.process.send_signal(number)
        assert person.end() == 0
        assert person.shown.rindex(b"\x1b[?1049l") > person.shown.rindex(b"\x1b[?1049h")
        assert person.shown.rindex(b"\x1b[?25h") > person.shown.rindex(b"\x1b[?25l")


def test_the_end_of_a_session_ends_attaching(box: RunningBox, session: str) -> None:
    with window(box, "--session", session) as person:
        person.see(b"detaches")
        box.client.delete(f"/sessions/{session}")
        assert person.end() == 0
        assert b"The session people has ended." in person.shown


def test_a_box_that_stops_or_is_killed_is_told(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box, window(box) as person:
        person.see(b"detaches")
        box.process.terminate()
        assert person.end() == 0
        assert b"stopped" in person.shown
    with running_box(tmp_path / "ws") as box, window(box) as person:
        person.see(b"detaches")
        box.process.kill()
        assert person.end() == 1
        assert b"was lost" in person.shown


def test_what_keeps_one_from_attaching_is_a_sentence(box: RunningBox, session: str) -> None:
    with window(box, "--session", "nope") as person:
        assert person.end() == 1
        assert b"nope" in person.shown
    with window(box, SESSION_API_KEY="wrong") as person:
        assert person.end() == 1
        assert b"the key is missing or wrong. Set SESSION_API_KEY" in person.shown
    with window(box, "--session", session) as first:
        first.see(b"detaches")
        with window(box, "--session", session) as second:
            assert second.end() == 1
            assert b"--watch" in second.shown
        assert state(box, session)["taken"]
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with window(box, "--url", url) as person:
        assert person.end() == 1
        assert b"Start one with: glovebox serve" in person.shown
    for shown in (first.shown, second.shown, person.shown):
        assert b"Traceback" not in shown


def test_attaching_needs_a_terminal_but_watching_does_not(box: RunningBox) -> None:
    refused = glovebox("attach", "--url", box.url)
    assert refused.returncode == 2
    assert "--watch" in refused.stderr
    box.run("echo something to see")
    watching = subprocess.Popen(
        [sys.executable, "-m", "glovebox", "attach", "--url", box.url, "--watch"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "SESSION_API_KEY": box.key},
    )  # fmt: skip
    assert watching.stdout is not None
    seen = b""
    while b"something to see" not in seen:
        piece = os.read(watching.stdout.fileno(), 65_536)
        assert piece
        seen += piece
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=LIMIT)
    assert watching.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [("--url", "ftp://x"), ("--url", "nonsense"), ("--url", "http://"), ("--url", "http://a:99999"),
     ("--escape", "long"), ("--session-api-key-file", "/nowhere/at/all")],
)  # fmt: skip
def test_a_flag_that_cannot_be_used_is_refused(arguments: tuple[str, ...]) -> None:
    refused = glovebox("attach", "--watch", *arguments)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert arguments[1] in refused.stderr


def test_attach_explains_itself() -> None:
    text = glovebox("attach", "--help").stdout
    for word in (
        "--session",
        "--watch",
        "--escape",
        "GLOVEBOX_URL",
        "SESSION_API_KEY",
        "examples:",
        "Ctrl-]",
    ):
        assert word in text


def test_the_address_and_key_of_a_box_come_from_flags_then_the_environment(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from file\n")
    assert settings.client(None, None, {}) == ("http://127.0.0.1:8000", "")
    environment = {"GLOVEBOX_URL": "http://b", "SESSION_API_KEY": "k"}
    assert settings.client(None, None, environment) == ("http://b", "k")
    assert settings.client("http://c", str(tmp_path / "key"), environment) == ("http://c", "from file")
