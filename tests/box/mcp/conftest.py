from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.mcp.mcp_client import post
from tests.support.running import RunningBox, running_box


@pytest.fixture(scope="session")
def routing_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """One box for all tests that give it a list of their own."""
    flags = ("--no-enable-browser",)
    with running_box(tmp_path_factory.mktemp("routing") / "workspace", *flags) as box:
        yield box


@pytest.fixture
def box(routing_box: RunningBox) -> Iterator[RunningBox]:
    """That box, without a server before and after."""
    yield routing_box
    post(routing_box)


class Remote:
    """A server on loopback that can go away and come back at the same address."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        script = Path(__file__).parent / "remote.py"
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(self.port)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "KEY": self.key},
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def running_remote(key: str = "") -> Iterator[Remote]:
    remote = Remote(key)
    remote.start()
    try:
        yield remote
    finally:
        remote.stop()


@pytest.fixture(scope="session")
def remote() -> Iterator[Remote]:
    """A server that wants a key."""
    with running_remote("upstream-key-4711") as remote:
        yield remote
