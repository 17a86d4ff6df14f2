"""The runtime for callers that block."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from glovebox import Runtime, SyncRuntime
from glovebox.client.loop import LOOP
from glovebox.errors import BoxUnreachable, DeadlineExceeded, NotConnected
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import ActionOutput, Output
from glovebox.protocol.observations import CmdOutputObservation
from tests.client.support import OneBox
from tests.support.running import RunningBox, wait_until


def sync_runtime(box: RunningBox) -> SyncRuntime:
    return SyncRuntime(OneBox(box.url), timeout=60)


def test_every_method_has_its_blocking_twin() -> None:
    for name, member in inspect.getmembers(Runtime):
        if name.startswith("_") or name == "connection":
            continue
        twin = getattr(SyncRuntime, name, None)
        assert twin is not None, name
        if callable(member):
            assert not inspect.iscoroutinefunction(twin), name
            assert twin.__doc__ == member.__doc__ or name in ("stream", "download"), name
            assert list(inspect.signature(twin).parameters) == list(inspect.signature(member).parameters), (
                name
            )


def test_a_box_is_used_by_a_caller_that_blocks(box: RunningBox, tmp_path: Path) -> None:
    with sync_runtime(box) as runtime:
        assert runtime.run("echo hello").content == "hello"
        assert runtime.run("echo hello", is_static=True).content == "hello"
        runtime.write("a.txt", "text")
        assert runtime.read("a.txt").content == "text\n"
        assert runtime.alive()
        assert runtime.url == box.url
        assert runtime.runtime_initialized
        assert b"uptime" in runtime.call("GET", "/server_info")
        with pytest.raises(DeadlineExceeded):
            runtime.call("GET", "/events", limit=0.1)
    with pytest.raises(NotConnected):
        runtime.run("true")
    runtime.close()


def test_streams_are_plain_iterators(box: RunningBox, tmp_path: Path) -> None:
    with sync_runtime(box) as runtime:
        seen = list(runtime.stream(CmdRunAction(command="echo one; echo two")))
        assert "".join(item.text for item in seen if isinstance(item, Output)).split() == ["one", "two"]
        assert isinstance(seen[-1], CmdOutputObservation)
        for item in runtime.stream(CmdRunAction(command="echo left; while [ ! -e go ]; do sleep 0.02; done")):
            if isinstance(item, Output):
                break
        (tmp_path / "go").touch()
        for event in runtime.events():
            if isinstance(event, ActionOutput) and "left" in event.text:
                break
        assert b"".join(runtime.download("/server_info")).startswith(b"{")


def test_threads_share_a_runtime(box: RunningBox) -> None:
    with sync_runtime(box) as runtime, ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda n: runtime.run(f"echo {n}", is_static=True).content, range(16))
        assert list(results) == [str(n) for n in range(16)]


async def test_it_works_inside_of_an_event_loop(box: RunningBox) -> None:
    with sync_runtime(box) as runtime:
        assert runtime.run("echo here").content == "here"
    await asyncio.sleep(0)


def test_a_callback_cannot_wait_for_itself(box: RunningBox) -> None:
    def ask(level: str, status: str, message: str) -> None:
        runtime.run("true")

    runtime = SyncRuntime(OneBox(box.url), status_callback=ask)
    with pytest.raises(RuntimeError, match="wait for itself"):
        runtime.connect()


def test_an_interrupt_cancels_the_call_and_what_follows_works(box: RunningBox, tmp_path: Path) -> None:
    with sync_runtime(box) as runtime:
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            wait_until((tmp_path / "begun").exists)
            signal.pthread_kill(main, signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            runtime.run("touch begun; while [ ! -e go ]; do sleep 0.02; done")
        interrupting.join()
        (tmp_path / "go").touch()
        assert runtime.run("echo next").content == "next"


_LEFT_OPEN = """
import sys
from pathlib import Path
from glovebox import SyncRuntime
from tests.client.support import ServeBackend

runtime = SyncRuntime(ServeBackend(Path(sys.argv[1])))
runtime.connect()
print(runtime.run("echo $$").content, flush=True)
"""


def test_what_is_left_open_is_closed_with_the_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_LEFT_OPEN)
    root = Path(__file__).parent.parent.parent
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        check=True, text=True, stdout=subprocess.PIPE, timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    shell = int(ended.stdout)
    wait_until(lambda: not Path(f"/proc/{shell}").exists(), what="the end of the shell")


def test_a_forked_process_has_its_own_loop(box: RunningBox) -> None:
    code = (
        "import os, sys\n"
        "from glovebox import SyncRuntime\n"
        "from tests.client.support import OneBox\n"
        "with SyncRuntime(OneBox(sys.argv[1])) as runtime:\n"
        "    assert runtime.alive()\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        with SyncRuntime(OneBox(sys.argv[1])) as own:\n"
        "            print(own.run('echo forked').content, flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "    print(runtime.run('echo parent').content, flush=True)\n"
    )
    root = Path(__file__).parent.parent.parent
    ended = subprocess.run(
        [sys.executable, "-c", code, box.url],
        check=True, text=True, stdout=subprocess.PIPE, timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert ended.stdout.split() == ["forked", "parent"]


def test_an_iterator_that_is_collected_in_the_thread_of_the_loop_is_closed(box: RunningBox) -> None:
    with sync_runtime(box) as runtime:
        left = [runtime.events()]
        next(left[0])
        done = threading.Event()

        async def collect() -> None:
            left.clear()
            done.set()

        LOOP.run(collect())
        assert done.is_set()
        assert runtime.alive()


def test_an_address_where_nothing_listens_is_told_of_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(BoxUnreachable, match=r"127\.0\.0\.1:1"), SyncRuntime("http://127.0.0.1:1"):
        pass
    assert time.monotonic() - begun < 60  # it was two minutes
