"""Servers that are compared: installing, starting, asking and stopping one, whatever API it has."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.connection import Site, exchange
from benchmarks.harness import say
from benchmarks.load import Request, json_check
from benchmarks.processes import Failed, Program, Unavailable, free_port, living

HERE = Path(__file__).resolve().parent.parent
#: A small file of the measures, and the entries of the folder `list`.
READ_TEXT = "".join(f"line {n:02} of a small file\n" for n in range(42))
LISTING = [*(f"d{n}/" for n in range(10)), *(f"f{n:02}" for n in range(40))]


def cache_folder() -> Path:
    return Path(os.environ.get("GLOVEBOX_BENCH_CACHE") or HERE / ".cache").absolute()


class Api:
    """The requests of one kind of server, with checks of their answers. What it lacks raises Unavailable."""

    key_header = "X-Session-API-Key"
    #: The field of an answer that has the output of a command.
    output_field = "content"

    def __init__(self, site: Site) -> None:
        self.site = site

    def __getattr__(self, name: str) -> Any:
        raise Unavailable

    def get(self, path: str, check: Callable[[Any], bool]) -> Request:
        return Request(self.site.head("GET", path), json_check(check))

    def post(self, path: str, body: object, check: Callable[[Any], bool]) -> Request:
        return Request(self.site.post(path, body), json_check(check))

    def opening(self) -> Sequence[Request]:
        """Requests after the start, up to a first command."""
        return [self.echo("first")]

    def prepare(self, name: str, client: int) -> Sequence[Request]:
        """Requests before a round of an operation."""
        return ()

    def output(self, answer: Any) -> str:
        return str(answer.get(self.output_field, "")).strip() if isinstance(answer, dict) else ""


class Peer:
    """A server that is compared: how it is installed and run."""

    name: str
    api: type[Api] = Api
    #: Seconds a start may take, from files that are not in memory.
    start_limit = 180.0
    #: The environment it is installed in.
    folder = Path()

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self) -> None:
        """Make it runnable. Raises Failed if that is not possible here."""

    def version(self) -> str:
        return "of unknown version"

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        raise NotImplementedError

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        return {}

    def start(self) -> Server:
        return Server(self)

    @contextmanager
    def running(self) -> Iterator[Server]:
        """A server that has answered a first command."""
        with self.start() as server:
            server.wait_alive()
            server.open()
            yield server


class Server(Program):
    """A peer that was started here."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.peer, self.name = peer, peer.name
        key, work, port = uuid.uuid4().hex, self.folder / "work", free_port()
        self.site = Site(("127.0.0.1", port), key, str(work / "bench"), peer.api.key_header)
        self.api = peer.api(self.site)
        work.mkdir()
        variables = peer.environment(self.folder / "home", key)
        self.run(peer.command(port, work, key), variables, work)

    def wait_alive(self) -> float:
        """Wait for the first right answer and return the seconds since the start."""
        request, limit = self.api.alive(), self.peer.start_limit
        give_up = time.perf_counter() + limit
        while time.perf_counter() < give_up:
            with suppress(Failed):  # not listening yet
                if request.accepts(*self.exchange(request.raw, 30)):
                    return time.perf_counter() - self.started
            if self.has_ended:
                raise Failed(f"ended at start: {self.last_words()}")
            time.sleep(0.002)
        raise Failed(f"not alive after {limit:.0f} s")

    def open(self) -> float:
        """Run a first command, in a session if the server needs one; the seconds since the start."""
        for request in self.api.opening():
            self.ask(request, tries=3)  # a wrong answer here and there is counted elsewhere
        return time.perf_counter() - self.started

    def exchange(self, raw: bytes, limit: float = 60.0) -> tuple[int, bytes]:
        return exchange(self.site.address, raw, limit)

    def ask(self, request: Request, tries: int = 1) -> bytes:
        return request.ask(self.site.address, tries)

    def stop(self) -> tuple[float, int]:
        """Send SIGTERM; the seconds until the exit (20: it was not over), and how many processes stayed."""
        assert self.process is not None
        before, asked = self.processes(), time.perf_counter()
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        seconds = time.perf_counter() - asked
        # What is about to end gets the time for it: only what stays a while counts as left behind.
        psutil.wait_procs([process for process in before if process.pid != self.pid], timeout=1.5)
        return seconds, len(living(before) | self.processes())


def install_package(folder: Path, find_python: Callable[[], Path], *requirements: str) -> None:
    """Make a virtual environment with packages, once. Raises Failed if that fails."""
    done, wanted = folder / ".installed", " ".join(requirements)
    if done.exists() and done.read_text() == wanted:
        return
    say(f"installing {wanted} into {folder} (once; this may take some minutes)")
    pip = [str(folder / "bin" / "pip"), "install", *requirements]
    for step in ([str(find_python()), "-m", "venv", str(folder)], pip):
        finished = subprocess.run(step, capture_output=True, text=True)
        if finished.returncode != 0:
            say(finished.stderr.strip()[-2000:])
            raise Failed(f"installing {wanted} failed")
    done.write_text(wanted)


def find_python_312() -> Path:
    """A Python 3.12 that really starts: a pyenv shim may be on the path and do nothing."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    on_path = shutil.which("python3.12")
    candidates = sorted(versions.glob("3.12*/bin/python"), reverse=True)
    for candidate in ([Path(on_path)] if on_path else []) + candidates:
        if subprocess.run([candidate, "-c", "import venv"], capture_output=True).returncode == 0:
            return candidate
    raise Unavailable("Python 3.12 is missing")


def package_version(python: Path, name: str) -> str:
    code = "import importlib.metadata as metadata, platform; "
    code += f"print(metadata.version({name!r}), 'on Python', platform.python_version())"
    shown = subprocess.run([str(python), "-c", code], capture_output=True, text=True)
    return shown.stdout.strip() or "of unknown version"
