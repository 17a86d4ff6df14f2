from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest

from glovebox.backends.process.bubblewrap import SHARED
from tests.cli.support import NOT_ISOLATED, Home, Window
from tests.support.running import wait_until


def test_a_command_runs_in_a_fresh_box_that_is_gone_afterwards(home: Home, tmp_path: Path) -> None:
    done = home.glovebox(
        "run", "--workspace", ".", "--", "sh", "-c", "pwd; echo $0 '$x'; exit 7", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (7, NOT_ISOLATED)
    assert done.stdout == f"{tmp_path}\nsh $x\n"
    assert [name for name in home.names() if name != "kept"] == []


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_what_an_isolated_box_shares_with_the_machine_is_told_when_it_starts(
    home: Home, flags: tuple[str, ...]
) -> None:
    done = home.glovebox("run", *flags, "--isolation", "bubblewrap", "--", "echo", "hello")
    assert done.returncode == 0
    assert done.stderr == f"glovebox: {SHARED}\n"


def test_one_word_with_blanks_is_a_line_for_the_shell(home: Home, box: str) -> None:
    done = home.glovebox("run", "--box", box, "cd /; echo $PWD $GREETING; kill -9 $$")
    assert done.stdout == "/ hello there\n"
    assert done.returncode == 128 + signal.SIGKILL


def test_a_command_may_be_written_without_dashes(home: Home, box: str) -> None:
    assert home.glovebox("run", "--box", box, "printf", "%s|", "a b", "-x").stdout == "a b|-x|"
    assert home.glovebox("run", "--box", box, "--", "cat").stdout == ""


def test_runs_in_a_box_that_is_there_do_not_disturb_each_other(home: Home, box: str) -> None:
    with home.running(
        "run", "--box", box, "--", "sh", "-c", "until test -e go; do sleep 0.01; done; rm go"
    ) as waiting:
        assert home.glovebox("run", "--box", box, "--", "touch", "go").returncode == 0
        _, problem = waiting.communicate(timeout=60)
        assert (waiting.returncode, problem) == (0, "")


def test_json_lines_tell_what_happens(home: Home, box: str) -> None:
    done = home.glovebox("run", "--json", "--box", box, "--", "sh", "-c", "echo some; exit 3")
    assert (done.returncode, done.stderr) == (3, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["started", "output", "ended"]
    assert events[0]["box"] == box
    assert (events[1]["stream"], events[1]["text"]) == ("stdout", "some\n")
    assert (events[2]["exit_code"], events[2]["problem"]) == (3, "")


def test_a_command_that_takes_too_long_is_ended(home: Home, box: str, workspace: Path) -> None:
    done = home.glovebox(
        "run", "--box", box, "--timeout", "4.5", "--", "sh", "-c", "echo $$ > pid; sleep 600"
    )
    assert done.returncode == 124
    assert "longer than 4.5 seconds" in done.stderr
    pid = (workspace / "pid").read_text().strip()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the command")


def test_interrupting_interrupts_the_command_and_the_box_is_removed(home: Home, tmp_path: Path) -> None:
    with home.running(
        "run", "--name", "brief", "--workspace", str(tmp_path), "--",
        # A signal that comes while the shell forks is lost to the child, so the child must end by itself.
        "sh", "-c", "trap 'echo told; exit 5' INT; echo $$ > pid; while :; do sleep 0.1; done",
    ) as running:  # fmt: skip
        wait_until((tmp_path / "pid").exists, 60, what="the command")
        running.send_signal(signal.SIGINT)
        output, problem = running.communicate(timeout=60)
        assert running.returncode == 5
        assert output == "told\n"
        assert "Ctrl-C again to leave" in problem
    assert "brief" not in home.names()


@pytest.mark.parametrize(
    ("numbers", "status"), [([signal.SIGINT, signal.SIGINT], 130), ([signal.SIGTERM], 143)]
)
def test_leaving_takes_the_box_and_its_command_with_it(
    home: Home, tmp_path: Path, numbers: list[signal.Signals], status: int
) -> None:
    stubborn = "trap '' INT; echo $$ > pid; while :; do sleep 0.1; done"
    with home.running(
        "run", "--name", "gone", "--workspace", str(tmp_path), "--", "bash", "-c", stubborn
    ) as running:
        wait_until((tmp_path / "pid").exists, 60, what="the command")
        assert running.stderr is not None
        assert running.stderr.readline() == NOT_ISOLATED
        for index, number in enumerate(numbers):
            if index:
                assert "again to leave" in running.stderr.readline()
            running.send_signal(number)
        running.communicate(timeout=60)
        assert running.returncode == status
    pid = (tmp_path / "pid").read_text().strip()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the command")
    assert "gone" not in home.names()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_leaving_while_the_box_starts_leaves_none(home: Home, number: signal.Signals, status: int) -> None:
    begun = home.path / "state" / "glovebox" / "boxes" / "early"
    with home.running("run", "--name", "early", "--", "sleep", "600") as running:
        wait_until(begun.exists, 60, what="the beginning of the box")
        running.send_signal(number)
        running.communicate(timeout=60)
        assert running.returncode == status
    assert not begun.exists()


def test_a_box_that_cannot_be_is_a_sentence(home: Home) -> None:
    refused = home.glovebox("run", "--network", "none", "--", "true")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("glovebox: ")
    unknown = home.glovebox("run", "--backend", "nowhere", "--", "true")
    assert unknown.returncode == 1
    assert "No backend is called 'nowhere'" in unknown.stderr
    missing = home.glovebox("run", "--box", "nobody", "--", "true")
    assert missing.returncode == 1
    assert "There is no box 'nobody'" in missing.stderr


def test_a_name_that_is_taken_is_told_and_the_box_of_that_name_stays(home: Home, box: str) -> None:
    refused = home.glovebox("run", "--name", box, "--", "true")
    assert refused.returncode == 1
    assert box in refused.stderr
    assert box in home.names()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
def test_without_an_engine_bubblewrap_isolates_the_box_and_one_line_says_so(home: Home) -> None:
    done = home.glovebox("run", "--", "pwd", GLOVEBOX_BACKEND="", GLOVEBOX_ISOLATION="")
    assert done.stdout == "/workspace\n"
    [line] = done.stderr.splitlines()
    assert line == f"glovebox: No container engine answers: {SHARED}"
    assert len(line) <= 110


def test_without_an_engine_and_bubblewrap_no_box_starts_unless_it_is_asked_for(tmp_path: Path) -> None:
    user = Home(tmp_path / "home", GLOVEBOX_BACKEND="", GLOVEBOX_ISOLATION="")
    refused = user.glovebox("run", "--", "true", PATH="/nowhere")
    assert refused.returncode == 1
    assert refused.stderr.startswith("glovebox: No container engine answers. bubblewrap is not installed.")
    assert "--isolation none" in refused.stderr
    named = user.glovebox("run", "--image", "debian", "--", "true")
    assert named.returncode == 1
    assert named.stderr.startswith("glovebox: No container engine answers. Tried:")
    asked = user.glovebox("run", "--isolation", "none", "--", "echo", "done")
    assert (asked.stdout, asked.stderr) == ("done\n", NOT_ISOLATED)


def test_the_environment_of_commands_comes_from_flags_and_from_here(home: Home) -> None:
    done = home.glovebox(
        "run", "--env", "MINE", "--env", "OTHER=a=b c", "--env", "ABSENT", "--",
        "sh", "-c", 'echo "$MINE|$OTHER|$THIRD|${ABSENT-none}"',
        MINE="of here", SANDBOX_ENV_THIRD="third",
    )  # fmt: skip
    assert done.stdout == "of here|a=b c|third|none\n"


def test_output_is_shown_while_the_command_runs(home: Home, box: str, workspace: Path) -> None:
    script = "echo first; until test -e more; do sleep 0.01; done; rm more; echo last"
    with home.running("run", "--box", box, "--", "sh", "-c", script) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "first\n"
        (workspace / "more").touch()
        assert running.communicate(timeout=60)[0] == "last\n"


def test_a_reader_that_has_seen_enough_ends_it_quietly(home: Home, box: str) -> None:
    with home.running("run", "--box", box, "--", "yes") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "y\n"
        running.stdout.close()
        assert running.wait(60) == 141
        assert running.stderr.read() == ""
        running.stderr.close()


# glovebox shell


def test_a_shell_in_a_fresh_box_ends_with_exit_and_leaves_nothing(home: Home) -> None:
    with closing(Window(home, "shell", "--name", "playground")) as person:
        person.see(b"Ctrl-] detaches")
        person.press(b"echo $((6 * 7)) answers; stty size\r")
        person.see(b"42 answers\r\n24 100")
        assert "playground" in home.names()
        person.press(b"exit\r")
        assert person.end() == 0
        assert b"the shell has ended" in person.shown
        assert b"Traceback" not in person.shown
    assert "playground" not in home.names()


def test_a_shell_in_a_box_that_is_there_leaves_it_there(home: Home, box: str) -> None:
    with closing(Window(home, "run", "--box", box)) as person:
        person.see(b"detaches")
        person.press(b"echo $GREETING\r")
        person.see(b"hello there")
        person.press(b"exit\r")
        assert person.end() == 0
    with closing(Window(home, "run", "--box", box)) as person:
        person.see(b"detaches")
        person.press(b"echo $((6 * 7)) again\r")
        person.see(b"42 again")
        person.press(b"\x1d")
        assert person.end() == 0
    assert box in home.names()


def test_closing_the_window_removes_the_box(home: Home) -> None:
    person = Window(home, "shell", "--name", "closed")
    try:
        person.see(b"detaches")
        os.kill(person.process.pid, signal.SIGHUP)
        assert person.end() == 0
    finally:
        person.close()
    wait_until(lambda: "closed" not in home.names(), what="the end of the box")


def test_a_shell_needs_a_terminal(home: Home) -> None:
    refused = home.glovebox("shell")
    assert refused.returncode == 2
    assert "glovebox run -- COMMAND" in refused.stderr


def test_progress_is_a_line_that_is_gone_when_the_command_begins(home: Home) -> None:
    with closing(Window(home, "run", "--", "echo", "the output")) as person:
        assert person.end() == 0
        before, _, after = person.shown.partition(b"the output\r\n")
        assert after == b""
        said = NOT_ISOLATED.replace("\n", "\r\n").encode()
        assert before.endswith((said, b"\r\x1b[K"))
