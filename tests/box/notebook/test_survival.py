"""Kernels outlive a server that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import httpx

from tests.support.running import wait_until
from tests.support.waiting import LIMIT
from tests.survival.mortal import MortalBox, mortal_box


def run(box: MortalBox, code: str, kernel: str = "main") -> str:
    observation = box.execute("run_ipython", code=code, kernel=kernel, include_extra=False)
    content: str = observation["content"]
    return content


def kernels(box: MortalBox) -> dict[str, Any]:
    return {one["name"]: one for one in box.get("/kernels").json()}


def test_variables_survive_a_server_that_is_killed(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--plugins", "jupyter") as box:
        run(box, "kept = [1, 2]")
        run(box, "mine = 3", "own_name")
        before = kernels(box)
        state = next(tmp_path.rglob("kernels.json"))
        assert stat.S_IMODE(os.stat(state).st_mode) == 0o600
        assert set(json.loads(state.read_bytes().split(b" ", 2)[2])) == {"main", "own_name"}
        box.kill()
        box.start()
        assert run(box, "print(kept)") == "[1, 2]"
        assert run(box, "print(mine)", "own_name") == "3"
        after = kernels(box)
        for name in ("main", "own_name"):
            for field in ("pid", "spec", "created", "interpreter", "restarts"):
                assert after[name][field] == before[name][field]


def test_a_cell_of_the_earlier_server_is_waited_for(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--plugins", "jupyter") as box:
        code = (
            "import os, time\nopen('running', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)\nx = 7"
        )
        asking = threading.Thread(target=lambda: _ignored(box, code), daemon=True)
        asking.start()
        wait_until((box.workspace / "running").exists, what="the first cell")
        box.kill()
        asking.join(LIMIT)
        box.start()
        wait_until(lambda: kernels(box)["main"]["state"] == "busy", what="the busy kernel")
        threading.Timer(0.3, (box.workspace / "go").touch).start()
        assert run(box, "print(x)") == "7"


def test_a_kernel_that_ended_meanwhile_is_replaced_and_told_of(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--plugins", "jupyter") as box:
        run(box, "kept = 1")
        pid = kernels(box)["main"]["pid"]
        box.kill()
        os.kill(pid, 9)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of the kernel")
        box.start()
        lines = run(box, "print('kept' in globals())").splitlines()
        assert lines[0] == "False"
        assert lines[1].startswith("[The kernel had ended before this cell: ")


def test_kernels_end_with_the_box(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--plugins", "jupyter") as box:
        run(box, "import subprocess; child = subprocess.Popen(['sleep', '1000'])")
        pids = [kernels(box)["main"]["pid"], int(run(box, "print(child.pid)"))]
        box.stop()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), what="their end")
        box.start()


def _ignored(box: MortalBox, code: str) -> None:
    with contextlib.suppress(httpx.HTTPError):
        run(box, code)
