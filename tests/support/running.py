"""A real box in a process of its own, as users start it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.support.waiting import LIMIT
from tests.support.waiting import wait_until as wait_until

KEY = "a-key-for-tests-0123456789"
ADDRESS = re.compile(r"on (http://\S+) \(ready")


class RunningBox:
    """A server process and a client that knows its key."""

    def __init__(self, process: subprocess.Popen[str], url: str, key: str, workspace: Path) -> None:
        self.process = process
        self.url = url
        self.key = key
        self.workspace = workspace
        self.client = httpx.Client(
            base_url=url, headers={"X-Session-API-Key": key} if key else {}, timeout=60, trust_env=False
        )

    def execute(self, action: str, *, timeout: float | None = None, **args: Any) -> dict[str, Any]:
        """Carry out an action that must be answered with an observation."""
        envelope: dict[str, Any] = {"action": action, "args": args}
        if timeout is not None:
            envelope["timeout"] = timeout
        answer = self.client.post("/execute_action", json={"action": envelope})
        assert answer.status_code == 200, answer.text
        observation: dict[str, Any] = answer.json()
        return observation

    def run(self, command: str, **args: Any) -> str:
        """The output of a command that must succeed."""
        observation = self.execute("run", command=command, **args)
        assert observation["extras"]["metadata"]["exit_code"] == 0, observation
        content: str = observation["content"]
        return content


@contextlib.contextmanager
def running_box(
    workspace: Path,
    *flags: str,
    key: str = KEY,
    environment: dict[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> Iterator[RunningBox]:
    """Start a box, and end it and all it started; `prefix` is the command that starts it, if another does."""
    inherited = {name: value for name, value in os.environ.items() if name != "SESSION_API_KEY"}
    inherited["GLOVEBOX_VIEWER_URL_FILE"] = str(workspace.parent / f"{workspace.name}-viewer-url")
    inherited["HOME"] = str(workspace.parent)  # whatever the tester's shell does at its start stays out
    inherited |= environment or {}
    if key:
        inherited["SESSION_API_KEY"] = key
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(workspace), *flags],
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
        env=inherited,
    )
    assert process.stdout is not None
    try:
        url = announced(process)
        box = RunningBox(process, url, key, workspace)
        with box.client:
            yield box
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()


def before_all_others(directory: Path) -> dict[str, str]:
    """What lets a box find packages in a directory instead of those that are installed."""
    customizing = directory / "customizing"
    customizing.mkdir()
    code = f"import sys; sys.path.insert(0, {str(directory)!r})\n"
    (customizing / "sitecustomize.py").write_text(code, encoding="utf-8")
    return {"PYTHONPATH": str(customizing)}


def announced(process: subprocess.Popen[str]) -> str:
    """The address that a box says it serves on."""
    assert process.stdout is not None
    for line in process.stdout:
        if match := ADDRESS.search(line):
            return match[1]
    raise AssertionError(f"the box did not start: exit status {process.wait()}")
