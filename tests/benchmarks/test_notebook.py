"""The measures of the notebook see what really happened."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import psutil
import pytest
from benchmarks.competitors import Competitor, Unavailable
from benchmarks.dialects import Site
from benchmarks.load import LoadError
from benchmarks.notebook.asking import ask, first_cell
from benchmarks.notebook.busy import all_cores_busy
from benchmarks.notebook.cells import KINDS, measure_lost_cells
from benchmarks.notebook.start import measure_notebook_starts
from benchmarks.notebook.stream import first_output
from benchmarks.notebook.timeout import overshoot
from benchmarks.openhands import OpenHands
from benchmarks.processes import living
from benchmarks.servers import Target
from benchmarks.terminal.box import fresh_box

from benchmarks import plan as plans
from tests.support.running import wait_until

ROOT = Path(__file__).parent.parent.parent
LOST = "[Code executed successfully with no output]"
#: What a streamed cell prints.
BOTH = "first 3\nlast 3"
PLAN = plans.quick(frozenset(["notebook"])).notebook


def nothing(text: str) -> None:
    """Say it to nobody."""


def observation(content: str) -> str:
    return json.dumps({"observation": "run_ipython", "content": content})


def answer(content: str) -> bytes:
    body = observation(content).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)


TIMED_OUT = answer("[Execution timed out (1.0 seconds).]")


def stream(*events: tuple[str, str]) -> bytes:
    text = "".join(f"event: {name}\ndata: {data}\n\n" for name, data in events).encode()
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(text), text)


def printed(text: str) -> tuple[str, str]:
    return "output", json.dumps({"text": text})


@contextmanager
def server_that_answers(*answers: bytes) -> Iterator[Target]:
    """A server that gives one of these answers per connection, and the last one to all that follow."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener, answers))
        serving.start()
        site = Site(listener.getsockname(), "key", "/nowhere")
        try:
            yield Target("glovebox", site, OpenHands(site))
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join()


def serve(listener: socket.socket, answers: Sequence[bytes]) -> None:
    for turn in range(1_000_000):
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            if connection.recv(65536):
                connection.sendall(answers[min(turn, len(answers) - 1)])


def test_only_the_text_of_a_cell_is_a_right_answer_to_it() -> None:
    cell = OpenHands(Site(("127.0.0.1", 1), "key", "/nowhere")).cell("print(12)", "12")
    assert cell.accepts(200, observation("12").encode())
    for content in (LOST, "1", "12\n12"):
        assert not cell.accepts(200, observation(content).encode())
    assert not cell.accepts(500, observation("12").encode())


@pytest.mark.parametrize("kinds", [list(KINDS), list(KINDS)[:2], *([kind] for kind in KINDS)])
def test_no_two_cells_in_a_row_show_the_same(kinds: Sequence[str]) -> None:
    shown = [KINDS[kinds[number % len(kinds)]](number)[1] for number in range(1_000)]
    assert all(before != after for before, after in pairwise(shown))


def test_a_cell_whose_answer_is_lost_once_is_asked_again() -> None:
    with server_that_answers(answer(LOST), answer("1")) as target:
        first_cell(target)


def test_a_server_without_a_kernel_is_not_measured() -> None:
    with server_that_answers(answer(LOST)) as target, pytest.raises(Unavailable, match="no output"):
        first_cell(target)


def test_every_lost_cell_is_counted_and_the_aim_missed() -> None:
    with server_that_answers(answer(LOST)) as target:
        found = measure_lost_cells(target, [], PLAN, nothing)
    counted = [(row.cells["glovebox"].values, row.cells["glovebox"].out_of) for row in found.rows]
    assert counted == [((PLAN.checked_cells,), PLAN.checked_cells), ((PLAN.busy_cells,), PLAN.busy_cells)]
    assert [aim.reached for aim in found.aims] == [False, False]


def test_the_first_output_is_timed_if_the_rest_comes_as_it_should() -> None:
    told = stream(printed("first 3\n"), printed("last 3\n"), ("observation", observation(BOTH)))
    with server_that_answers(told) as target:
        assert first_output(target, 3) > 0


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (
            [printed("first 3\nlast 3\n"), ("observation", observation("first 3\nlast 3"))],
            "while the cell ran",
        ),
        ([("observation", observation("first 3\nlast 3"))], "while the cell ran"),
        ([printed("first 3\n"), ("observation", observation("first 3\nlast 3"))], "streamed"),
        ([printed("first 3\n"), printed("last 3\n"), ("observation", observation(LOST))], "answered"),
        ([printed("first 3\n"), ("error", "{}")], "an error"),
        ([printed("first 3\n")], "without an observation"),
    ],
)
def test_a_stream_that_is_late_or_incomplete_is_no_result(
    events: Sequence[tuple[str, str]], problem: str
) -> None:
    with server_that_answers(stream(*events)) as target, pytest.raises(LoadError, match=problem):
        first_output(target, 3)


def test_a_cell_is_late_by_what_its_answer_and_the_next_come_after_the_limit() -> None:
    with server_that_answers(answer("7"), TIMED_OUT, answer("7")) as target:
        began = perf_counter()
        late, ready = overshoot(target, 7)
        took = 1000 * (perf_counter() - began)
    assert late < ready <= took - 1000


@pytest.mark.parametrize(
    ("answers", "problem"),
    [((answer(LOST),), "no output"), ((TIMED_OUT, answer("NameError")), "NameError")],
)
def test_a_cell_past_its_limit_has_to_say_so_and_leave_its_variables(
    answers: Sequence[bytes], problem: str
) -> None:
    with server_that_answers(answer("7"), *answers) as target, pytest.raises(LoadError, match=problem):
        overshoot(target, 7)


def test_all_cores_are_busy_and_then_nobody_is() -> None:
    with all_cores_busy() as pids:
        assert len(pids) == len(os.sched_getaffinity(0))
        spinning = [psutil.Process(pid) for pid in pids]
        wait_until(lambda: all(one.cpu_times().user > 0 for one in spinning), what="processes that compute")
    assert not any(one.is_running() for one in spinning)


def test_spinning_ends_when_the_benchmark_is_killed() -> None:
    script = (
        "import os, signal\nfrom benchmarks.notebook.busy import all_cores_busy\n"
        "with all_cores_busy() as pids:\n"
        "    print(*pids, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    finished = subprocess.run([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in finished.stdout.split()]
    assert pids
    wait_until(lambda: not any(map(runs, pids)), what="the end of all that spin")


def runs(pid: int) -> bool:
    try:
        return bool(living([psutil.Process(pid)]))
    except psutil.NoSuchProcess:
        return False


class EndsAtOnce(Competitor):
    """A server that does not start."""

    name = "reference"

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        return ["sh", "-c", "echo no kernel today; exit 1"]

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        return {}


def test_a_server_that_does_not_start_leaves_its_reason_in_the_table() -> None:
    found = measure_notebook_starts([EndsAtOnce()], PLAN, nothing)
    rows = {row.measure: row.cells for row in found.rows}
    assert rows["notebook: start to first `/alive` answer, no plugins"]["glovebox"].values[0] > 0
    reasons = [cells["reference"].reason for measure, cells in rows.items() if "no plugins" not in measure]
    assert reasons == ["ended at start: no kernel today"] * 3
    assert [aim.reached for aim in found.aims] == [None, None, None]


def test_a_box_without_the_plugin_runs_no_cells() -> None:
    with fresh_box() as box, pytest.raises(LoadError, match="wrong answer to a cell: HTTP 500"):
        ask(box.target, OpenHands(box.site).cell("print(1)", "1"))
