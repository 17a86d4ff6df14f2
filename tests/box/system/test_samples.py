"""Samples of the machine and of the box's processes, against what really runs."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.box.system.samples import Baseline, Sampler, command_line
from glovebox.linux.processes import ProcessTable
from glovebox.protocol.system import ProcessUse, SystemSample
from tests.support.running import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

BUSY = "while True: pass"


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def sampler(*roots: int) -> Sampler:
    def all_roots() -> list[int]:
        return [os.getpid(), *roots]

    return Sampler(all_roots, "/", Baseline.take(all_roots))


def find(sample: SystemSample, pid: int) -> ProcessUse | None:
    return next((one for one in sample.processes.top if one.pid == pid), None)


def spent(sample: SystemSample) -> float:
    """The seconds of CPU time that a sample has seen. Its percentage tells also what else the machine did."""
    return sample.processes.cpu_percent * sample.seconds / 100


def test_the_machine_is_described() -> None:
    sample = sampler().sample(10)
    assert sample.cpu.cores == os.cpu_count()
    assert len(sample.cpu.per_core) >= 1
    assert len(sample.cpu.load) == 3
    memory = sample.memory
    assert 0 < memory.available < memory.total
    assert memory.used == memory.total - memory.available
    root = os.statvfs("/")
    assert sample.root.total == root.f_blocks * root.f_frsize
    assert 0 < sample.root.percent < 100
    assert sample.disk_io.read_bytes >= 0


def test_a_busy_process_and_the_machine_under_it_are_seen() -> None:
    with process(sys.executable, "-c", BUSY) as busy:
        looks = sampler()

        def is_busy() -> bool:
            sample = looks.sample(100)
            seen = find(sample, busy.pid)
            return (
                seen is not None
                and seen.cpu_percent > 5
                and sample.processes.cpu_percent > 5
                and sample.cpu.percent > 10
                and max(sample.cpu.per_core) > 30
            )

        wait_until(is_busy, what="the busy process to be seen as such")
        seen = find(looks.sample(100), busy.pid)
    assert seen is not None
    assert seen.parent == os.getpid()
    assert seen.command == f"{sys.executable} -c {BUSY}"
    assert seen.user == pwd.getpwuid(os.geteuid()).pw_name
    assert seen.rss > 1_000_000
    assert seen.threads == 1
    assert seen.age > 0


def test_the_time_of_processes_that_ended_is_not_lost() -> None:
    looks = sampler()
    code = "sum(number * number for number in range(5_000_000))"
    subprocess.run([sys.executable, "-c", code], check=True)
    sample = looks.sample(100)
    assert spent(sample) > 0.05


def test_every_reader_has_rates_of_its_own() -> None:
    first, second = sampler(), sampler()
    sum(number * number for number in range(5_000_000))
    assert spent(second.sample(0)) > 0.05
    for _ in range(5):
        second.sample(0)
    sample = first.sample(0)
    assert spent(sample) > 0.05
    assert sample.processes.top == []


def test_the_largest_come_first_and_no_more_than_asked_for() -> None:
    code = "import time; data = bytearray({}); print('there', flush=True); time.sleep(1000)"
    small, large = code.format(1), code.format(200_000_000)
    with process(sys.executable, "-c", small) as first, process(sys.executable, "-c", large) as second:
        for started in (first, second):
            assert started.stdout is not None
            assert started.stdout.readline() == "there\n"

        def roots() -> list[int]:
            return [first.pid, second.pid]

        sample = Sampler(roots, "/", Baseline.take(roots)).sample(1)
    assert [one.pid for one in sample.processes.top] == [second.pid]
    assert sample.processes.count == 2
    assert sample.processes.rss > sample.processes.top[0].rss > 200_000_000


def test_descendants_of_other_roots_belong_to_the_box_too() -> None:
    # As after a restart: the parent of the shells is nobody's child here.
    script = "sleep 1000 >/dev/null 2>&1 & echo $!"
    orphan = int(subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout)
    try:
        assert find(sampler().sample(100), orphan) is None
        assert find(sampler(orphan).sample(100), orphan) is not None
    finally:
        os.kill(orphan, 9)


def test_a_long_command_line_is_cut(tmp_path: Path) -> None:
    with process("sleep", *["1000"] * 300) as long:
        wait_until(lambda: Path(f"/proc/{long.pid}/comm").read_text() == "sleep\n", what="the program")
        found = next(one for one in ProcessTable().tree([long.pid]) if one.pid == long.pid)
        command = command_line(found)
    assert command.startswith("sleep 1000 1000 ")
    assert len(command) == 200


def test_a_zombie_has_a_name_and_a_state() -> None:
    with process("true") as ended:
        wait_until(
            lambda: [one.state for one in ProcessTable().tree([ended.pid])] == ["Z"],
            what="the end of the process",
        )
        found = find(sampler(ended.pid).sample(100), ended.pid)
        assert found is not None
        assert (found.command, found.state) == ("[true]", "zombie")
