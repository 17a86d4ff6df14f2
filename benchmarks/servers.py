"""Servers while they run: start, wait, stop, and nothing left at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.competitors import Competitor, Unavailable
from benchmarks.dialects import Dialect, Site
from benchmarks.load import LoadError, exchange
from benchmarks.openhands import OpenHands
from benchmarks.processes import MARK, end, family, free_port, living


@dataclass
class Target:
    """A server that answers now."""

    name: str
    site: Site
    dialect: Dialect
    #: None for a server that was given by its address.
    running: Running | None = None

    def processes(self) -> set[psutil.Process]:
        """Everything that belongs to it; nothing for a server given by its address."""
        return self.running.processes() if self.running else set()


class Running:
    """A competitor that was started here: its process, its folders, its end."""

    def __init__(self, competitor: Competitor) -> None:
        self.competitor = competitor
        self.key = uuid.uuid4().hex
        self._mark = uuid.uuid4().hex
        self.base = Path(tempfile.mkdtemp(prefix="glovebox-bench-"))
        self.site = Site(("127.0.0.1", free_port()), self.key, str(self.base / "work" / "bench"))
        for name in ("home", "tmux", "work"):
            (self.base / name).mkdir()
        self.started = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; whether it is ready is another question.

        Raises:
            Unavailable: there is no such program.
        """
        self.started = time.perf_counter()
        try:
            with open(self.base / "log", "wb") as log:
                self._process = subprocess.Popen(
                    self.competitor.command(self.site.address[1], self.base / "work", self.key),
                    env=self._environment(),
                    cwd=self.base / "work",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a Ctrl-C is for the benchmark, which then ends this
                )
        except OSError as error:
            raise Unavailable(f"cannot be started: {error}") from error

    def _environment(self) -> dict[str, str]:
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GLOVEBOX", "TMUX", "PYTHON", "VIRTUAL_ENV", "SESSION_API_KEY"))
        }
        private = {"HOME": str(self.base / "home"), "TMUX_TMPDIR": str(self.base / "tmux"), MARK: self._mark}
        return {**ours, **private, **self.competitor.environment(self.base / "home", self.key)}

    def target(self) -> Target:
        """The server as something to send requests to."""
        return Target(self.competitor.name, self.site, self.competitor.dialect(self.site), self)

    def wait_alive(self) -> float:
        """Wait for the first right answer to "are you alive" and return the seconds since the start.

        Raises:
            Unavailable: the process ended, or the limit passed.
        """
        request = self.competitor.dialect(self.site).alive()
        limit = self.started + self.competitor.start_limit
        while time.perf_counter() < limit:
            try:
                if request.accepts(*exchange(self.site.address, request.raw, limit=30)):
                    return time.perf_counter() - self.started
            except (OSError, LoadError):
                pass  # not listening yet
            if self._process is None or self._process.poll() is not None:
                raise Unavailable(f"ended at start: {self.last_words()}")
            time.sleep(0.002)
        raise Unavailable(f"not alive after {self.competitor.start_limit:.0f} s")

    def last_words(self) -> str:
        """The last line of its log."""
        lines = (self.base / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "no output"

    @property
    def pid(self) -> int:
        """The server itself."""
        assert self._process is not None
        return self._process.pid

    def processes(self) -> set[psutil.Process]:
        """The server, its descendants and its daemons."""
        return family(self._process.pid if self._process else None, self._mark)

    def stop(self) -> tuple[float | None, int]:
        """Ask it to end; return the seconds that took (None: it did not) and how many processes stayed."""
        assert self._process is not None
        before = self.processes()
        asked = time.perf_counter()
        self._process.terminate()
        try:
            self._process.wait(20)
            seconds: float | None = time.perf_counter() - asked
        except subprocess.TimeoutExpired:
            seconds = None
        # What is about to end gets the chance to: only what stays a while counts as left behind.
        psutil.wait_procs([p for p in before if p.pid != self._process.pid], timeout=1.5)
        left = living(before) | self.processes()
        return seconds, len(left)

    def close(self) -> None:
        """End whatever is left and remove the folders."""
        left = self.processes()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        end(living(left) | self.processes())
        shutil.rmtree(self.base, ignore_errors=True)


@contextmanager
def run(competitor: Competitor) -> Iterator[Running]:
    """Start a competitor; at the end nothing of it is left."""
    running = Running(competitor)
    try:
        running.start()
        yield running
    finally:
        running.close()


def given(url: str, key: str, name: str) -> Target:
    """A server somebody else runs.

    Raises:
        Unavailable: it does not answer there.
    """
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    site = Site(address, key, f"/tmp/glovebox-bench-{uuid.uuid4().hex[:8]}")
    dialect = OpenHands(site)
    alive = dialect.alive()
    try:
        if not alive.accepts(*exchange(address, alive.raw, limit=10)):
            raise Unavailable(f"{url} does not say that it is alive")
    except (OSError, LoadError) as error:
        raise Unavailable(f"{url} does not answer: {error}") from error
    return Target(name, site, dialect)


def forget_cached(folders: Sequence[Path]) -> None:
    """Drop files from the page cache, as far as nobody uses them, so that the next start reads the disk."""
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                _forget_file(os.path.join(root, name))


def _forget_file(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        return
    finally:
        os.close(handle)
