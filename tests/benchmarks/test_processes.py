"""Whatever the benchmark started is found and ended, and what dies or hangs is reported.

Its classes are also the objects of workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from benchmarks.peers.library import Worker
from benchmarks.peers.openhands import fresh_box
from benchmarks.processes import MARK, Failed, end, family, in_child, living, pss

from tests.support.running import wait_until

ROOT = Path(__file__).parents[2]
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


def test_processes_that_keep_cores_busy_end_when_the_benchmark_is_killed() -> None:
    script = (
        "import os, signal\nfrom benchmarks.processes import all_cores_busy\n"
        "with all_cores_busy() as pids:\n"
        "    print(*pids, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    finished = subprocess.run([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in finished.stdout.split()]
    assert len(pids) == len(os.sched_getaffinity(0))
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    wait_until(lambda: not living(processes), 30, "the end of all that spin")


def test_a_box_and_its_holder_and_its_shells_are_ended() -> None:
    with fresh_box() as box:
        for request in (box.api.session("other"), box.api.echo("hello", "other")):
            box.ask(request)
        assert {box.shell().ppid(), box.shell("other").ppid()} == {box.holder.pid}
        processes, folder = box.processes(), box.folder
        assert {box.server, box.holder, box.shell()} <= processes
    assert not living(processes)
    assert not folder.exists()


class Served:
    """The object of a worker."""

    def __init__(self, word: str) -> None:
        self.word = word

    def repeat(self) -> str:
        return self.word

    async def fail(self) -> None:
        raise ValueError("a wrong answer")

    def die(self) -> None:
        print("its last words", flush=True)
        os._exit(1)

    def hang(self) -> None:
        time.sleep(60)

    def close(self) -> None:
        """Nothing is open."""


def worker() -> Worker:
    return Worker("reference", Path(sys.executable), "tests.benchmarks.test_processes", "Served")


def test_a_worker_answers_and_its_errors_are_reported() -> None:
    with worker() as peer:
        peer.wait_ready("hello")
        with pytest.raises(Failed, match="ValueError: a wrong answer"):
            peer.ask("fail")
        assert peer.ask("repeat") == "hello"
        process = psutil.Process(peer.pid)
    assert not living([process])
    assert not peer.folder.exists()


def test_a_worker_that_dies_leaves_its_last_words() -> None:
    with worker() as peer:
        peer.wait_ready("hello")
        with pytest.raises(Failed, match="its last words"):
            peer.ask("die")


def test_a_worker_that_hangs_is_ended_and_its_late_answer_is_not_taken_for_another() -> None:
    with worker() as peer:
        peer.wait_ready("hello")
        with pytest.raises(Failed, match="no answer within 0 s"):
            peer.ask("hang", limit=0.2)
        with pytest.raises(Failed, match="no answer within 0 s to what it was asked before"):
            peer.ask("repeat")
