"""How kernels start, and what is said of those that do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.box.notebook.cells import Cells
from tests.support.running import RunningBox, running_box, wait_until


def failure(box: RunningBox) -> str:
    """Why the plugin did not start."""

    def info() -> dict[str, Any]:
        plugins = {one["name"]: one for one in box.client.get("/plugins").json()}
        found: dict[str, Any] = plugins["jupyter"]
        return found

    wait_until(lambda: info()["state"] == "failed", what="the failure")
    return str(info()["error"])


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def with_python(tmp_path: Path, python: str) -> str:
    options = ("--plugins", "jupyter", "--plugin-options", f"jupyter.python={python}")
    with running_box(tmp_path / "workspace", *options) as box:
        return failure(box)


def test_a_python_without_ipykernel_is_named_with_what_to_install(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = f"{tmp_path}/bare/bin/python"
    said = with_python(tmp_path, python)
    assert f"{python} has no ipykernel. Install it there: {python} -m pip install ipykernel" in said


def test_a_kernel_that_ends_at_its_start_is_told_of_with_what_it_printed(tmp_path: Path) -> None:
    said = with_python(tmp_path, script(tmp_path / "python", "echo cannot do this >&2; exit 4"))
    assert "The kernel ended at its start (exit status 4): cannot do this" in said


def test_an_interpreter_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    assert "exit status 127 (not found)" in with_python(tmp_path, f"{tmp_path}/nowhere/python")


def test_a_cell_that_comes_before_the_kernel_waits_for_it(tmp_path: Path) -> None:
    python = script(tmp_path / "python", f'sleep 1; exec {sys.executable} "$@"')
    options = ("--plugins", "jupyter", "--plugin-options", f"jupyter.python={python}")
    with running_box(tmp_path / "workspace", *options) as box:
        assert Cells(box).run("print('waited')") == "waited"


def test_a_cell_that_times_out_before_the_kernel_is_there_says_so(tmp_path: Path) -> None:
    with running_box(tmp_path / "workspace", "--plugins", "jupyter") as box:
        slow = Cells(box, "slow")
        Cells(box).run("pass")
        answer = slow.run("print('never')", timeout=0.01).splitlines()
        assert answer == [
            "[Execution timed out (0.01 seconds).]",
            "[The kernel was still starting, and this cell was not run.]",
        ]
        assert slow.run("print('now')") == "now"


def test_kernels_outlive_a_restart_of_the_plugin(tmp_path: Path) -> None:
    with running_box(tmp_path / "workspace", "--plugins", "jupyter") as box:
        cells = Cells(box)
        cells.run("kept = 1")
        pid = cells.info()["pid"]
        assert box.client.post("/plugins/jupyter/restart").status_code == 200
        assert cells.run("print(kept)") == "1"
        assert cells.info()["pid"] == pid


def test_a_directory_with_a_long_path_makes_kernels_talk_over_ports(tmp_path: Path) -> None:
    place = tmp_path / ("long" * 30)
    place.mkdir()
    environment = {"GLOVEBOX_STATE_DIR": str(tmp_path / "s"), "TMPDIR": str(place)}
    with running_box(tmp_path / "workspace", "--plugins", "jupyter", environment=environment) as box:
        cells = Cells(box)
        found = cells.run("print(open([a for a in sys.argv if a.endswith('.json')][0]).read())")
        assert json.loads(found)["transport"] == "tcp"


def test_the_notebook_can_be_imported_where_jupyter_is_not_installed() -> None:
    code = """
import sys
missing = ('jupyter_client', 'jupyter_core', 'zmq', 'ipykernel', 'IPython', 'traitlets')
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in missing:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import glovebox.box.notebook.plugin
"""
    subprocess.run([sys.executable, "-c", code], check=True)
