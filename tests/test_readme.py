"""The commands of the README do what it says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
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

        run, write, grep, download, startup = commands
        assert json.loads(shell(run))["content"] == str(tmp_path / "workspace" / "demo")
        assert json.loads(shell(write))["extras"]["path"] == str(tmp_path / "workspace" / "demo" / "hello.py")
        assert json.loads(shell(grep))["extras"]["total"] == 1
        shell(download)
        assert json.loads(shell(startup))["ready"] is True
    with zipfile.ZipFile(tmp_path / "demo.zip") as archive:
        assert archive.read("hello.py") == b'print("hello")\n'
