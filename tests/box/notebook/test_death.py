"""Kernels that end, and what agents are told of it."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator

import pytest

from tests.box.notebook.cells import Asking, Cells
from tests.box.system.memory_group import enter, memory_group
from tests.server.reading import following, messages, until
from tests.support.running import RunningBox, wait_until

DIED = (
    "[The kernel died while it ran this cell: {}. The next cell starts a new kernel; its variables are gone.]"
)
NEW = (
    "[The kernel had ended before this cell: {}. This cell ran in a new kernel; earlier variables are gone.]"
)
KILLED = "killed by signal 9 (SIGKILL), possibly for lack of memory"


@pytest.fixture
def mortal(shared_notebook: RunningBox) -> Iterator[Cells]:
    """A kernel that may die, of which nobody has told yet."""
    cells = Cells(shared_notebook, f"mortal-{uuid.uuid4().hex[:8]}")
    cells.run("kept = 1")
    yield cells
    shared_notebook.client.delete(f"/kernels/{cells.kernel}")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('so far'); import os; os._exit(3)", "exit status 3"),
        ("print('so far'); import os; os.kill(os.getpid(), 9)", KILLED),
        (
            "print('so far', flush=True); import ctypes, time; time.sleep(0.1); ctypes.string_at(0)",
            "killed by signal 11 (SIGSEGV)",
        ),
    ],
)
def test_the_cell_that_a_kernel_dies_with_is_answered_with_what_it_printed_and_why(
    mortal: Cells, code: str, reason: str
) -> None:
    assert mortal.run(code) == f"so far\n{DIED.format(reason)}"
    assert mortal.info()["state"] == "dead"
    assert mortal.run("print('kept' in globals())") == "False"


def test_a_kernel_that_is_killed_for_want_of_memory_says_so(mortal: Cells) -> None:
    with memory_group(150_000_000) as group:
        enter(group, mortal.info()["pid"])
        content = mortal.run(
            "print('so far', flush=True); kept = bytearray(b'x') * 1_000_000_000", timeout=60
        )
        assert content.startswith("so far\n[The kernel died while it ran this cell: ")
        assert "Out of memory: the system killed" in content
        assert mortal.run("'kept' in globals()") == "False"


def test_the_two_usual_lines_follow(mortal: Cells) -> None:
    lines = mortal.observation("import os; os._exit(1)", extra=True)["content"].splitlines()
    assert lines[0] == DIED.format("exit status 1")
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "[Jupyter current working directory", "[Jupyter Python interpreter",
    ]  # fmt: skip


def test_a_kernel_that_dies_between_cells_is_told_of_with_the_next_one_and_only_then(mortal: Cells) -> None:
    os.kill(mortal.info()["pid"], signal.SIGKILL)
    with following(mortal.box, "/events?kinds=kernel") as response:
        told = until(messages(response), "kernel", f'"{mortal.kernel}","what":"died"')[-1].json
    assert (told["kernel"], told["reason"]) == (mortal.kernel, KILLED)
    assert mortal.run("print('new')") == f"new\n{NEW.format(KILLED)}"
    assert mortal.run("print('new')") == "new"
    assert mortal.info()["restarts"] == 1


def test_exit_ends_the_kernel_and_says_so(mortal: Cells) -> None:
    answer = mortal.run("print('bye'); exit()")
    assert answer == (
        "bye\n[The cell ended the kernel. The next cell starts a new kernel; its variables are gone.]"
    )
    assert mortal.run("print('kept' in globals())") == "False"


def test_a_restart_answers_the_running_cell_and_the_waiting_one_runs_in_the_new_kernel(
    mortal: Cells, tmp_path: object
) -> None:
    first = Asking(
        mortal, f"print('a', flush=True); open('{tmp_path}/running', 'w'); import time; time.sleep(60)"
    )
    wait_until(lambda: os.path.exists(f"{tmp_path}/running"), what="the first cell")
    second = Asking(mortal, "print('kept' in globals())")
    answer = mortal.box.client.post(f"/kernels/{mortal.kernel}/restart")
    assert (answer.status_code, answer.json()["restarts"]) == (200, 1)
    assert first.content() == (
        "a\n[The kernel was restarted while it ran this cell; its variables are gone.]"
    )
    assert second.content().splitlines()[0] == "False"
    assert mortal.info()["state"] in ("idle", "busy")


def test_a_kernel_that_is_ended_while_it_runs_a_cell_answers_it(mortal: Cells, tmp_path: object) -> None:
    running = Asking(mortal, f"open('{tmp_path}/running', 'w'); import time; time.sleep(60)")
    wait_until(lambda: os.path.exists(f"{tmp_path}/running"), what="the cell")
    pid = mortal.info()["pid"]
    assert mortal.box.client.delete(f"/kernels/{mortal.kernel}").status_code == 204
    assert running.content() == "[The kernel was ended while it ran this cell; its variables are gone.]"
    assert not os.path.exists(f"/proc/{pid}")


def test_everything_printed_before_the_death_is_there(mortal: Cells) -> None:
    code = "for i in range(20_000): print(i)\nimport os; os._exit(0)"
    lines = mortal.run(code).splitlines()
    assert lines[:-1] == [str(number) for number in range(20_000)]
