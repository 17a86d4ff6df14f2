"""BrowserGym from outside: its process, its answers, its end."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from multiprocessing import Pipe
from pathlib import Path

import psutil

from benchmarks.browser.chromium import chromium
from benchmarks.browser.seen import Seen
from benchmarks.competitors import HERE, Unavailable
from benchmarks.load import LoadError
from benchmarks.processes import MARK, end, family, living

#: The column of the report.
GYM = "BrowserGym"
#: With its pauses and its chat, and not without them as it is measured else.
GYM_IN_OPENHANDS = "BrowserGym as OpenHands runs it"

_START_LIMIT = 120.0
_STEP_LIMIT = 150.0
_END_LIMIT = 5.0


class Gym:
    """BrowserGym in a process of its own."""

    def __init__(self, chromium: str, *, is_plain: bool) -> None:
        self.name = GYM if is_plain else GYM_IN_OPENHANDS
        self.folder = Path(tempfile.mkdtemp(prefix="glovebox-bench-"))
        self._mark = uuid.uuid4().hex
        self._pipe, there = Pipe()
        self.began = time.perf_counter()
        kind = "plain" if is_plain else "whole"
        worker = [sys.executable, "-m", "benchmarks.browser.gym_worker", str(there.fileno())]
        with there, open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [*worker, chromium, str(self.folder / "downloads"), kind],
                env={**os.environ, "HOME": str(self.folder), MARK: self._mark},
                cwd=HERE.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[there.fileno()],
                start_new_session=True,  # a Ctrl-C is for the benchmark, which then ends this
            )

    def wait_ready(self) -> None:
        """Wait until its first page, an empty one, is there.

        Raises:
            Unavailable: it does not come to that.
        """
        try:
            self._receive(_START_LIMIT)
        except LoadError as problem:
            raise Unavailable(f"did not start: {problem}") from problem

    def step(self, actions: str) -> Seen:
        """Carry out a string of actions.

        Raises:
            LoadError: there is no answer.
        """
        try:
            self._pipe.send(actions)
        except OSError as error:
            raise LoadError(self._last_words()) from error
        answer = self._receive(_STEP_LIMIT)
        assert isinstance(answer, Seen)
        return answer

    def observe(self) -> Seen:
        """Look at the page without a step, and so without waiting for anything.

        Raises:
            LoadError: there is no answer.
        """
        return self.step("")

    def processes(self) -> set[psutil.Process]:
        """Its Python, Playwright's driver, Chromium."""
        # The number of one that has ended may be somebody else's by now.
        return family(self._process.pid if self._process.poll() is None else None, self._mark)

    def _receive(self, limit: float) -> object:
        try:
            if not self._pipe.poll(limit):
                raise LoadError(f"no answer within {limit:.0f} s")
            return self._pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise LoadError(self._last_words()) from error

    def _last_words(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it ended without a word"

    def close(self) -> None:
        """Let it end, end whatever is left, and remove its folder."""
        left = self.processes()
        try:
            self._pipe.send(None)
            self._process.wait(_END_LIMIT)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._pipe.close()
        end(living(left) | self.processes())
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def open_gym(*, is_plain: bool) -> Iterator[Gym]:
    """BrowserGym, ready for its first step; at the end nothing of it is left.

    Plain means kindest to it: without the pauses it makes between actions for those who watch, and without
    the second browser for a chat that nobody reads.

    Raises:
        Unavailable: it is not installed, there is no Chromium, or it does not start.
    """
    _versions()
    gym = Gym(chromium(), is_plain=is_plain)
    try:
        gym.wait_ready()
        yield gym
    finally:
        gym.close()


def gym_version() -> str:
    """What is measured.

    Raises:
        Unavailable: it is not installed, or there is no Chromium.
    """
    gym, playwright = _versions()
    shown = subprocess.run([chromium(), "--version"], capture_output=True, text=True).stdout.strip()
    return f"BrowserGym {gym}, Playwright {playwright}, {shown}"


def _versions() -> tuple[str, str]:
    try:
        return metadata.version("browsergym-core"), metadata.version("playwright")
    except metadata.PackageNotFoundError as error:
        raise Unavailable(f"{error.name} is not installed") from error
