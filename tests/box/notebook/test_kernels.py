"""Kernels by name, of any language, over HTTP."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.box.notebook.cells import Asking, Cells
from tests.support.running import RunningBox, running_box, wait_until

ECHO = '''
"""A kernel that is not Python: it says what it gets."""
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel


class EchoKernel(Kernel):
    implementation = banner = "echo"
    implementation_version = language_version = "1"
    language_info = {"name": "echo", "mimetype": "text/plain", "file_extension": ".txt"}

    async def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False,
                         *, cell_meta=None, cell_id=None):
        self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": code.upper()})
        return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}


IPKernelApp.launch_instance(kernel_class=EchoKernel)
'''


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers["x-glovebox-error"]


@pytest.fixture
def other(shared_notebook: RunningBox) -> Iterator[Cells]:
    yield Cells(shared_notebook, "other")
    shared_notebook.client.delete("/kernels/other")


def test_a_kernel_is_opened_used_and_ended(other: Cells, tmp_path: Path) -> None:
    client = other.box.client
    made = client.post("/kernels", json={"name": "other", "cwd": str(tmp_path)})
    assert made.status_code == 201
    info = made.json()
    assert (info["name"], info["spec"], info["language"], info["state"]) == (
        "other", "python3", "python", "idle",
    )  # fmt: skip
    assert other.run("print(os.getcwd())") == str(tmp_path)
    assert {one["name"] for one in client.get("/kernels").json()} >= {"main", "other"}
    assert os.path.exists(f"/proc/{info['pid']}")
    ended = client.delete("/kernels/other")
    assert (ended.status_code, ended.content) == (204, b"")
    assert not os.path.exists(f"/proc/{info['pid']}")
    assert problem(client.get("/kernels/other")) == (404, "no_such_kernel")


def test_a_name_that_is_not_known_opens_a_kernel_with_variables_of_its_own(
    notebook: Cells, other: Cells
) -> None:
    notebook.run("whose = 'main'")
    assert other.run("print('whose' in globals())") == "False"
    other.run("whose = 'other'")
    assert (notebook.run("print(whose)"), other.run("print(whose)")) == ("main", "other")


def test_cells_of_different_kernels_run_at_the_same_time(
    notebook: Cells, other: Cells, tmp_path: Path
) -> None:
    meeting = (
        "import os, time\nopen({mine!r}, 'w')\nwhile not os.path.exists({theirs!r}): time.sleep(0.01)\n"
        "print('met')"
    )
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    first = Asking(notebook, meeting.format(mine=one, theirs=two))
    second = Asking(other, meeting.format(mine=two, theirs=one))
    assert (first.content(), second.content()) == ("met", "met")


def test_the_first_cells_of_a_new_kernel_share_it(other: Cells) -> None:
    cells = [Asking(other, "print(os.getpid())") for _ in range(4)]
    assert len({cell.content() for cell in cells}) == 1


def test_an_interrupt_stops_the_running_cell(notebook: Cells, tmp_path: Path) -> None:
    running = Asking(notebook, f"open('{tmp_path}/running', 'w'); import time; time.sleep(60)")
    wait_until((tmp_path / "running").exists)
    cell = notebook.info()["cell"]
    answer = notebook.box.client.post("/kernels/main/interrupt")
    assert answer.status_code == 200
    assert "KeyboardInterrupt" in running.content()
    ended = notebook.record(cell)["cell"]
    assert (ended["status"], ended["error"]) == ("interrupted", "KeyboardInterrupt")


def test_interrupting_a_kernel_that_does_nothing_does_no_harm(notebook: Cells) -> None:
    assert notebook.box.client.post("/kernels/main/interrupt").status_code == 200
    assert notebook.run("print('fine')") == "fine"


def test_a_restart_loses_variables(other: Cells) -> None:
    other.run("kept = 1")
    pid = other.info()["pid"]
    assert other.box.client.post("/kernels/other/restart").json()["pid"] != pid
    assert not os.path.exists(f"/proc/{pid}")
    assert other.run("print('kept' in globals())").splitlines() == [
        "False",
        "[The kernel had ended before this cell: it was restarted. "
        "This cell ran in a new kernel; earlier variables are gone.]",
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "request_invalid"),
        ([], "request_invalid"),
        ({"name": 5}, "request_invalid"),
        ({"name": "a", "colour": "red"}, "request_invalid"),
        ({"name": ""}, "bad_kernel"),
        ({"name": "../up"}, "bad_kernel"),
        ({"name": "a" * 65}, "bad_kernel"),
        ({"name": "ünïcode"}, "bad_kernel"),
        ({"name": "a", "cwd": "/not/there"}, "bad_kernel"),
        ({"name": "a", "cwd": "nul\0l"}, "bad_kernel"),
        ({"name": "a", "spec": "nope"}, "bad_kernel"),
        ({"name": "a", "spec": "../../etc"}, "bad_kernel"),
    ],
)
def test_a_kernel_that_cannot_be_is_refused(shared_notebook: RunningBox, body: Any, code: str) -> None:
    assert problem(shared_notebook.client.post("/kernels", json=body)) == (422, code)
    assert "a" not in [one["name"] for one in shared_notebook.client.get("/kernels").json()]


def test_an_unknown_kernelspec_is_answered_with_the_known_ones(shared_notebook: RunningBox) -> None:
    answer = shared_notebook.client.post("/kernels", json={"name": "a", "spec": "nope"})
    assert answer.json()["detail"] == "There is no kernelspec 'nope'. Known ones: python3."


def test_a_name_that_is_taken_is_refused(notebook: Cells) -> None:
    assert problem(notebook.box.client.post("/kernels", json={"name": "main"})) == (409, "kernel_exists")


def test_a_bad_name_in_the_action_is_an_error_of_the_action(notebook: Cells) -> None:
    body = {"action": {"action": "run_ipython", "args": {"code": "1", "kernel": "a/b"}}}
    answer = notebook.box.client.post("/execute_action", json=body)
    assert problem(answer) == (500, "bad_kernel")


@pytest.mark.parametrize("path", ["/kernels/nope", "/kernels/nope/interrupt", "/kernels/nope/restart"])
def test_an_unknown_kernel_is_404(notebook: Cells, path: str) -> None:
    method = "GET" if path.endswith("nope") else "POST"
    assert problem(notebook.box.client.request(method, path)) == (404, "no_such_kernel")


def test_the_health_and_the_number_of_kernels_are_told(notebook: Cells) -> None:
    plugins = {one["name"]: one for one in notebook.box.client.get("/plugins").json()}
    health = plugins["jupyter"]["health"]
    assert health["kernel"] == "idle"
    assert health["pid"] == notebook.info()["pid"]


@pytest.fixture(scope="module")
def languages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box with a kernelspec of another language, which talks over ports."""
    directory = tmp_path_factory.mktemp("languages")
    spec = directory / "data" / "kernels" / "echo"
    spec.mkdir(parents=True)
    (directory / "echo.py").write_text(textwrap.dedent(ECHO))
    arguments = [sys.executable, str(directory / "echo.py"), "-f", "{connection_file}"]
    described = {"argv": arguments, "display_name": "Echo", "language": "echo", "env": {"ECHO": "1"}}
    (spec / "kernel.json").write_text(json.dumps(described))
    options = ("--plugins", "jupyter", "--plugin-options", "jupyter.transport=tcp")
    environment = {"JUPYTER_PATH": str(directory / "data")}
    with running_box(directory / "workspace", *options, environment=environment) as box:
        yield box


def test_kernels_of_other_languages_have_neither_python_code_nor_the_interpreter_line(
    languages: RunningBox,
) -> None:
    made = languages.client.post("/kernels", json={"name": "loud", "spec": "echo"})
    assert made.status_code == 201, made.text
    assert (made.json()["language"], made.json()["interpreter"]) == ("echo", None)
    cells = Cells(languages, "loud")
    assert cells.run("hello") == "HELLO"
    languages.run("mkdir -p sub; cd sub")
    here = languages.run("pwd")
    assert cells.observation("hello", extra=True)["content"] == (
        f"HELLO\n[Jupyter current working directory: {here}]"
    )


def test_kernelspecs_are_listed(languages: RunningBox) -> None:
    specs = {one["name"]: one["language"] for one in languages.client.get("/kernelspecs").json()}
    assert specs == {"python3": "python", "echo": "echo"}


def test_kernels_may_talk_over_loopback_ports(languages: RunningBox) -> None:
    cells = Cells(languages)
    assert cells.run("print('over tcp')") == "over tcp"
    connection = json.loads(cells.run("print(open([a for a in sys.argv if a.endswith('.json')][0]).read())"))
    assert (connection["transport"], connection["ip"]) == ("tcp", "127.0.0.1")
    assert len(connection["key"]) >= 32
