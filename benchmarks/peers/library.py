"""A peer that is a library: an object in a process of its own, asked through a pipe."""

from __future__ import annotations

import pickle
import subprocess
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from benchmarks.peers.server import HERE
from benchmarks.processes import Failed, Program


class Worker(Program):
    """The process of a library, in the interpreter that it is installed for; see `worker`."""

    patience = 30.0

    def __init__(self, name: str, python: Path, module: str, made: str) -> None:
        super().__init__()
        self.name, self._late = name, ""
        self._pipe, there = Pipe()
        with there:
            command = [str(python), "-m", "benchmarks.peers.worker", str(there.fileno()), module, made]
            self.run(command, {}, HERE.parent, [there.fileno()])

    def wait_ready(self, *arguments: object) -> None:
        """Wait until everything is imported and the object is made with these arguments."""
        try:
            self._exchange(arguments, 120.0)
        except Failed as problem:
            raise Failed(f"did not start: {problem}") from problem

    def ask(self, method: str, *arguments: object, limit: float = 200.0) -> Any:
        """The result of a method. Raises Failed if the method raised, or there is no answer."""
        return self._exchange((method, arguments), limit)

    def _exchange(self, asked: object, limit: float) -> Any:
        assert self.process is not None
        try:
            self._pipe.send(asked)
            if not self._pipe.poll(limit):
                self._late = f"no answer within {limit:.0f} s to what it was asked before"
                self.process.kill()  # a late answer would be taken for that of another question
                self.process.wait()
                raise Failed(f"no answer within {limit:.0f} s")
            succeeded, value = self._pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self.process.kill()
            self.process.wait()
            raise Failed(self._late or self.last_words()) from error
        if not succeeded:
            raise Failed(value)
        return value

    def request_end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):  # it is ending already
            self._pipe.send(None)

    def close(self) -> None:
        super().close()
        self._pipe.close()
