"""A real bash on a pseudo-terminal, without anything of ours in it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

from glovebox.linux import processes
from tests.support.waiting import LIMIT, wait_until

#: What the shell prints before each prompt, with the last status.
_PROMPT = re.compile(rb"<<(\d+)>>")
#: The Python that runs the tests; a shim in front of it would be one more process.
PYTHON = os.path.realpath(sys.executable)


class Shell:
    """A shell that is typed into."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, directory: Path) -> None:
        self.pid = process.pid
        self.process = process
        self.directory = directory
        self._master = master
        self._output = bytearray()
        self._seen = 0
        # Somebody has to read, or programs that print a lot stand still.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65_536):
                self._output += data

    @property
    def output(self) -> bytes:
        """What was printed since the last command was typed."""
        return bytes(self._output[self._seen :])

    def type(self, text: str) -> None:
        """Type a line."""
        self._seen = len(self._output)
        os.write(self._master, text.encode() + b"\r")

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def prompted(self) -> bool:
        """Whether the last command has ended."""
        return _PROMPT.search(self.output) is not None

    def status(self) -> int:
        """Wait for the end of the last command; its exit status."""
        wait_until(self.prompted, what="the command ended")
        found = _PROMPT.search(self.output)
        assert found is not None
        return int(found[1])

    def run(self, text: str) -> bytes:
        """Run a command that ends; what it printed."""
        self.type(text)
        self.status()
        return self.output

    def family(self) -> list[processes.Process]:
        """What the shell started and still runs."""
        found = processes.ProcessTable().family(self.pid, ended=False)
        return [process for process in found if process.pid != self.pid and not process.ended]

    def named(self, name: str) -> list[processes.Process]:
        """Those of a name."""
        return [process for process in self.family() if process.name == name]

    def close(self) -> None:
        """End it and everything it started."""
        relatives = processes.ProcessTable().family(self.pid, ended=False)
        self.process.kill()
        self.process.wait()
        processes.kill([process for process in relatives if process.pid != self.pid])
        self._reader.join(LIMIT)
        os.close(self._master)


@contextlib.contextmanager
def shell(directory: Path, *, startup: str = "", owner: int | None = None) -> Iterator[Shell]:
    """A bash in a directory of its own, at its first prompt."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    rcfile = directory / "rc"
    # Without bracketed paste, output follows the typed line at once.
    quiet = "bind 'set enable-bracketed-paste off'"
    rcfile.write_text(f"PROMPT_COMMAND='echo \"<<$?>>\"'\nPS1='$ '\nunset HISTFILE\n{quiet}\n{startup}\n")
    master, slave = os.openpty()
    try:
        termios.tcsetwinsize(slave, (24, 80))
        if owner is not None:
            os.fchown(slave, owner, -1)
        process = subprocess.Popen(
            ["setsid", "-c", "bash", "--rcfile", str(rcfile), "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=directory,
            env={
                "PATH": f"{programs}:{os.environ['PATH']}",
                "HOME": str(directory),
                "TERM": "xterm",
                "LANG": "C.UTF-8",
            },
        )
    finally:
        os.close(slave)
    opened = Shell(process, master, directory)
    try:
        opened.status()
        yield opened
    finally:
        opened.close()


def program(directory: Path, name: str, text: str) -> None:
    """Put a small program on the shell's path."""
    path = directory / "bin" / name
    path.write_text(text)
    path.chmod(0o755)
