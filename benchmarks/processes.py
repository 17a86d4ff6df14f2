"""Processes: work in a child, programs and everything they start, their end, their memory."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self, TypeVar

import psutil

#: Every program is started with this variable, so that even a daemon that left its parent is found.
MARK = "GLOVEBOX_BENCH_MARK"
#: Variables of the user's that could change how a program behaves.
_NOT_INHERITED = ("GLOVEBOX", "SANDBOX", "TMUX", "PYTHON", "VIRTUAL_ENV", "SESSION_API_KEY", "XDG_", "DOCKER")

T = TypeVar("T")


class Failed(Exception):
    """Something could not be measured; the text says why, in a few words."""


class Unavailable(Failed):
    """The machine or the peer lacks what is needed; that is no failure of the peer."""

    def __init__(self, reason: str = "not offered") -> None:
        super().__init__(reason)


class Wrong(Failed):
    """One answer is not the right one; the next may be."""


def in_child(work: Callable[[], T], limit: float) -> T:
    """Run a function in a forked process and return its result.

    Raises:
        Failed: the function raised it, or the process ended or hung without a result.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_report, args=(work, there), daemon=True)
    child.start()
    there.close()
    try:
        if not here.poll(limit):
            raise Failed(f"no result within {limit:.0f} s")
        succeeded, value = here.recv()
    except EOFError:
        raise Failed("the process for it ended without a result") from None
    finally:
        here.close()
        child.join(0.5)
        child.kill()
        child.join()
    if not succeeded:
        raise Failed(value)
    result: T = value
    return result


def _report(work: Callable[[], T], out: Connection) -> None:
    default_signals()
    try:
        out.send((True, work()))
    except Failed as problem:
        out.send((False, str(problem)))


def default_signals() -> None:
    """Let SIGINT and SIGTERM end this forked process; the benchmark's handlers are not for it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def family(pid: int | None, mark: str) -> set[psutil.Process]:
    """A process, its descendants, and every other process with this mark in its environment."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # another user's, or gone
            is_found = process.pid == pid or process.environ().get(MARK) == mark
            if is_found and process.pid != os.getpid():
                found |= {process, *process.children(recursive=True)}
    return living(found)


def living(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """The processes that still run (a zombie does not)."""
    found = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
    return found


def end(processes: Iterable[psutil.Process], patience: float = 2.0) -> None:
    """End exactly these processes: SIGTERM first, then SIGKILL."""
    left = list(processes)
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for process in left:
            with suppress(psutil.Error):
                send(process)
        _, left = psutil.wait_procs(left, timeout=patience)


class Program:
    """A program started for the benchmark, with private folders and a log. `close` leaves nothing of it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="glovebox-bench-"))
        self.mark = uuid.uuid4().hex
        self.started = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def environment(self) -> dict[str, str]:
        """The user's variables without those that could change the program, and private folders."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        private = {name: str(self.folder / name.lower()) for name in ("HOME", "TMPDIR", "TMUX_TMPDIR")}
        for path in private.values():
            Path(path).mkdir(exist_ok=True)
        return {**ours, **private, MARK: self.mark}

    def run(
        self, command: Sequence[str], variables: Mapping[str, str], cwd: Path, is_asked: bool = False
    ) -> None:
        """Start it; a program that is asked gets its questions through a pipe and answers through another."""
        environment = {**self.environment(), **variables}
        self.started = time.perf_counter()
        try:
            with open(self.folder / "log", "wb") as log:
                self.process = subprocess.Popen(
                    command,
                    env=environment,
                    cwd=cwd,
                    stdin=subprocess.PIPE if is_asked else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if is_asked else log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the benchmark, which then ends this
                )
        except OSError as error:
            self.close()
            raise Failed(f"cannot be started: {error}") from error

    @property
    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def last_words(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "no output"

    def processes(self) -> set[psutil.Process]:
        # The id of a process that has ended may be another one's by now.
        return family(None if self.has_ended else self.pid, self.mark)

    def close(self) -> None:
        left = self.processes()
        if self.process is not None and not self.has_ended:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(3.0)
            self.process.kill()
            self.process.wait()
        end(living(left) | self.processes())
        shutil.rmtree(self.folder, ignore_errors=True)


def pss(processes: Iterable[psutil.Process]) -> float:
    """Megabytes in use, with memory shared between processes divided among its users."""
    return sum(_field(f"/proc/{process.pid}/smaps_rollup", "Pss:") for process in processes) / 1024


class PeakGrowth:
    """How far the resident memory of some processes rose above where it stood; not of those born later."""

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        self._before: dict[int, int] = {}
        for process in processes:
            with suppress(OSError):
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")
                self._before[process.pid] = _field(f"/proc/{process.pid}/status", "VmRSS:")

    def megabytes(self) -> float | None:
        highest = {pid: _field(f"/proc/{pid}/status", "VmHWM:") for pid in self._before}
        growth = sum(max(0, highest[pid] - before) for pid, before in self._before.items())
        return growth / 1024 if self._before else None


def _field(path: str, name: str) -> int:
    """A size in kB from one of the kernel's tables; 0 when the process is gone or has none."""
    with suppress(OSError), open(path) as table:
        for line in table:
            if line.startswith(name):
                return int(line.split()[1])
    return 0
