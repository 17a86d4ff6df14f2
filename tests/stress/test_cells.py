"""Many cells on a machine that is busy with something else: every answer is right, and memory stays flat."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest
from benchmarks.load import Address, Request, drive_through

from tests.support.running import KEY, RunningBox, running_box

CELLS = 5_000
#: Seconds that they may take.
LIMIT = 60.0
KERNELS = ("main", "second")
#: Uses a core until it is killed, or its parent is gone.
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
LARGE = 1_000_000
MEGABYTES = 500
#: What the newest events, records and answers may take, beyond what was there after the first hundred cells.
MOST_GROWTH = 40_000_000


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    with running_box(tmp_path_factory.mktemp("cells") / "workspace", "--plugins", "jupyter") as box:
        box.client.post("/kernels", json={"name": "second"})
        yield box


def cell(host: str, kernel: str, code: str, content: str) -> Request:
    """A cell and the exact answer it must have."""
    args = {"code": code, "kernel": kernel, "include_extra": False}
    body = json.dumps({"action": {"action": "run_ipython", "args": args, "timeout": 60}}).encode()
    head = (
        f"POST /execute_action HTTP/1.1\r\nHost: {host}\r\nX-Session-API-Key: {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )

    def check(status: int, answer: bytes) -> bool:
        return status == 200 and json.loads(answer)["content"] == content

    return Request(head.encode() + body, check)


def script(host: str, kernel: str, count: int) -> list[Request]:
    """Cells of every shape, and a counter that shows each that is lost or run twice."""
    requests = []
    for number in range(count):
        shapes = [
            (f"print({number})", str(number)),
            (f"'{number}'", f"'{number}'"),
            (f"print({number})\n{number} + 1", f"{number}\n{number + 1}"),
            (f"import os; _ = os.system('echo {number}')", str(number)),
            ("count = globals().get('count', 0) + 1; print(count)", str(number // 5 + 1)),
        ]
        requests.append(cell(host, kernel, *shapes[number % len(shapes)]))
    return requests


@pytest.mark.timeout(600)
def test_five_thousand_cells_beside_a_busy_core_are_all_answered_rightly(box: RunningBox) -> None:
    parts = urlsplit(box.url)
    address: Address = (parts.hostname or "", parts.port or 0)
    scripts = [script(parts.netloc, kernel, CELLS // len(KERNELS)) for kernel in KERNELS]
    busy = subprocess.Popen([sys.executable, "-I", "-S", "-c", BUSY])
    try:
        outcome = drive_through(address, scripts, LIMIT)
    finally:
        busy.kill()
        busy.wait()
    assert (outcome.right, outcome.wrong, outcome.unanswered) == (CELLS, 0, 0), outcome.example


@pytest.mark.timeout(600)
def test_five_hundred_cells_with_a_megabyte_each_leave_memory_flat(box: RunningBox) -> None:
    server = psutil.Process(box.process.pid)
    kernel = psutil.Process(box.client.get("/kernels/main").json()["pid"])
    sizes: list[tuple[int, int]] = []
    for number in range(MEGABYTES):
        code = f"print('{number % 10}' * {LARGE})"
        content = box.execute("run_ipython", code=code, include_extra=False)["content"]
        assert content == str(number % 10) * LARGE
        if number in (100, MEGABYTES - 1):
            sizes.append((server.memory_full_info().pss, kernel.memory_full_info().pss))
    for before, after in zip(*sizes, strict=True):
        assert after - before < MOST_GROWTH
