"""What real commands cost."""

from __future__ import annotations

import os
import sys
import time

import pytest

from glovebox.box.terminal.inspection.usage import Meter, Usage
from tests.box.terminal.inspection.shells import PYTHON, Shell
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

_MIB = 2**20
#: Until it has used so many seconds of CPU time.
_SPIN = "import time\nwhile time.process_time() < {seconds}: pass\n"


def spin(seconds: float, then: str = "") -> str:
    return f"{PYTHON} -c '{_SPIN.format(seconds=seconds)}{then}'"


def test_a_short_command_costs_next_to_nothing_and_nothing_else_is_known(shell: Shell) -> None:
    meter = Meter(shell.pid)
    shell.run("true")
    usage = meter.finish()
    assert usage.cpu_seconds is not None
    assert usage.cpu_seconds < 0.2
    assert usage.peak_memory is None
    assert usage.processes is None


def test_time_of_a_program_that_ended_counts_without_a_sample(shell: Shell) -> None:
    meter = Meter(shell.pid)
    shell.run(spin(0.3))
    usage = meter.finish()
    assert usage.cpu_seconds is not None
    assert 0.28 <= usage.cpu_seconds < 1


def test_time_of_the_shell_itself_counts(shell: Shell) -> None:
    meter = Meter(shell.pid)
    shell.run("for ((i = 0; i < 100000; i++)); do :; done")
    assert (meter.finish().cpu_seconds or 0) > 0.02


def test_time_of_what_still_runs_counts(shell: Shell) -> None:
    meter = Meter(shell.pid)
    shell.run(spin(0.3, 'open("done", "w"); time.sleep(60)') + " &")
    wait_until((shell.directory / "done").exists, what="it has computed")
    meter.sample()
    usage = meter.finish()
    assert usage.cpu_seconds is not None
    assert 0.28 <= usage.cpu_seconds < 1
    assert usage.processes == 1


def test_time_from_before_does_not_count(shell: Shell) -> None:
    shell.run(spin(0.3))
    meter = Meter(shell.pid)
    shell.run("true")
    assert meter.finish().cpu_seconds in (0, 0.01, 0.02)


def job(shell: Shell) -> None:
    """A job that has computed for a while, and ends when it is told to."""
    lines = _SPIN.format(seconds=0.5) + 'open("done", "w")\nopen("gate").read()\n'
    (shell.directory / "job.py").write_text(lines)
    shell.run(f"mkfifo gate; {PYTHON} job.py &")
    wait_until((shell.directory / "done").exists, what="it has computed")


def test_a_job_from_before_does_not_count_while_it_runs_nor_when_it_ends(shell: Shell) -> None:
    job(shell)
    meter = Meter(shell.pid)
    shell.type("sleep 60; wait")
    wait_until(lambda: shell.named("sleep"), what="the command runs")
    meter.sample()
    (shell.directory / "gate").write_text("go on")
    wait_until(lambda: len(shell.family()) == 1, what="the job ended")
    meter.sample()
    shell.press(b"\x03")
    shell.status()
    usage = meter.finish()
    assert usage.cpu_seconds is not None
    assert usage.cpu_seconds < 0.3
    assert usage.processes == 1


def test_more_time_than_there_was_is_never_told(shell: Shell) -> None:
    job(shell)
    begun = time.monotonic()
    meter = Meter(shell.pid)
    # The shell waits for the job, and has all its time from then on; nobody saw the job before.
    shell.run(": > gate; wait")
    seconds = meter.finish().cpu_seconds
    possible = (time.monotonic() - begun) * (os.cpu_count() or 1) + 0.1
    assert seconds is None or seconds <= possible


def test_the_peak_of_memory_is_what_all_processes_had_at_one_time(shell: Shell) -> None:
    (shell.directory / "hog.py").write_text(
        f"import sys, time\nkept = b'x' * {40 * _MIB}\nopen(sys.argv[1], 'w')\ntime.sleep(60)\n"
    )
    meter = Meter(shell.pid)
    shell.type(f"{PYTHON} hog.py one | {PYTHON} hog.py two")
    wait_until(lambda: all((shell.directory / name).exists() for name in ("one", "two")), what="both have it")
    meter.sample()
    shell.press(b"\x03")
    shell.status()
    usage = meter.finish()
    assert usage.peak_memory is not None
    assert 80 * _MIB < usage.peak_memory < 160 * _MIB
    assert usage.processes == 2


def test_a_peak_between_two_samples_is_found_afterwards(shell: Shell) -> None:
    (shell.directory / "hog.py").write_text(
        f"import time\nkept = b'x' * {60 * _MIB}\ndel kept\nopen('done', 'w')\ntime.sleep(60)\n"
    )
    meter = Meter(shell.pid)
    shell.type(f"{PYTHON} hog.py")
    wait_until((shell.directory / "done").exists, what="it has had it")
    meter.sample()
    assert (meter.finish().peak_memory or 0) > 60 * _MIB


def test_memory_that_the_shell_takes_counts_and_what_it_had_does_not(shell: Shell) -> None:
    meter = Meter(shell.pid)
    shell.type("sleep 60")
    wait_until(lambda: shell.named("sleep"), what="it runs")
    meter.sample()
    shell.press(b"\x03")
    shell.status()
    small = meter.finish().peak_memory
    assert small is not None
    assert small < 10 * _MIB
    meter = Meter(shell.pid)
    shell.run("printf -v kept '%*s' 30000000 x")
    meter.sample()
    assert (meter.finish().peak_memory or 0) > 28_000_000


def test_a_process_that_is_about_to_start_another_program_counts_once(shell: Shell) -> None:
    (shell.directory / "hog.py").write_text(
        f"import ctypes, os, time\nkept = b'x' * {60 * _MIB}\n"
        # The child has the parent's memory, and the parent sleeps until it is gone.
        "if ctypes.CDLL(None).vfork() == 0:\n    open('done', 'w')\n    time.sleep(60)\n"
    )
    meter = Meter(shell.pid)
    shell.type(f"{PYTHON} hog.py")
    wait_until((shell.directory / "done").exists, what="it has forked")
    wait_until(lambda: any(process.state == "D" for process in shell.family()), what="the parent waits")
    meter.sample()
    usage = meter.finish()
    assert usage.processes == 2
    assert 60 * _MIB < (usage.peak_memory or 0) < 110 * _MIB


def test_of_a_shell_that_is_gone_nothing_is_known(shell: Shell) -> None:
    meter = Meter(shell.pid)
    shell.type("exit")
    shell.process.wait()
    meter.sample()
    assert meter.finish() in (Usage(None, None, None), Usage(0.0, None, None))
    assert Meter(shell.pid).finish() == Usage(None, None, None)
