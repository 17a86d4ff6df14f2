"""Out-of-memory kills: how they are read and told, with a machine of files, and with real control groups."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from glovebox.linux.control_groups import ControlGroup
from glovebox.linux.oom import FIRST_NAMESPACE, Descendants, Kill, OomCount, OomWatch, read_kill
from glovebox.protocol.system import SystemSample
from tests.box.system.memory_group import HUNGRY, enter, memory_group, readable_log
from tests.support.running import KEY, RunningBox, announced, wait_until
from tests.support.waiting import LIMIT

RECORD = (
    "3,{number},22725969364,-;Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:2213560kB, "
    "anon-rss:{memory}kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:160kB oom_score_adj:0\n"
)


class Machine:
    """Files that say what a machine's own would: `proc`, the control groups, and the kernel's log."""

    def __init__(self, root: Path, *, version: int | None, namespace: str = FIRST_NAMESPACE) -> None:
        self.proc = root / "proc"
        self.log = root / "kmsg"
        (self.proc / "self" / "ns").mkdir(parents=True)
        (self.proc / "self" / "ns" / "pid").symlink_to(namespace)
        self.log.write_text(RECORD.format(number=1, pid=1, name="long ago", memory=1))
        self.group = root / "cgroup" / "own"
        self.group.mkdir(parents=True)
        kind = {1: "cgroup cgroup rw,memory", 2: "cgroup2 cgroup2 rw", None: "tmpfs tmpfs rw"}[version]
        mount = f"35 31 0:32 / {root}/cgroup rw,relatime - {kind}\n"
        (self.proc / "self" / "mountinfo").write_text("31 23 0:28 / /other rw - tmpfs tmpfs rw\n" + mount)
        (self.proc / "self" / "cgroup").write_text({1: "4:memory:/own\n", 2: "0::/own\n", None: ""}[version])
        (self.group / "cgroup.controllers").write_text("cpu memory pids\n")
        self.counter = {
            1: self.group / "memory.oom_control",
            2: self.group / "memory.events",
            None: self.proc / "vmstat",
        }[version]
        self.count(7)

    def count(self, kills: int) -> None:
        """Have so many been killed in all."""
        self.counter.write_text(f"oom 99\noom_kill {kills}\noom_group_kill 0\n")

    def say(self, pid: int, name: str = "python3", memory: int = 1_200_000) -> None:
        """Log a kill."""
        with self.log.open("a") as log:
            log.write(RECORD.format(number=2, pid=pid, name=name, memory=memory))

    def watch(self, *, log: bool = True) -> OomWatch:
        kernel_log = self.log if log else self.log / "missing"
        return OomWatch(proc=str(self.proc), kernel_log=str(kernel_log))


@pytest.fixture(params=[1, 2])
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    return Machine(tmp_path, version=request.param)


def told(watch: OomWatch, mark: OomCount, status: int = 0, mine: tuple[int, ...] = (4711,)) -> str | None:
    return watch.describe(mark, mine=mine, leader=4000, status=status)


def test_nothing_is_told_when_nothing_was_killed(machine: Machine) -> None:
    watch = machine.watch()
    assert told(watch, watch.mark(), 137) is None


def test_a_process_of_the_command_is_named(machine: Machine) -> None:
    watch = machine.watch()
    mark = watch.mark()
    machine.count(8)
    machine.say(4711)
    assert told(watch, mark, 137) == (
        "Out of memory: the system killed python3 (pid 4711, 1.2 GB), which this command had started."
    )


def test_the_shell_is_told_apart_from_what_it_started(machine: Machine) -> None:
    watch = machine.watch()
    mark = watch.mark()
    machine.say(4000, name="bash", memory=3_000)
    assert (
        told(watch, mark)
        == "Out of memory: the system killed bash (pid 4000, 3.1 MB), which ran this command."
    )


def test_a_process_that_may_be_another_s_is_told_of_as_such(machine: Machine) -> None:
    watch = machine.watch()
    mark = watch.mark()
    machine.count(8)
    machine.say(99)
    sentence = "Out of memory: the system killed python3 (pid 99, 1.2 GB) while this command ran."
    assert told(watch, mark) == sentence


def test_without_a_log_the_counter_still_tells_that_it_happened(machine: Machine) -> None:
    watch = machine.watch(log=False)
    mark = watch.mark()
    machine.count(8)
    assert told(watch, mark) == "Out of memory: the system killed a process while this command ran."
    machine.count(10)
    assert told(watch, mark) == "Out of memory: the system killed 3 processes while this command ran."


def test_each_mark_has_its_own_past(machine: Machine) -> None:
    watch = machine.watch()
    first = watch.mark()
    machine.count(8)
    machine.say(4711)
    second = watch.mark()
    assert told(watch, second, 137) is None
    assert "4711" in (told(watch, first) or "")


def test_what_happens_elsewhere_on_the_machine_is_told_only_to_those_it_may_have_hit(tmp_path: Path) -> None:
    machine = Machine(tmp_path, version=None)
    watch = machine.watch(log=False)
    mark = watch.mark()
    machine.count(8)
    assert told(watch, mark, 0) is None
    assert told(watch, mark, 137) == "Out of memory: the system killed a process while this command ran."


def test_numbers_of_another_namespace_are_not_compared(tmp_path: Path) -> None:
    machine = Machine(tmp_path, version=2, namespace="pid:[4026532000]")
    watch = machine.watch()
    mark = watch.mark()
    machine.count(8)
    machine.say(4711)
    assert told(watch, mark) == "Out of memory: the system killed a process while this command ran."


def test_only_some_of_many_are_named(machine: Machine) -> None:
    watch = machine.watch()
    mark = watch.mark()
    for pid in range(5):
        machine.say(pid, name=f"p{pid}", memory=500)
    assert told(watch, mark, mine=tuple(range(5))) == (
        "Out of memory: the system killed p0 (pid 0, 512 kB), p1 (pid 1, 512 kB), p2 (pid 2, 512 kB) "
        "and 2 more, which this command had started."
    )


def test_a_machine_that_tells_nothing_is_not_asked_for_more(tmp_path: Path) -> None:
    watch = OomWatch(proc=str(tmp_path), kernel_log=str(tmp_path / "none"))
    assert told(watch, watch.mark(), 137) is None


def test_the_death_of_one_process_is_explained_if_it_can_be(machine: Machine) -> None:
    watch = machine.watch()
    mark = watch.mark()
    assert watch.describe_death(mark, 4711) is None
    machine.count(8)
    guess = "Out of memory: the system killed a process at that time, most likely this one (pid 4711)."
    assert watch.describe_death(mark, 4711) == guess
    machine.say(99)
    assert watch.describe_death(mark, 4711) is None
    machine.say(4711)
    assert watch.describe_death(mark, 4711) == "Out of memory: the system killed python3 (pid 4711, 1.2 GB)."


@pytest.mark.parametrize(
    ("text", "name", "memory"),
    [
        ("Killed process 5 (a) b) total-vm:9kB, anon-rss:1kB, file-rss:2kB, shmem-rss:3kB", "a) b", 6144),
        ("Killed process 5 (java) total-vm:9kB, anon-rss:1kB, file-rss:2kB", "java", 3072),
        ("Killed process 5 (java), UID 48, total-vm:9kB, anon-rss:1kB, file-rss:0kB", "java", 1024),
    ],
)
def test_records_of_several_kernels_are_understood(text: str, name: str, memory: int) -> None:
    assert read_kill(f"3,1,1,-;Out of memory: {text}") == Kill(5, name, memory)


def test_only_the_kernel_is_believed(machine: Machine) -> None:
    forged = RECORD.format(number=1, pid=4711, name="x", memory=1)
    assert read_kill(forged) is not None
    assert read_kill("11" + forged[1:]) is None
    assert read_kill("no record") is None


def test_a_log_that_has_grown_too_much_is_read_on_at_its_end(machine: Machine) -> None:
    watch = machine.watch()
    mark = watch.mark()
    with machine.log.open("a") as log:
        log.write("6,1,1,-;noise\n" * 400_000)
    assert watch.kills(mark) == []
    machine.say(4711)
    assert [kill.pid for kill in watch.kills(mark)] == [4711]


def test_a_group_is_found_where_a_container_sees_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, version=2)
    (machine.proc / "self" / "mountinfo").write_text(
        f"35 31 0:32 /docker/abc {tmp_path}/cgroup/own rw - cgroup2 cgroup2 rw\n"
    )
    (machine.proc / "self" / "cgroup").write_text("0::/docker/abc\n")
    found = ControlGroup.find(str(machine.proc), "memory")
    assert found is not None
    assert found.directory == str(machine.group)
    assert [group.directory for group in found.above()] == [str(machine.group)]


def test_descendants_are_those_that_were_started_since() -> None:
    script = """
import os, subprocess, sys
started = []
for command in ("sleep 1000", "sleep 1000 & wait"):
    started.append(subprocess.Popen(["sh", "-c", command], start_new_session=True))
    print(started[-1].pid, flush=True)
    sys.stdin.readline()
for process in started:
    os.killpg(process.pid, 9)
    process.wait()
"""
    python = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert python.stdin is not None
    assert python.stdout is not None
    with python:
        early = int(python.stdout.readline())
        descendants = Descendants(python.pid)
        python.stdin.write("\n")
        python.stdin.flush()
        late = int(python.stdout.readline())

        def both() -> bool:
            descendants.look()
            return len(descendants.seen) == 2

        wait_until(both, what="the grandchild")
        assert late in descendants.seen
        assert early not in descendants.seen
        python.stdin.write("\n")


# With the system's own counters.

WATCHING = """
import subprocess, sys
from glovebox.linux.oom import OomWatch
watch = OomWatch(kernel_log=sys.argv[1])
input()
mark = watch.mark()
died = subprocess.Popen(["bash", "-c", "exec " + sys.argv[2]])
print(died.wait(), died.pid, flush=True)
print(watch.describe(mark, mine={died.pid}, leader=0, status=0), flush=True)
print(watch.describe_death(mark, died.pid), flush=True)
print(watch.describe(watch.mark(), mine=(), leader=0, status=137), flush=True)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    with memory_group(96_000_000) as made:
        yield made


def watched(group: Path, log: str) -> tuple[int, int, list[str]]:
    """What a process says that is in a group with little memory, when what it started has been killed."""
    arguments = [sys.executable, "-c", WATCHING, log, HUNGRY]
    python = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    enter(group, python.pid)
    said = python.communicate("\n", timeout=LIMIT)[0].splitlines()
    status, pid = map(int, said[0].split())
    return status, pid, said[1:]


def test_a_real_kill_is_counted_in_the_group_of_the_box(group: Path) -> None:
    status, pid, said = watched(group, "/nowhere")
    assert status == -9
    assert said == [
        "Out of memory: the system killed a process while this command ran.",
        f"Out of memory: the system killed a process at that time, most likely this one (pid {pid}).",
        "None",
    ]


@pytest.mark.skipif(not readable_log(), reason="the kernel's log cannot be read here")
def test_a_real_kill_is_found_in_the_log(group: Path) -> None:
    _, pid, said = watched(group, "/dev/kmsg")
    killed = rf"Out of memory: the system killed python\S* \(pid {pid}, \d+(\.\d)? MB\)"
    assert re.fullmatch(rf"{killed}, which this command had started\.", said[0]), said
    assert re.fullmatch(rf"{killed}\.", said[1]), said
    assert said[2] == "None"


@contextlib.contextmanager
def confined_box(group: Path, workspace: Path) -> Iterator[RunningBox]:
    """A box that is in the group as a whole, as in a container with little memory."""
    serve = [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(workspace)]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(workspace.parent),
        "SESSION_API_KEY": KEY,
        "GLOVEBOX_VIEWER_URL_FILE": str(workspace.parent / "viewer-url"),
    }
    process = subprocess.Popen(
        ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(group), *serve],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        try:
            box = RunningBox(process, announced(process), KEY, workspace)
            with box.client:
                yield box
        finally:
            process.terminate()


def test_a_box_that_is_short_of_memory_names_what_was_killed_and_lives_on(tmp_path: Path) -> None:
    limit = 300 << 20
    with memory_group(limit) as group, confined_box(group, tmp_path / "ws") as box:
        body = {"action": {"action": "run", "args": {"command": HUNGRY}}, "details": True}
        answer = box.client.post("/execute_action", json=body).json()
        suffix = answer["extras"]["metadata"]["suffix"]
        oom = answer["details"]["command"]["oom"]
        assert oom.startswith("Out of memory: the system killed ")
        assert suffix == f"\n[The command completed with exit code 137.]\n[{oom}]"
        assert box.run("echo on") == "on"
        told = box.client.get("/metrics/system?count=1").text.partition("data: ")[2]
        memory = msgspec.json.decode(told, type=SystemSample).memory
        assert memory.group is not None
        assert memory.group.limit == limit
        assert 0 < memory.group.used <= limit
