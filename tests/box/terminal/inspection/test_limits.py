"""Commands that go beyond their limits are ended, and their shell is not."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from glovebox.box.terminal.inspection.limits import Exceeded, Warden, problem
from glovebox.protocol.terminal import Limits
from tests.box.terminal.inspection import shells
from tests.box.terminal.inspection.shells import PYTHON, Shell
from tests.support.waiting import LIMIT, wait_until

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

_MIB = 2**20


@contextlib.contextmanager
def watched(shell: Shell, command: str, **limits: float) -> Iterator[Warden]:
    """A command under limits."""
    warden = Warden(shell.pid, msgspec.convert(limits, Limits))
    warden.begin()
    shell.type(command)
    yield warden


def exceeded(warden: Warden) -> Exceeded:
    """Check now and then, as whoever waits for the command does."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        if found := warden.check():
            return found
        time.sleep(0.02)
    raise AssertionError("no limit was exceeded")


def works(shell: Shell) -> None:
    """The shell is the same, and does what it is told."""
    assert b"still 42" in shell.run("echo still $((6 * 7))")
    assert shell.process.poll() is None


@linux
def test_a_command_that_takes_too_much_memory_is_ended(shell: Shell) -> None:
    hog = 'import time; kept = []\nwhile len(kept) < 300: kept.append(b"x" * 1000000); time.sleep(0.002)\n'
    with watched(shell, f"{PYTHON} -c '{hog}'; echo the rest", memory=60 * _MIB) as warden:
        found = exceeded(warden)
        assert shell.status() == 137
        assert found.name == "memory"
        assert 60 * _MIB < found.seen < 320_000_000
        assert warden.end(137) == found
    assert b"\nthe rest" not in shell.output
    assert shell.family() == []
    works(shell)


@linux
def test_memory_of_several_processes_is_added_up(shell: Shell) -> None:
    (shell.directory / "hog.py").write_text(f"import time\nkept = b'x' * {40 * _MIB}\ntime.sleep(60)\n")
    with watched(shell, f"{PYTHON} hog.py | {PYTHON} hog.py", memory=70 * _MIB) as warden:
        assert exceeded(warden).name == "memory"
        assert shell.status() == 137


@linux
def test_memory_that_forked_processes_share_counts_once(shell: Shell) -> None:
    (shell.directory / "forks.py").write_text(
        f"import os, time\nkept = b'x' * {60 * _MIB}\n"
        "for _ in range(4):\n    if not os.fork(): break\n"
        "else: open('done', 'w')\ntime.sleep(60)\n"
    )
    with watched(shell, f"{PYTHON} forks.py", memory=150 * _MIB) as warden:
        wait_until((shell.directory / "done").exists, what="it has forked")
        assert sum(process.resident for process in shell.family()) > 150 * _MIB
        assert warden.check() is None
        assert len(shell.family()) == 5


@linux
def test_memory_of_the_shell_itself_ends_the_command(shell: Shell) -> None:
    grow = "printf -v x '%*s' 1000000 x; while :; do y+=$x; done"
    with watched(shell, grow, memory=40 * _MIB) as warden:
        assert exceeded(warden).name == "memory"
        assert shell.status() == 130
    works(shell)


@linux
def test_a_command_that_computes_too_long_is_ended(shell: Shell) -> None:
    with watched(shell, f"{PYTHON} -c 'while True: pass'", cpu_seconds=0.2) as warden:
        found = exceeded(warden)
        assert shell.status() == 137
    assert found.name == "cpu_seconds"
    assert 0.2 < found.seen < LIMIT
    works(shell)


@linux
def test_a_program_that_ignores_signals_is_ended_all_the_same(shell: Shell) -> None:
    ignoring = (
        "import signal\nfor n in range(1, 32):\n  n in (9, 19) or signal.signal(n, 1)\nwhile True: pass"
    )
    with watched(shell, f"{PYTHON} -c '{ignoring}' | cat", cpu_seconds=0.2) as warden:
        exceeded(warden)
        shell.status()
    assert shell.family() == []


@linux
@pytest.mark.parametrize("loop", ["while :; do :; done; echo the rest", "f() { while :; do :; done; }; f"])
def test_a_loop_in_the_shell_itself_is_interrupted(shell: Shell, loop: str) -> None:
    with watched(shell, loop, cpu_seconds=0.2) as warden:
        assert exceeded(warden).name == "cpu_seconds"
        assert shell.status() == 130
    assert b"\nthe rest" not in shell.output
    works(shell)


@linux
@pytest.mark.parametrize(
    "command",
    [
        "for i in 1 2 3; do {hog}; echo the rest; done",
        "({hog}; echo the rest); echo the rest",
        "x=$({hog}); echo the rest",
        "{hog} || echo the rest",
        "{hog} & wait; echo the rest",
    ],
)
def test_the_rest_of_a_list_does_not_run(shell: Shell, command: str) -> None:
    command = command.replace("{hog}", f"{PYTHON} -c 'while True: pass'")
    with watched(shell, command, cpu_seconds=0.1) as warden:
        exceeded(warden)
        assert shell.status() in (130, 137)
    assert b"\nthe rest" not in shell.output
    assert shell.family() == []
    works(shell)


@linux
def test_a_shell_that_goes_on_is_followed(shell: Shell) -> None:
    command = "trap : INT; for i in 1 2 3; do sleep 60; done"
    with watched(shell, f"{PYTHON} -c 'while True: pass'; {command}", cpu_seconds=0.1) as warden:
        warden.check()
        exceeded(warden)

        def ended() -> bool:
            warden.check()
            return shell.prompted()

        wait_until(ended, what="all of them were ended")
    works(shell)


@linux
def test_too_many_processes_are_ended(shell: Shell) -> None:
    with watched(shell, "for i in $(seq 40); do sleep 60 & done; wait", processes=20) as warden:
        found = exceeded(warden)
        shell.status()
        wait_until(lambda: not shell.named("sleep"), what="none is left")
    assert found.name == "processes"
    assert found.seen > 20
    works(shell)


@linux
def test_processes_that_start_others_all_the_time_are_ended(shell: Shell) -> None:
    # Each starts its successor and ends.
    (shell.directory / "hare").write_text("#!/bin/bash\n[ -e stop ] && exit\n./hare &\nsleep 0.02\n")
    (shell.directory / "hare").chmod(0o755)
    try:
        command = "for i in 1 2 3 4; do ./hare & done; sleep 60"
        with watched(shell, command, processes=5) as warden:
            exceeded(warden)
            shell.status()
            assert shell.family() == []
            assert warden.check() == warden.end(137)
    finally:
        (shell.directory / "stop").touch()
    works(shell)


@linux
def test_a_process_that_left_the_session_after_it_was_seen_is_ended(shell: Shell) -> None:
    (shell.directory / "leave.py").write_text(
        "import os, time\n"
        "if os.fork(): open('gate').read(); os._exit(0)\n"
        "os.setsid()\nopen('pid', 'w').write(str(os.getpid()))\n"
        "while os.getppid() == PARENT: time.sleep(0.01)\n"
        "open('alone', 'w')\nwhile True: pass\n".replace("PARENT", "int(os.environ['LEADER'])")
    )
    command = f"mkfifo gate; (export LEADER=$BASHPID; exec {PYTHON} leave.py); sleep 60"
    with watched(shell, command, cpu_seconds=0.3) as warden:
        wait_until((shell.directory / "pid").exists, what="it has left")
        assert warden.check() is None
        (shell.directory / "gate").write_text("go on")
        wait_until((shell.directory / "alone").exists, what="its parent is gone")
        exceeded(warden)
    pid = (shell.directory / "pid").read_text()
    wait_until(
        lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text(),
        what="ended",
    )


@linux
def test_jobs_from_before_are_neither_counted_nor_ended(shell: Shell) -> None:
    shell.run(f"{PYTHON} -c 'while True: pass' & bash -c 'sleep 60; true' &")
    wait_until(lambda: len(shell.family()) == 3, what="they run")
    before = {process.pid for process in shell.family()}
    with watched(shell, "sleep 60 | sleep 60 | sleep 60", processes=3, cpu_seconds=0.2) as warden:
        wait_until(lambda: len(shell.family()) == 6, what="all run")
        spinning = min(before)

        def used() -> int:
            return sum(process.ticks for process in shell.family() if process.pid == spinning)

        begun = used()
        wait_until(lambda: used() > begun + 30, what="the job has computed more than the command may")
        assert warden.check() is None
        shell.press(b"\x03")
        shell.status()
    with watched(shell, "sleep 60 | sleep 60 | sleep 60", processes=2) as warden:
        exceeded(warden)
        shell.status()
    assert {process.pid for process in shell.family()} == before


@linux
def test_a_file_that_is_too_large_ends_the_program(shell: Shell) -> None:
    before = resource.prlimit(shell.pid, resource.RLIMIT_FSIZE)
    with watched(shell, "dd if=/dev/zero of=large bs=64k count=100", file_size=1_000_000) as warden:
        status = shell.status()
        assert warden.check() is None
        found = warden.end(status)
    assert found == Exceeded("file_size", 1_000_000, 1_000_000)
    assert (shell.directory / "large").stat().st_size == 1_000_000
    assert resource.prlimit(shell.pid, resource.RLIMIT_FSIZE) == before
    assert shell.run("dd if=/dev/zero of=large bs=64k count=100")
    assert (shell.directory / "large").stat().st_size == 6_553_600


@linux
def test_a_limit_on_files_that_the_command_sets_itself_stays(shell: Shell) -> None:
    with watched(shell, "ulimit -S -f 100", file_size=1_000_000) as warden:
        assert warden.end(shell.status()) is None
    assert resource.prlimit(shell.pid, resource.RLIMIT_FSIZE)[0] == 100 * 1024


@linux
def test_a_shell_with_a_trap_survives_its_own_large_file(tmp_path: Path) -> None:
    with shells.shell(tmp_path, startup="trap : XFSZ") as shell:
        command = "for i in {1..30}; do printf %10000d 1; done > large"
        with watched(shell, command, file_size=100_000) as warden:
            assert warden.end(shell.status()) is None
        assert (tmp_path / "large").stat().st_size == 100_000
        works(shell)


@linux
def test_a_command_within_its_limits_is_left_alone(shell: Shell) -> None:
    limits = {"memory": 100 * _MIB, "cpu_seconds": 5, "processes": 10, "file_size": 10**6}
    with watched(shell, "sleep 0.2; echo x > small; (exit 3)", **limits) as warden:
        while not shell.prompted():
            assert warden.check() is None
        assert warden.end(shell.status()) is None
    assert shell.status() == 3


@linux
def test_a_shell_at_its_prompt_is_not_interrupted(shell: Shell) -> None:
    with watched(shell, "sleep 60 & sleep 60 & sleep 60 &", processes=2) as warden:
        assert shell.status() == 0
        wait_until(lambda: len(shell.family()) == 3, what="they run")
        shell.press(b"echo half of a li")
        wait_until(lambda: b"half of a li" in shell.output, what="it is there")
        assert exceeded(warden).name == "processes"
        wait_until(lambda: not shell.family(), what="they ended")
        shell.press(b"ne\r")
        wait_until(lambda: b"\nhalf of a line" in shell.output, what="the line was kept")


@linux
def test_a_shell_that_is_gone_has_no_limits(shell: Shell) -> None:
    with watched(shell, "exit 3", file_size=1000, processes=1) as warden:
        shell.process.wait()
        assert warden.check() is None
        assert warden.end(3) is None
    late = Warden(shell.pid, Limits(file_size=1000))
    late.begin()
    assert late.check() is None
    assert late.end(0) is None


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(memory=0), "memory"),
        (Limits(memory=1, processes=-1), "processes"),
        (Limits(cpu_seconds=0.0), "cpu_seconds"),
        (Limits(cpu_seconds=float("nan")), "cpu_seconds"),
        (Limits(cpu_seconds=float("inf")), "cpu_seconds"),
        (Limits(file_size=2**63), "file_size"),
    ],
)
def test_limits_that_make_no_sense_are_a_problem(limits: Limits, name: str) -> None:
    assert name in (problem(limits) or "")


def test_limits_that_make_sense_are_none() -> None:
    assert problem(Limits()) is None
    assert problem(Limits(memory=1, cpu_seconds=0.01, processes=1, file_size=1)) is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            Exceeded("memory", 256 * _MIB, 312.5 * _MIB),
            "The command was ended because it used 312.5 MiB of memory; its limit is 256 MiB.",
        ),
        (
            Exceeded("cpu_seconds", 2.5, 2.5625),
            "The command was ended because it used 2.56 s of CPU time; its limit is 2.5 s.",
        ),
        (
            Exceeded("processes", 20, 41),
            "The command was ended because it had 41 processes; its limit is 20.",
        ),
        (
            Exceeded("file_size", 1000, 1000),
            "The command was ended because it wrote a file larger than its limit of 1000 bytes.",
        ),
    ],
)
def test_what_happened_is_one_sentence(found: Exceeded, text: str) -> None:
    assert found.text == text
