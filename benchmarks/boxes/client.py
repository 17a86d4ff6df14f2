"""A client in a process of its own, as the benchmark sees it."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import psutil

from benchmarks.boxes.engine import Engine
from benchmarks.boxes.peer import Begun, Failure, Means
from benchmarks.competitors import HERE, Unavailable, cache_folder
from benchmarks.load import LoadError
from benchmarks.processes import MARK, end, family, living

_READY_LIMIT = 120.0
#: For a server that takes long to start, or a large copy.
_LIMIT = 200.0
_END_LIMIT = 30.0
#: What a client inherits must not tell it anything about boxes.
_NOT_INHERITED = ("GLOVEBOX", "SANDBOX", "TMUX", "PYTHON", "VIRTUAL_ENV", "SESSION_API_KEY", "XDG_", "DOCKER")


@dataclass(frozen=True)
class Library:
    """A client library: what it is called, and what runs it."""

    name: str
    python: Path
    module: str
    has_plugins: bool = True


OURS = Library("glovebox", Path(sys.executable), "benchmarks.boxes.glovebox_peer")


def environment(folder: Path, mark: str, engine: Engine | None) -> dict[str, str]:
    """What a client finds: nothing of the user's own, and where containers are started."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    private = {name: str(folder / name.lower()) for name in ("HOME", "TMPDIR", "TMUX_TMPDIR")}
    for path in private.values():
        Path(path).mkdir(exist_ok=True)
    return {
        **ours,
        **private,
        "XDG_STATE_HOME": str(folder / "state"),
        # What is put into images is made once, and then kept with what else was installed.
        "XDG_CACHE_HOME": str(cache_folder()),
        "USER": "root" if os.getuid() == 0 else os.environ.get("USER", "openhands"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or its start would depend on the network
        "LOG_LEVEL": "ERROR",
        MARK: mark,
        **(engine.variables() if engine else {}),
    }


class Client:
    """One of the libraries, ready to be asked."""

    def __init__(self, library: Library, engine: Engine | None) -> None:
        self.library = library
        self.name = library.name
        self.engine = engine
        self.folder = Path(tempfile.mkdtemp(prefix="glovebox-bench-"))
        self.mark = uuid.uuid4().hex
        #: What it was ended for.
        self._hung = ""
        self._pipe, there = Pipe()
        with there, open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [str(library.python), "-m", library.module, str(there.fileno())],
                env=environment(self.folder, self.mark, engine),
                cwd=HERE.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[there.fileno()],
                start_new_session=True,  # a Ctrl-C is for the benchmark, which then ends this
            )

    def wait_ready(self, docker_args: Sequence[str] = ()) -> None:
        """Wait until everything is imported.

        Raises:
            Unavailable: it does not come to that.
        """
        image = self.engine.image if self.engine else ""
        means = Means(self.folder, self.mark, image, self.library.has_plugins, tuple(docker_args))
        try:
            self._send(means)
            self._receive(_READY_LIMIT)
        except LoadError as problem:
            raise Unavailable(f"its client did not start: {problem}") from problem

    def begin(self, kind: str) -> Begun:
        """Start a box and have it answer a command. It stays until `end`.

        Raises:
            LoadError: it does not answer, or not rightly; so do all others here.
        """
        begun = self._ask("begin", kind)
        assert isinstance(begun, Begun)
        return begun

    def crowd(self, kind: str, number: int, limit: float) -> float:
        """Start so many at once; the seconds until all have answered. They stay until `end`."""
        return float(self._ask("crowd", kind, number, limit=limit))

    def commands(self, number: int, way: str) -> list[float]:
        """Run `true` so many times; the milliseconds of each."""
        return list(self._ask("commands", number, way))

    def output(self, command: str) -> str:
        """What a command prints in the box."""
        return str(self._ask("output", command))

    def copy_in(self, source: Path, directory: str, *, is_tree: bool) -> float:
        """Copy into a directory of the box; the seconds."""
        return float(self._ask("copy_in", str(source), directory, is_tree))

    def copy_out(self, directory: str) -> tuple[float, Path]:
        """Copy a directory out of the box; the seconds, and where the archive is."""
        seconds, archive = self._ask("copy_out", directory)
        return seconds, Path(archive)

    def end(self) -> None:
        """End all its boxes."""
        if self._process.poll() is None:  # otherwise they are ended with what else it has left
            self._ask("end")
        if self.engine:
            self.engine.remove_containers(self.mark)

    def process(self) -> psutil.Process:
        """The client itself."""
        return psutil.Process(self._process.pid)

    def boxes(self) -> set[psutil.Process]:
        """All processes of its boxes, also those in containers, but not the client."""
        # The number of one that has ended may be somebody else's by now.
        found = family(self._process.pid if self._process.poll() is None else None, self.mark)
        found = {process for process in found if process.pid != self._process.pid}
        if self.engine:
            contained = self.engine.processes(self.mark)
            if contained:  # then what the client has started itself are programs to reach them
                return contained
        return found

    def _ask(self, verb: str, *arguments: object, limit: float = _LIMIT) -> Any:
        self._send((verb, arguments))
        return self._receive(limit)

    def _send(self, what: object) -> None:
        try:
            self._pipe.send(what)
        except OSError as error:
            self._kill()
            raise LoadError(self._last_words()) from error

    def _receive(self, limit: float) -> Any:
        try:
            if not self._pipe.poll(limit):
                self._kill()  # a late answer would be taken for that of another question
                self._hung = f"no answer within {limit:.0f} s"
                raise LoadError(self._hung)
            answer = self._pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._kill()
            raise LoadError(self._last_words()) from error
        if isinstance(answer, Failure):
            raise LoadError(answer.text)
        return answer

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        if self._hung:
            return f"{self._hung} to what it was asked before"
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it ended without a word"

    def close(self) -> None:
        """Let it end its boxes and itself, end whatever is left, and remove its folder."""
        left = self.boxes()
        try:
            self._pipe.send(None)
            self._process.wait(_END_LIMIT)
        except (OSError, subprocess.TimeoutExpired):
            self._kill()
        self._pipe.close()
        if self.engine:
            self.engine.remove_containers(self.mark)
        end(living(left) | family(None, self.mark))
        shutil.rmtree(self.folder, ignore_errors=True)
