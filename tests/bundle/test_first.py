"""The first process of a container, in a namespace of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundle.images import first_process
from tests.support.running import wait_until
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a first process")

STAY = "from glovebox.cli import pid1; pid1.stay_behind()\n"
ORPHANS = """
import os, sys, time
for _ in range(20):
    if not os.fork():
        os.fork() or time.sleep(0.05)
        os._exit(0)
    os.wait()

def states():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                yield int(name), file.read().rpartition(")")[2].split()[0]
        except OSError:
            pass

deadline = time.monotonic() + 20
while {number for number, _ in states()} != {1, os.getpid()}:
    assert time.monotonic() < deadline, dict(states())
sys.exit(7)
"""
WAIT = """
import signal, sys, time
def hear(number, _):
    print(number, flush=True)
    if number == signal.SIGTERM:
        sys.exit(9)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, hear)
print("ready", flush=True)
while True:
    signal.pause()
"""


def first(program: str) -> subprocess.Popen[str]:
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_orphans_are_taken_in_and_the_status_is_kept() -> None:
    with first(STAY + ORPHANS) as process:
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 7, errors


def test_signals_are_handed_on() -> None:
    with first(STAY + WAIT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        number = first_process(process)
        for sent in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM):
            os.kill(number, sent)
            assert process.stdout.readline() == f"{sent.value}\n"
        assert process.wait(LIMIT) == 9


def test_a_death_by_a_signal_has_the_status_that_shells_give_it() -> None:
    with first(STAY + "import os; os.kill(os.getpid(), 9)") as process:
        process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + 9


def test_whoever_is_not_the_first_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", STAY + "import os; print(os.getppid())"],
                          capture_output=True, text=True, timeout=LIMIT, check=True)  # fmt: skip
    assert done.stdout == f"{os.getpid()}\n"


def test_the_first_process_loads_nothing_of_the_box() -> None:
    """The child asks what its parent has mapped; a box's libraries would be there."""
    look = "import os; print('msgspec' in open('/proc/1/maps').read(), os.getppid())"
    with first(STAY + "import msgspec\n" + look) as process:
        output, errors = process.communicate(timeout=LIMIT)
    assert output == "False 1\n", errors


def test_a_box_as_the_first_process_ends_when_it_is_told_to(tmp_path: Path) -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", "glovebox"]
    environment = {"PATH": os.environ["PATH"], "GLOVEBOX_VIEWER_URL_FILE": str(tmp_path / "viewer")}
    with subprocess.Popen(
        [*command, "serve", "0", "--working-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as box:
        assert box.stdout is not None
        wait_until(lambda: "ready in" in (box.stdout.readline() if box.stdout else ""), what="the box")
        os.kill(first_process(box), signal.SIGTERM)
        assert box.wait(LIMIT) == 0
