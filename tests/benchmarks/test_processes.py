"""Whatever a server started is found and ended."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import psutil
import pytest
from benchmarks.memory import pss
from benchmarks.processes import MARK, end, family, in_child, living

#: Starts a grandchild in a session of its own and ends, so that nothing but the mark leads to it.
LEAVES_A_DAEMON = """
import subprocess
child = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""


class WorkError(Exception):
    pass


def daemon_with_mark(mark: str) -> int:
    shown = subprocess.check_output([sys.executable, "-c", LEAVES_A_DAEMON], env={**os.environ, MARK: mark})
    return int(shown)


def test_a_daemon_that_left_its_parent_is_found_by_its_mark_and_ended() -> None:
    mark = uuid.uuid4().hex
    pid = daemon_with_mark(mark)
    found = family(None, mark)
    assert [process.pid for process in found] == [pid]
    assert pss(found) > 0
    end(found)
    assert not family(None, mark)


def test_another_mark_finds_nothing() -> None:
    mark = uuid.uuid4().hex
    pid = daemon_with_mark(mark)
    try:
        assert not family(None, "somebody else's")
    finally:
        psutil.Process(pid).kill()


def test_a_process_that_will_not_end_politely_is_killed() -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        victim = psutil.Process(process.pid)
        end([victim], patience=0.2)
        assert not living([victim])


def test_work_in_a_child_returns_its_result() -> None:
    assert in_child(lambda: os.getppid(), WorkError, 10) == os.getpid()


def test_an_error_in_a_child_is_raised_here() -> None:
    def fail() -> None:
        raise WorkError("no luck")

    with pytest.raises(WorkError, match="no luck"):
        in_child(fail, WorkError, 10)


def test_a_child_that_hangs_is_an_error_after_the_limit() -> None:
    with pytest.raises(WorkError, match="no result"):
        in_child(lambda: subprocess.run(["sleep", "60"]).returncode, WorkError, 0.1)


def test_a_child_that_dies_is_an_error() -> None:
    with pytest.raises(WorkError, match="ended without a result"):
        in_child(lambda: os._exit(3), WorkError, 10)
