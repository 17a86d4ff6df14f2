"""What a command does is seen from outside: real programs on a real terminal."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glovebox.box.terminal.inspection.states import State, StateSample, look
from tests.box.terminal.inspection import shells
from tests.box.terminal.inspection.shells import PYTHON, Shell
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

_NOBODY = 65534


def seen(shell: Shell, *, alternate_screen: bool = False) -> StateSample:
    found = look(shell.pid, alternate_screen=alternate_screen, tail=shell.output)
    assert found is not None
    return found


def becomes(shell: Shell, state: State, program: str, *, alternate_screen: bool = False) -> StateSample:
    """Wait until a program is in a state."""

    def reached() -> bool:
        now = seen(shell, alternate_screen=alternate_screen)
        return (now.state, now.program) == (state, program)

    wait_until(reached, what=f"{program} is {state}")
    return seen(shell, alternate_screen=alternate_screen)


def runs(shell: Shell, program: str) -> None:
    """Wait until a program has come to where it stays, and see that it counts as running."""
    wait_until(
        lambda: any(process.state == "S" for process in shell.named(program)), what=f"{program} sleeps"
    )
    states = {becomes(shell, State.RUNNING, program).state, *(seen(shell).state for _ in range(5))}
    assert states == {State.RUNNING}


def asks(shell: Shell, prompt: str, program: str) -> StateSample:
    """Wait until a program has printed a prompt and waits."""
    wait_until(
        lambda: seen(shell).prompt == prompt and seen(shell).program == program, what=f"it asks {prompt!r}"
    )
    return seen(shell)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("sleep 60", "sleep"),
        ("x=$(sleep 60)", "sleep"),
        ("sleep 60 | cat", "sleep"),
        ("(sleep 60; true)", "bash"),
        ("mkfifo f; cat f", "cat"),
        ("cat <> <(sleep 60)", "cat"),
        ("stty -icanon -echo; sleep 60", "sleep"),
    ],
)
def test_a_command_that_wants_nothing_runs(shell: Shell, command: str, program: str) -> None:
    shell.type(command)
    runs(shell, program)


def test_a_shell_that_computes_runs_even_with_jobs(shell: Shell) -> None:
    shell.type("sleep 60 & echo begun; while :; do :; done")
    wait_until(lambda: b"\nbegun" in shell.output, what="it has begun")
    assert {seen(shell).state for _ in range(5)} == {State.RUNNING}


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("cat", "cat"),
        ("cat | cat | sort", "cat"),
        ("x=$(cat)", "cat"),
        ("(cat; true)", "cat"),
        ("cat < /dev/tty", "cat"),
        ("exec 7< /dev/tty; cat <&7", "cat"),
        ("timeout --foreground 60 cat", "cat"),
        ("read -r line", "bash"),
        ("read -r -t 60 line", "bash"),
        ("read -r -n 1 key", "bash"),
        ("read -r -e line", "bash"),
        ("sleep 60 & read -r line", "bash"),
        ("sleep 60 & read -r -n 1 line", "bash"),
        ("set +m; cat", "cat"),
    ],
)
def test_whatever_reads_the_terminal_waits_for_input(shell: Shell, command: str, program: str) -> None:
    shell.type(command)
    found = becomes(shell, State.WAITING_FOR_INPUT, program)
    assert not found.echo_off


def test_a_question_is_told(shell: Shell) -> None:
    shell.type("read -r -p $'Really?\\n\\e[1mYes\\e[0m or no: ' answer")
    assert asks(shell, "Yes or no:", "bash") == StateSample(
        State.WAITING_FOR_INPUT, prompt="Yes or no:", program="bash"
    )


def test_a_silent_read_is_a_password(shell: Shell) -> None:
    shell.type("read -r -s -p 'Secret: ' secret")
    assert asks(shell, "Secret:", "bash").echo_off


def python(shell: Shell, text: str) -> str:
    """Run a Python program that is called `tool`; the name that it has."""
    (shell.directory / "tool").write_text(f"#!{PYTHON}\n{text}\n")
    (shell.directory / "tool").chmod(0o755)
    shell.type("./tool")
    return "tool"


def test_a_program_that_asks_for_a_password_is_seen_doing_so(shell: Shell) -> None:
    name = python(shell, "import getpass; getpass.getpass('Passphrase: ')")
    assert asks(shell, "Passphrase:", name).echo_off
    shell.press(b"x\r")
    assert shell.status() == 0


def test_a_read_eval_print_loop_waits_with_its_prompt_and_no_password(shell: Shell) -> None:
    shell.type(f"{PYTHON} -q -i -E")
    wait_until(lambda: seen(shell).prompt == ">>>", what="it prompts")
    assert seen(shell).state is State.WAITING_FOR_INPUT
    assert not seen(shell).echo_off
    shell.press(b"import time; time.sleep(60)\r")
    wait_until(lambda: seen(shell).state is State.RUNNING, what="it computes")


def test_a_thread_may_be_the_one_that_waits(shell: Shell) -> None:
    name = python(
        shell,
        "import sys, threading, time\n"
        "threading.Thread(target=sys.stdin.readline, daemon=True).start()\n"
        "time.sleep(60)",
    )
    becomes(shell, State.WAITING_FOR_INPUT, name)


_RAW = "import select, socket, sys, tty\ntty.setcbreak(0)\na, b = socket.socketpair()\n"


@pytest.mark.parametrize(
    "wait",
    [
        "select.select([0, a], [], [])",
        "p = select.poll(); p.register(0, select.POLLIN); p.register(a, select.POLLIN); p.poll()",
        "e = select.epoll(); e.register(0, select.EPOLLIN); e.register(a, select.EPOLLIN); e.poll()",
    ],
)
def test_a_program_that_watches_for_keys_among_other_things_waits(shell: Shell, wait: str) -> None:
    becomes(shell, State.WAITING_FOR_INPUT, python(shell, _RAW + wait))


@pytest.mark.parametrize(
    "wait",
    [
        "select.select([a], [], [])",
        "p = select.poll(); p.register(0, 0); p.register(a, select.POLLIN); p.poll()",
        "e = select.epoll(); e.register(a, select.EPOLLIN); e.poll()",
        "a.recv(1)",
    ],
)
def test_a_program_that_watches_something_else_runs(shell: Shell, wait: str) -> None:
    name = python(shell, _RAW + "print('ready', flush=True)\n" + wait)
    wait_until(lambda: b"ready" in shell.output, what="it is ready")
    runs(shell, name)


def test_a_program_that_was_stopped_for_a_while_still_waits(shell: Shell) -> None:
    (shell.directory / "tool").write_text(
        f"#!{PYTHON}\n{_RAW}p = select.poll(); p.register(0, select.POLLIN); p.poll(60_000)\n"
    )
    (shell.directory / "tool").chmod(0o755)
    shell.type("bash -c './tool; true'")
    becomes(shell, State.WAITING_FOR_INPUT, "tool")
    tool = shell.named("tool")[0].pid
    os.kill(tool, signal.SIGSTOP)
    becomes(shell, State.STOPPED, "bash")
    os.kill(tool, signal.SIGCONT)
    becomes(shell, State.WAITING_FOR_INPUT, "tool")


def test_a_program_that_passes_lines_on_runs(shell: Shell) -> None:
    lines = "import select, socket\na, b = socket.socketpair()\nprint('ready', flush=True)\n"
    name = python(shell, lines + "select.select([0, a], [], [])")
    wait_until(lambda: b"ready" in shell.output, what="it is ready")
    runs(shell, name)


def test_a_program_that_waits_for_the_network_runs(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        shell.type(f"stty -icanon; cat < /dev/tcp/127.0.0.1/{port}")
        connection, _ = server.accept()
        with connection:
            runs(shell, "cat")


def test_a_full_screen_program_waits_for_keys_without_a_prompt(shell: Shell) -> None:
    name = python(
        shell, _RAW + "print('\\x1b[?1049hCPU 3%', end='', flush=True)\nselect.select([0], [], [], 60)"
    )
    assert becomes(shell, State.WAITING_FOR_INPUT, name, alternate_screen=True).prompt == ""


@contextmanager
def named_program(shell: Shell, name: str) -> Iterator[None]:
    """A program is known by its name; where it is missing, another one with that name will do."""
    if shutil.which(name) is None:
        shells.program(
            shell.directory, name, "#!/bin/bash\nstty -icanon -echo\nread -r -n 1 key\nstty sane\n"
        )
    yield


@pytest.mark.parametrize("name", ["less", "more", "most"])
def test_a_pager_is_known_by_its_name(shell: Shell, name: str) -> None:
    with named_program(shell, name):
        shell.run("seq 1000 > text")
        shell.type(f"{name} text")
        becomes(shell, State.PAGER, name)
        shell.press(b"q")
        shell.status()


@pytest.mark.parametrize("name", ["vim", "nano", "emacs"])
def test_an_editor_is_known_by_its_name(shell: Shell, name: str) -> None:
    with named_program(shell, name):
        shell.type(f"{name} text")
        becomes(shell, State.EDITOR, name)


def test_an_editor_of_lines_is_one_too(shell: Shell) -> None:
    shells.program(shell.directory, "ed", "#!/bin/bash\nread -r line\n")
    shell.type("ed")
    becomes(shell, State.EDITOR, "ed")


def test_variants_of_a_name_count(shell: Shell) -> None:
    shells.program(shell.directory, "vim.tiny", "#!/bin/bash\nread -r line\n")
    shell.type("vim.tiny")
    becomes(shell, State.EDITOR, "vim.tiny")


def test_a_pager_behind_another_program_counts(shell: Shell) -> None:
    shells.program(shell.directory, "less", "#!/bin/bash\nread -r -n 1 key < /dev/tty\n")
    shell.type("yes | less")
    becomes(shell, State.PAGER, "less")


def test_an_editor_that_another_program_started_counts(shell: Shell) -> None:
    shells.program(shell.directory, "vi", "#!/bin/bash\nread -r line\n")
    shell.run("git init -q . && export GIT_EDITOR=vi GIT_CONFIG_GLOBAL=/dev/null")
    shell.type("git -c user.name=a -c user.email=a@b commit --allow-empty")
    becomes(shell, State.EDITOR, "vi")


def test_an_editor_that_works_without_a_person_runs(shell: Shell) -> None:
    shells.program(shell.directory, "emacs", "#!/bin/bash\nsleep 60\ntrue\n")
    shell.type("emacs --batch")
    wait_until(lambda: shell.named("sleep"), what="it works")
    runs(shell, "emacs")


def test_an_editor_that_is_busy_keeps_its_screen(shell: Shell) -> None:
    shells.program(shell.directory, "vim", "#!/bin/bash\nwhile :; do :; done\n")
    shell.type("vim")
    becomes(shell, State.EDITOR, "vim", alternate_screen=True)
    assert seen(shell, alternate_screen=False).state is State.RUNNING


def test_a_command_whose_processes_are_stopped_is_stopped(shell: Shell) -> None:
    shell.type("bash -c 'sleep 60; true'")
    wait_until(lambda: shell.named("sleep"), what="it started")
    sleep = shell.named("sleep")[0].pid
    os.kill(sleep, signal.SIGSTOP)
    becomes(shell, State.STOPPED, "bash")
    os.kill(sleep, signal.SIGCONT)
    becomes(shell, State.RUNNING, "bash")


def test_a_stopped_job_leaves_the_prompt(shell: Shell) -> None:
    shell.type("cat")
    becomes(shell, State.WAITING_FOR_INPUT, "cat")
    shell.press(b"\x1a")
    assert shell.status() == 148
    found = becomes(shell, State.WAITING_FOR_INPUT, "bash")
    assert found.prompt == "$"


@pytest.mark.parametrize("command", ["sleep 60 &", "sleep 60 & wait", "sleep 60 | cat & wait"])
def test_jobs_that_the_shell_does_not_stand_in_front_of_are_in_the_background(
    shell: Shell, command: str
) -> None:
    shell.type(command)
    becomes(shell, State.BACKGROUND, "bash")


def test_a_shell_that_is_gone_is_not_looked_at(shell: Shell) -> None:
    shell.type("exit")
    wait_until(lambda: look(shell.pid, alternate_screen=False, tail=b"") is None, what="it is gone")
    shell.process.wait()
    assert look(shell.pid, alternate_screen=False, tail=b"") is None


def test_looking_leaves_no_descriptor_open(shell: Shell) -> None:
    shell.type(f"{PYTHON} -q -i -E")
    wait_until(lambda: seen(shell).prompt == ">>>", what="it prompts")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        seen(shell)
    assert len(os.listdir("/proc/self/fd")) == before


@contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_program_of_another_user_that_asks_for_a_password_is_seen(tmp_path: Path) -> None:
    with shells.shell(tmp_path, owner=_NOBODY) as shell:
        shell.type("read -r -s -p 'Secret: ' secret")
        wait_until(lambda: b"Secret: " in shell.output, what="it asks")
        asked = asks(shell, "Secret:", "bash")
        with as_nobody():
            assert seen(shell) == asked
        assert asked.echo_off
        shell.press(b"x\r")
        shell.status()
        shell.type("sleep 60")
        becomes(shell, State.RUNNING, "sleep")
        with as_nobody():
            assert seen(shell).state is State.RUNNING
