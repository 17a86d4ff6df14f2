"""Programs that are run while a bundle is made, and how making one is broken off."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from glovebox.errors import NoBundle

#: How much of what a program said is worth repeating.
LAST_WORDS = 2000
#: How often a running program is asked whether it has ended, in seconds.
LOOK = 0.2


class BrokenOff(Exception):
    """The build of a bundle was cancelled."""


class Stop:
    """Cancels the build of a bundle, which checks it between steps."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def check(self, wait: float = 0.0) -> None:
        """Wait for so many seconds unless the build is cancelled.

        Raises:
            BrokenOff: the build was cancelled.
        """
        if self._event.wait(wait) if wait else self._event.is_set():
            raise BrokenOff


def run(command: Sequence[str | Path], stop: Stop, *, what: str) -> None:
    """Run a program that may take long, and must succeed.

    Raises:
        NoBundle: it failed; the text has its last words.
        BrokenOff: the build was cancelled.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        try:
            output = _output(process, stop)
        except BrokenOff:
            process.kill()
            raise
    if process.returncode:
        words = output.strip()[-LAST_WORDS:]
        raise NoBundle(f"The runtime for images could not be made: {what} failed.\n{words}")


def _output(process: subprocess.Popen[str], stop: Stop) -> str:
    while True:
        try:
            return process.communicate(timeout=LOOK)[0]
        except subprocess.TimeoutExpired:
            stop.check()


def ask(command: Sequence[str | Path]) -> str | None:
    """The output of a quick program, or None if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout
