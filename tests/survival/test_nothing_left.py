"""No process of a box is alive a few seconds after it was stopped, whatever it was doing."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from benchmarks.processes import living

from tests.support.running import RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT

STUBBORN_CELL = """
import os, signal, subprocess, threading, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(
    ["setsid", "sh", "-c", "trap '' TERM HUP INT; (setsid sleep 1000 &) ; while :; do sleep 1000; done"])
threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)]).start()
open("kernel-busy", "w").write("x")
while True:
    try:
        time.sleep(1000)
    except BaseException:
        pass
"""
STUBBORN_COMMAND = (
    "trap '' TERM HUP INT; setsid nohup sh -c \"trap '' TERM HUP; while :; do sleep 1000; done\" & "
    "(setsid sleep 1000 &); python3 -c 'import os,time; os.fork() or os.setsid(); time.sleep(1000)' & "
    "touch command-busy; while :; do sleep 1000; done"
)


#: Has a script that does not end.
STUBBORN_PAGE = "data:text/html,<title>Busy</title><script>setTimeout(() => { for (;;); }, 100)</script>"
#: Seconds of a processor that no page takes which has nothing to do.
BUSY = 1.0


def fill(box: RunningBox) -> list[psutil.Process]:
    """Have the box do things that do not want to end; all its processes."""
    for action, args in (
        ("browse_interactive", {"browser_actions": f'goto("{STUBBORN_PAGE}")'}),
        ("run_ipython", {"code": STUBBORN_CELL}),
        ("run_ipython", {"code": "import time; time.sleep(1000)", "kernel": "other"}),
        ("run", {"command": STUBBORN_COMMAND}),
        ("run", {"command": "cat", "session": "waiting"}),
    ):
        envelope = {"action": {"action": action, "args": args}}
        with box.client.stream("POST", "/execute_action_stream", json=envelope):
            pass  # the action goes on without whoever asked for it
    for mark in ("kernel-busy", "command-busy"):
        wait_until((box.workspace / mark).exists, what=mark)
    wait_until(lambda: len(box.client.get("/sessions").json()) == 2, what="the second session")
    wait_until(lambda: "sleep 1000" in names(box), what="its processes")
    wait_until(lambda: is_page_busy(box), what="a busy page")
    return [psutil.Process(box.process.pid), *psutil.Process(box.process.pid).children(recursive=True)]


def names(box: RunningBox) -> str:
    return "\n".join(lines(box).values())


def lines(box: RunningBox) -> dict[psutil.Process, str]:
    """The processes of a box, with what they were started with."""
    found = {}
    for process in psutil.Process(box.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found[process] = " ".join(process.cmdline())
    return found


def is_page_busy(box: RunningBox) -> bool:
    pages = [process for process, line in lines(box).items() if "--type=renderer" in line]
    with contextlib.suppress(psutil.Error):
        return any(page.cpu_times().user > BUSY for page in pages)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_box_that_was_stopped(tmp_path: Path, number: signal.Signals) -> None:
    with running_box(tmp_path / "ws", "--plugins", "agent_skills", "jupyter", "vscode") as box:
        processes = fill(box)
        assert len(processes) > 10, processes
        box.process.send_signal(number)
        box.process.wait(LIMIT)
        wait_until(lambda: not living(processes), what="the end of all processes")


def test_nothing_is_left_of_a_box_that_is_stopped_while_its_plugins_start(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--plugins", "jupyter", "agent_skills") as box:
        server = psutil.Process(box.process.pid)
        wait_until(lambda: "ipykernel" in names(box), what="the kernel")
        processes = [server, *server.children(recursive=True)]
        box.process.terminate()
        box.process.wait(LIMIT)
        wait_until(lambda: not living(processes), what="the end of all processes")


def test_many_sessions_end_together(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box:

        def open_session(number: int) -> int:
            shown = box.run("setsid sleep 1000 & echo shell $$", session=f"session{number}")
            return int(re.findall(r"shell (\d+)", shown)[0])

        with ThreadPoolExecutor(4) as threads:
            shells = list(threads.map(open_session, range(60)))
        assert len(set(shells)) == 60
        processes = psutil.Process(box.process.pid).children(recursive=True)
        assert len(processes) > 120
        began = time.monotonic()
        box.process.terminate()
        assert box.process.wait(LIMIT) == 0
        assert time.monotonic() - began < 20
        wait_until(lambda: not living(processes), what="the end of all processes")


def test_a_holder_that_does_not_answer_ends_with_the_box(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box:
        shell = psutil.Process(int(box.run("echo $$")))
        holder = shell.parent()
        assert holder is not None
        holder.suspend()
        box.process.terminate()
        box.process.wait(LIMIT)
        wait_until(lambda: not living([holder, shell]), what="the end of both")
