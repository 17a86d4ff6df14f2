"""The process of an evaluation, started and asked as the server does."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Any

import msgspec

from glovebox.box.browser import wire
from glovebox.box.browser.chromium import Setup
from glovebox.box.browser.wire import BrowserStep, Observe, OpenTabs, Ready, Seen, Survey, TextReply
from tests.support.chromium import CHROMIUM
from tests.support.running import wait_until
from tests.support.waiting import LIMIT

TASK = "miniwob.click-test"
_START_LIMIT = 90.0
_ANSWER_LIMIT = 60.0


def miniwob_url() -> str:
    found = importlib.util.find_spec("miniwob")
    assert found is not None
    assert found.origin is not None
    return (Path(found.origin).parent / "html" / "miniwob").as_uri() + "/"


def chromium() -> str:
    return CHROMIUM or ""


class Worker:
    """The process, started as the server starts it, and the server's end of the conversation."""

    def __init__(self, directory: Path, task: str = TASK, **surroundings: Any) -> None:
        directory.mkdir(exist_ok=True)
        self.socket = directory / "s"
        self._printed = directory / "printed"
        setup = directory / "setup.json"
        setup.write_bytes(msgspec.json.encode(_setup(directory, task, surroundings.pop("options", {}))))
        with self._printed.open("wb") as printed:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "glovebox.box.browser.worker.evaluation", str(setup)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env=_environment(**surroundings),
                start_new_session=True,
            )
        self._connection: socket | None = None
        self._ids = 0

    def connect(self) -> Ready:
        """Be a server, instead of the one that was connected."""
        wait_until(lambda: self.socket.exists() or self.process.poll() is not None, _START_LIMIT, "its start")
        assert self.process.poll() is None, self.printed()
        self.hang_up()
        self._connection = socket(AF_UNIX)
        self._connection.settimeout(_ANSWER_LIMIT)
        # It exists a moment before it can be connected to.
        wait_until(self._connected, what="a connection")
        ready = self.receive()
        assert isinstance(ready, Ready)
        return ready

    def _connected(self) -> bool:
        assert self._connection is not None
        with contextlib.suppress(ConnectionRefusedError):
            self._connection.connect(str(self.socket))
            return True
        return False

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def send(self, message: wire.Request) -> None:
        assert self._connection is not None
        self._connection.sendall(wire.encode(message))

    def receive(self) -> Any:
        assert self._connection is not None
        return wire.MessageReader(wire.Reply).receive(self._connection)

    def ask(self, message: BrowserStep | Observe | Survey) -> Any:
        self.send(message)
        answer = self.receive()
        assert answer.id == message.id
        return answer

    def step(self, actions: str, **wishes: bool) -> Seen:
        self._ids += 1
        seen = self.ask(BrowserStep(id=self._ids, actions=actions, **wishes))
        assert isinstance(seen, Seen), seen
        return seen

    def told(self, actions: str) -> TextReply:
        told = self.ask(BrowserStep(id=1000, actions=actions))
        assert isinstance(told, TextReply), told
        return told

    def rewards(self) -> list[float]:
        rewards: list[float] = json.loads(self.told("GET_EVAL_REWARDS").text)
        return rewards

    def survey(self) -> OpenTabs:
        tabs = self.ask(Survey(id=1001))
        assert isinstance(tabs, OpenTabs), tabs
        return tabs

    def printed(self) -> str:
        return self._printed.read_text()

    def failure(self) -> str:
        """What is said by a process that must not start."""
        assert self.process.wait(_START_LIMIT) == 1, self.printed()
        assert not self.socket.exists()
        (line,) = self.printed().splitlines()
        return line

    def end(self) -> int:
        self.hang_up()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(LIMIT)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


def _setup(directory: Path, task: str, options: dict[str, Any]) -> Setup:
    values: dict[str, Any] = {"executable": chromium(), "closed_ports": [], "tree_limit": 100_000} | options
    return Setup(
        socket=str(directory / "s"),
        workspace=str(directory),
        profile=str(directory / "profile"),
        width=1280,
        height=720,
        coordinates=False,
        load_limit=30,
        dialogs="dismiss",
        settle=0.1,
        evaluation=task,
        **values,
    )


def _environment(*, url: str | None = "", path: Path | None = None) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "MINIWOB_URL"}
    if url is not None:
        environment["MINIWOB_URL"] = url or miniwob_url()
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return environment


@contextlib.contextmanager
def evaluating(directory: Path, task: str = TASK, **surroundings: Any) -> Iterator[Worker]:
    worker = Worker(directory, task, **surroundings)
    try:
        worker.connect()
        yield worker
    finally:
        worker.end()


@contextlib.contextmanager
def waiting_for_a_page(worker: Worker) -> Iterator[None]:
    """A step that has begun, and goes to a page that does not come."""
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(_ANSWER_LIMIT)
        worker.send(BrowserStep(id=1, actions=f'goto("http://127.0.0.1:{silent.getsockname()[1]}/")'))
        with silent.accept()[0]:
            yield
