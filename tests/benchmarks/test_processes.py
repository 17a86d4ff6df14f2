"""Whatever the benchmark started is found and ended, and what dies or hangs is reported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

import psutil
import pytest
from benchmarks.peers.openhands import fresh_box
from benchmarks.processes import MARK, Failed, end, family, in_child, living, pss

#: Starts a grandchild in a session of its own and ends, so that nothing but the mark leads to it.
LEAVES_A_DAEMON = """
import subprocess
child = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""


def test_a_daemon_that_left_its_parent_is_found_by_its_mark_and_ended() -> None:
    mark = uuid.uuid4().hex
    command = [sys.executable, "-c", LEAVES_A_DAEMON]
    pid = int(subprocess.check_output(command, env={**os.environ, MARK: mark}))
    assert not family(None, "another mark")
    found = family(None, mark)
    assert [process.pid for process in found] == [pid]
    assert pss(found) > 0
    end(found)
    assert not family(None, mark)


def test_a_process_that_ignores_sigterm_is_killed() -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        victim = psutil.Process(process.pid)
        end([victim], patience=0.2)
        assert not living([victim])


def test_work_in_a_child_returns_its_result_or_the_reason_of_its_failure() -> None:
    def fail() -> None:
        raise Failed("no luck")

    assert in_child(os.getppid, 10) == os.getpid()
    with pytest.raises(Failed, match="no luck"):
        in_child(fail, 10)
    with pytest.raises(Failed, match="no result within"):
        in_child(lambda: time.sleep(60), 0.1)
    with pytest.raises(Failed, match="ended without a result"):
        in_child(lambda: os._exit(3), 10)


def test_a_box_and_its_holder_and_its_shells_are_ended() -> None:
    with fresh_box() as box:
        for request in (box.api.session("other"), box.api.echo("hello", "other")):
            box.ask(request)
        assert {box.shell().ppid(), box.shell("other").ppid()} == {box.holder.pid}
        processes, folder = box.processes(), box.folder
        assert {box.server, box.holder, box.shell()} <= processes
    assert not living(processes)
    assert not folder.exists()
