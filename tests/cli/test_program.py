"""Standard streams, terminals and signals of commands in boxes: `glovebox run` and `exec`."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.support import LIMIT, NOT_ISOLATED, Home, Window
from tests.support.running import wait_until


def piped(home: Home, data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "glovebox", *arguments],
        input=data, capture_output=True, timeout=LIMIT, env=home.environment,
    )  # fmt: skip


def test_what_comes_through_a_pipe_reaches_a_command_in_a_fresh_box(home: Home) -> None:
    done = piped(home, b"x\n", "run", "--", "cat")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (0, b"x\n", NOT_ISOLATED)


def test_every_byte_goes_in_and_out(home: Home, box: str) -> None:
    data = random.Random(7).randbytes(5_000_003)
    done = piped(home, data, "exec", box, "--", "cat")
    assert done.returncode == 0
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    assert done.stderr == b""


def test_input_may_be_a_file_or_nothing_and_need_not_be_read(home: Home, box: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from a file")
    with open(tmp_path / "file", "rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "glovebox", "exec", box, "cat"],
            stdin=file, capture_output=True, timeout=LIMIT, env=home.environment,
        )  # fmt: skip
    assert done.stdout == b"from a file"
    assert home.glovebox("exec", box, "cat").stdout == ""
    unread = piped(home, b"y\n" * 3_000_000, "exec", box, "head", "-c", "3")
    assert (unread.returncode, unread.stdout, unread.stderr) == (0, b"y\ny", b"")


def test_output_and_errors_stay_apart(home: Home, box: str) -> None:
    done = home.glovebox("exec", box, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    told = home.glovebox("exec", "--json", box, "--", "sh", "-c", "echo err >&2")
    events = [json.loads(line) for line in told.stdout.splitlines()]
    assert [event["event"] for event in events] == ["started", "output", "ended"]
    assert (events[1]["stream"], events[1]["text"]) == ("stderr", "err\n")


def test_the_exit_status_is_that_of_a_shell(home: Home, box: str, workspace: Path) -> None:
    (workspace / "text").write_text("no program")
    (workspace / "text").chmod(0o644)
    missing = home.glovebox("exec", box, "no-such-program")
    assert missing.returncode == 127
    assert "no-such-program" in missing.stderr
    assert home.glovebox("exec", box, "./text").returncode == 126
    assert home.glovebox("exec", box, "kill -9 $$").returncode == 137
    late = home.glovebox("exec", "--timeout", "0.5", box, "sleep", "600")
    assert late.returncode == 124
    assert "longer than 0.5 seconds" in late.stderr


def test_a_command_gets_variables_a_directory_and_arguments(home: Home, box: str, workspace: Path) -> None:
    (workspace / "below").mkdir(exist_ok=True)
    script = 'echo "$A|$HERE|$GREETING|$PWD|$1"'
    done = home.glovebox(
        "exec", "-e", "A=1 2", "-e", "HERE", "-w", "below", box, "--", "sh", "-c", script, "sh", "-x",
        HERE="here",
    )  # fmt: skip
    assert done.stdout == f"1 2|here|hello there|{workspace}/below|-x\n"
    refused = home.glovebox("exec", "-w", "nowhere", box, "true")
    assert refused.returncode == 1
    assert "nowhere" in refused.stderr
    assert home.glovebox("exec", box).returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_command_can_run_as_somebody_else(home: Home, box: str) -> None:
    assert home.glovebox("exec", "-u", "nobody", "-w", "/", box, "id", "-un").stdout == "nobody\n"


def test_a_box_forgets_commands_that_have_ended(home: Home, box: str) -> None:
    assert home.glovebox("exec", box, "true").returncode == 0
    known = json.loads(home.glovebox("inspect", "--json", box).stdout)
    assert [process["argv"] for process in known["processes"]] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT])
def test_signals_are_passed_on(home: Home, box: str, workspace: Path, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo told {name}; exit 5' {name}; : > begun; while :; do sleep 0.05; done"
    (workspace / "begun").unlink(missing_ok=True)
    with home.running("exec", box, "--", "bash", "-c", script) as running:
        wait_until((workspace / "begun").exists, what="the command")
        running.send_signal(number)
        output, _ = running.communicate(timeout=LIMIT)
    assert (running.returncode, output) == (5, f"told {name}\n")


def test_a_command_that_does_not_end_is_left_and_killed(home: Home, box: str, workspace: Path) -> None:
    (workspace / "stubborn").unlink(missing_ok=True)
    script = (
        "trap '' TERM INT; echo $$ > stubborn.new; mv stubborn.new stubborn; while :; do sleep 0.05; done"
    )
    with home.running("exec", box, "--", "bash", "-c", script) as running:
        wait_until((workspace / "stubborn").exists, what="the command")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=LIMIT)
    assert running.returncode == 143
    pid = (workspace / "stubborn").read_text().strip()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the command")


# On a terminal


def test_a_command_has_a_terminal_of_the_size_of_the_window(home: Home, box: str) -> None:
    script = "tty; stty size; echo $TERM; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"
    with closing(Window(home, "exec", box, "--", "bash", "-c", script)) as person:
        person.see(b"/dev/pts/")
        person.see(b"24 100")
        person.see(b"xterm")
        person.see(b"ready")
        person.resize(40, 132)
        os.kill(person.process.pid, signal.SIGWINCH)
        person.see(b"40 132")
        person.press(b"\x03")
        assert person.end() == 130


def test_keys_reach_a_command_as_they_are_pressed(home: Home, box: str) -> None:
    script = "import sys; print('\\x1b[31mred'); print(input('name? ') + '!'); sys.stdin.read(); print('end')"
    with closing(Window(home, "exec", box, "--", sys.executable, "-c", script)) as person:
        person.see(b"\x1b[31mred")
        person.see(b"name? ")
        person.press(b"Joe\r")
        person.see(b"Joe!")
        person.press(b"\x04")  # Ctrl-D
        person.see(b"end")
        assert person.end() == 0
    with closing(Window(home, "exec", box, "--", "sleep", "600")) as person:
        wait_until(lambda: _is_raw(person), what="the terminal")
        person.press(b"\x03")
        assert person.end() == 130


def _is_raw(person: Window) -> bool:
    import termios

    return not termios.tcgetattr(person.terminal)[3] & termios.ICANON


def test_a_command_of_a_person_may_have_no_terminal(home: Home, box: str, tmp_path: Path) -> None:
    with closing(Window(home, "exec", "--no-tty", box, "--", "sh", "-c", "tty; cat")) as person:
        person.see(b"not a tty")
        person.press(b"typed\r")
        person.see(b"typed\r\ntyped")
        person.press(b"\x04")
        assert person.end() == 0


def test_the_screen_is_put_back_after_a_program_that_was_killed(home: Home, box: str) -> None:
    script = "printf '\\033[?1049h\\033[?25lfull screen'; kill -9 $$"
    with closing(Window(home, "exec", box, "--", "sh", "-c", script)) as person:
        assert person.end() == 137
        assert person.shown.rindex(b"\x1b[?1049l") > person.shown.rindex(b"\x1b[?1049h")
        assert person.shown.rindex(b"\x1b[?25h") > person.shown.rindex(b"\x1b[?25l")
