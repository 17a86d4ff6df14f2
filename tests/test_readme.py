"""The commands of the README do what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.support.running import running_box

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
CURL = re.compile(r"^curl (?:.*\\\n)*.*", re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_five_things_to_try_work_as_they_are_written(tmp_path: Path) -> None:
    commands = CURL.findall(README)
    assert len(commands) == 5
    with running_box(tmp_path / "workspace", key="") as box:

        def shell(command: str) -> str:
            there = command.replace("http://127.0.0.1:8000", box.url)
            done = subprocess.run(
                ["bash", "-c", there], cwd=tmp_path, capture_output=True, text=True, check=True
            )
            return done.stdout

        run, write, program, download, startup = commands
        assert json.loads(shell(run))["output"] == f"{tmp_path / 'workspace' / 'demo'}\n"
        assert json.loads(shell(write))["path"] == str(tmp_path / "workspace" / "demo" / "hello.py")
        assert json.loads(shell(program))["stdout"] == "hello\n"
        shell(download)
        assert json.loads(shell(startup))["ready"] is True
    with zipfile.ZipFile(tmp_path / "demo.zip") as archive:
        assert archive.read("hello.py") == b'print("hello")'


def test_the_python_of_the_readme_starts_a_box_and_works_in_it(tmp_path: Path) -> None:
    # The other one wants a window of VS Code, and is tried in one.
    snippet, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, env=private(tmp_path), capture_output=True, text=True
    )
    [line] = done.stderr.splitlines()
    assert "isolated" in line
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("hello from /")
    assert second.startswith("42 42")


def test_the_python_for_a_window_of_vs_code_is_that_of_the_guide() -> None:
    guide = (Path(__file__).parent.parent / "docs/vscode.md").read_text(encoding="utf-8")
    _, snippet = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (told,) = re.findall(r"```python\n(   from glovebox .*?)```", guide, re.DOTALL)
    assert textwrap.dedent(told).strip() == snippet.strip()


def test_the_command_of_the_readme_ends_with_the_status_of_what_it_ran(tmp_path: Path) -> None:
    line = next(line for line in README.splitlines() if line.startswith(".venv/bin/glovebox run"))
    command = line.partition("#")[0].replace(".venv/bin/glovebox", f"{sys.executable} -m glovebox")
    environment = private(tmp_path) | {"GLOVEBOX_BACKEND": "process"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "hello\n")


def private(home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "SESSION_API_KEY"}
    state = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    return {**inherited, **state, "GLOVEBOX_VIEWER_URL_FILE": str(home / "viewer-url")}
