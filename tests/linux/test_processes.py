"""Processes in /proc, against real ones."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.linux import processes
from glovebox.linux.processes import ProcessTable
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

#: Gives itself a name, starts a child in a session of its own, and waits.
PARENT = """
import os, subprocess, sys
open("/proc/self/comm", "w").write(sys.argv[1])
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


@contextlib.contextmanager
def started(name: str = "parent") -> Iterator[tuple[int, int]]:
    """The process ids of a parent and its child."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, name], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        yield parent.pid, child
    finally:
        parent.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, 9)
        parent.communicate()


@pytest.mark.parametrize("name", ["plain", "a) S 1 2 (b", "))) ((("])
def test_a_name_may_contain_anything(name: str) -> None:
    with started(name) as (pid, child):
        found, other = processes.read(pid), processes.read(child)
        assert found is not None
        assert other is not None
        assert (found.name, found.parent, other.parent) == (name, os.getpid(), pid)
        assert found.group == os.getpgrp()
        assert other.session == other.group == child
        assert found.resident > 1_000_000
        assert found.started <= other.started <= processes.uptime() * processes.TICKS_PER_SECOND
        assert processes.children(pid) == [child]


def test_trees_and_families() -> None:
    with started() as (pid, child):
        wait_until(lambda: processes.arguments(child)[0] == b"sleep", what="the program")
        table = ProcessTable()
        assert {process.pid for process in table.tree([pid])} == {pid, child}
        assert [process.pid for process in table.family(child, ended=False)] == [child]
        assert table.family(child, ended=True) == []


def test_what_has_ended_is_neither_alive_nor_killed() -> None:
    with started() as (pid, child):
        found = ProcessTable().tree([pid])
        processes.kill(one for one in found if one.pid == child)
        wait_until(lambda: not processes.alive(found), what="the end of both")
        ended = processes.read(pid)
        assert ended is not None
        assert ended.ended
        assert processes.arguments(pid) == [b""]
    assert processes.read(pid) is None


def test_long_files_are_read_to_their_end(tmp_path: Path) -> None:
    variables = {f"V{number}": "x" * 1000 for number in range(100)}
    sleep = subprocess.Popen(["sleep", "1000"], env=variables)
    try:
        wait_until(lambda: len(processes.environment(sleep.pid)) > 100, what="the program")
        assert {f"{name}={value}".encode() for name, value in variables.items()} <= set(
            processes.environment(sleep.pid)
        )
    finally:
        sleep.kill()
        sleep.wait()
    assert processes.read_file(str(tmp_path / "missing")) == b""
    (tmp_path / "some").write_bytes(b"a" * 100_000)
    assert processes.read_file(str(tmp_path / "some"), 50_000) == b"a" * 50_000
