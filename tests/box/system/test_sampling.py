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
from glovebox.linux import control_groups
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


# Limits of control groups, which are files.


def group(root: Path, version: int, controller: str, own: dict[str, str], above: dict[str, str]) -> str:
    """A `proc` whose process is in a group inside another."""
    proc, top = root / "proc", root / "cgroup"
    (proc / "self").mkdir(parents=True)
    (top / "outer" / "own").mkdir(parents=True)
    kind = f"cgroup cgroup rw,{controller}" if version == 1 else "cgroup2 cgroup2 rw"
    (proc / "self" / "mountinfo").write_text(f"35 31 0:32 / {top} rw - {kind}\n")
    name = controller if version == 1 else ""
    (proc / "self" / "cgroup").write_text(f"{1 if version == 1 else 0}:{name}:/outer/own\n")
    for directory, files in ((top / "outer" / "own", own), (top / "outer", above)):
        for file, text in {"cgroup.controllers": controller, **files}.items():
            (directory / file).write_text(f"{text}\n")
    return str(proc)


def test_the_memory_limit_of_version_2_is_the_tightest_above(tmp_path: Path) -> None:
    own = {"memory.max": "max", "memory.current": "1000"}
    above = {"memory.max": "5000000", "memory.current": "2000"}
    found = control_groups.memory_limit(group(tmp_path, 2, "memory", own, above))
    assert found is not None
    assert (found.limit, found.used) == (5_000_000, 2_000)


def test_the_memory_limit_of_version_1_is_known(tmp_path: Path) -> None:
    own = {"memory.limit_in_bytes": "4000000", "memory.usage_in_bytes": "1000"}
    above = {"memory.limit_in_bytes": str((1 << 63) - 4096), "memory.usage_in_bytes": "2000"}
    found = control_groups.memory_limit(group(tmp_path, 1, "memory", own, above))
    assert found is not None
    assert (found.limit, found.used) == (4_000_000, 1_000)


def test_without_a_limit_none_is_told(tmp_path: Path) -> None:
    unlimited = {"memory.max": "max", "memory.current": "1000", "cpu.max": "max 100000"}
    assert control_groups.memory_limit(group(tmp_path / "a", 2, "memory", unlimited, {})) is None
    assert control_groups.cpu_limit(group(tmp_path / "b", 2, "cpu", unlimited, {})) is None
    assert control_groups.cpu_limit(group(tmp_path / "c", 1, "cpu", {"cpu.cfs_quota_us": "-1"}, {})) is None
    assert control_groups.cpu_limit(str(tmp_path)) is None
    most = {"memory.limit_in_bytes": str((1 << 63) - 4096), "memory.usage_in_bytes": "1000"}
    assert control_groups.memory_limit(group(tmp_path / "d", 1, "memory", most, most)) is None


def test_the_cpu_limit_is_told_in_cores(tmp_path: Path) -> None:
    assert control_groups.cpu_limit(group(tmp_path / "a", 2, "cpu", {"cpu.max": "150000 100000"}, {})) == 1.5
    one = {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}
    assert control_groups.cpu_limit(group(tmp_path / "b", 1, "cpu", one, {})) == 0.5
