"""The command line as people use it: real processes, with a home of their own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.waiting import readable

LIMIT = 60.0
#: What every fresh box says that is not isolated.
NOT_ISOLATED = "glovebox: This box is NOT isolated: its commands can do all that you can (isolation none)\n"


class Home:
    """A user with nothing in it, and the commands of that user."""

    def __init__(self, path: Path, **environment: str) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "XDG_STATE_HOME": str(path / "state"),
            "XDG_CACHE_HOME": str(path / "cache"),
            "DOCKER_HOST": f"unix://{path}/no-engine.sock",
            "GLOVEBOX_BACKEND": "process",
            "GLOVEBOX_ISOLATION": "none",
            **environment,
        }

    def glovebox(
        self, *arguments: str, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "glovebox", *arguments],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            env={**self.environment, **environment},
        )

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on; it is ended if it has not by then."""
        process = subprocess.Popen(
            [sys.executable, "-m", "glovebox", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=self.environment,
            # A shell without job control lets what it starts ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def names(self) -> list[str]:
        """The boxes there are."""
        return self.glovebox("ls", "--names").stdout.split()

    def listed(self) -> list[dict[str, Any]]:
        """The same with all that is told of them."""
        found: list[dict[str, Any]] = json.loads(self.glovebox("ls", "--json").stdout)
        return found


class Window:
    """A terminal window with a command in it."""

    def __init__(self, home: Home, *arguments: str, columns: int = 100) -> None:
        self.controller, self.terminal = pty.openpty()
        self.resize(24, columns)
        self.before = termios.tcgetattr(self.terminal)
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "glovebox", *arguments],
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
            env={**home.environment, "TERM": "xterm"},
            preexec_fn=lambda: os.login_tty(os.dup(self.terminal)),
        )

    def resize(self, rows: int, columns: int) -> None:
        """Give it another size."""
        fcntl.ioctl(self.controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self.controller, keys)

    def see(self, text: bytes) -> None:
        """Wait until something is shown."""
        deadline = time.monotonic() + LIMIT
        while text not in self.shown:
            assert readable(self.controller, max(0, deadline - time.monotonic())), self.shown
            self.shown += os.read(self.controller, 65_536)

    def end(self) -> int:
        """The exit status of a command that ends; its terminal must be as it was."""
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            self._look(0.05)
        self._look(0)
        assert termios.tcgetattr(self.terminal) == self.before
        return self.process.returncode

    def _look(self, seconds: float) -> None:
        while readable(self.controller, seconds):
            self.shown += os.read(self.controller, 65_536)
            seconds = 0

    def close(self) -> None:
        """End what still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.controller)
        os.close(self.terminal)
