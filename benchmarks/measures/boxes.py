"""Boxes as a host starts them: first command, many at once, cost of the client, copies, command line."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.connection import Site
from benchmarks.harness import OWN, Group, Measure, Stage, choose, say
from benchmarks.load import Outcome, drive_through
from benchmarks.peers.engine import Engine, find_engine
from benchmarks.peers.openhands import OpenHandsApi
from benchmarks.peers.server import cache_folder
from benchmarks.processes import Failed, PeakGrowth, Program, Unavailable, pss

PROCESS, BUBBLEWRAP, CONTAINER, GVISOR, POOL = "process", "bubblewrap", "container", "gvisor", "pool"
KINDS = {
    PROCESS: "a process of this machine",
    BUBBLEWRAP: "a process within bubblewrap",
    CONTAINER: "a container",
    GVISOR: "a container of gVisor",
    POOL: "a container that the warm pool had ready",
}
_FIRST_ROW = "s ↓ | new client to the answer of a first command, {} ({{runs}}) | :median{}"
_COMMANDS = {
    "run": ("{} run --backend {} -- true", "the whole command", ""),
    "shell": ("{} shell --backend {}", "until its prompt is there", " | < 1"),
}
_CROWD_ROWS = """
s ↓ | {label}, until all have answered a command | seconds:median
MB ↓ | {label}, memory of each, all processes (PSS) | pss:median
"""
_TRUE_ROWS = {
    "bare": "ms ↓ | `true` by bare HTTP; p50 / p95 | :p50 :p95",
    "await": "ms ↓ | `true` by `await runtime.run`; p50 / p95 | :p50 :p95 | ≤ 1 × true.bare:p50 + 1",
    "block": "ms ↓ | `true` by the client that blocks; p50 / p95 | :p50 :p95",
}
_COPY_ROWS = """
{unit} ↑ | {label} into the box | in:median
{unit} ↑ | {label} out of the box | out:median
MB ↓ | {label}, peak growth of the box's memory, in / out | grown_in:max grown_out:max
"""
_BACKENDS = {PROCESS: "process", CONTAINER: "docker"}
_COMMAND_LIMIT = 120.0
#: What the shells of boxes print after their prompt; no terminal shows it.
_PROMPT = b"\x1b]1807;B;"
_DIGEST = "find . -type f | wc -l && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum"


def stages(quick: bool, find: Callable[[], AbstractContextManager[Engine]] = find_engine) -> list[Stage]:
    n = choose(quick)
    first = [
        Measure(f"first.{kind}", partial(first_command, kind), _FIRST_ROW.format(label, target), n(9, 1))
        for kind, label in KINDS.items()
        for target in (" | < 0.5" if kind == CONTAINER else "",)
    ]
    crowds = [
        Measure(
            f"crowd.{kind}",
            partial(crowd, kind, n(20, 3)),
            _CROWD_ROWS.format(label=f"{n(20, 3)} at once, {KINDS[kind]}"),
        )
        for kind in _BACKENDS
    ]
    ways = zip(_TRUE_ROWS.items(), (bare_commands, await_commands, block_commands), strict=True)
    trues = [Measure(f"true.{way}", partial(call, n(500, 60)), row, n(3, 1)) for (way, row), call in ways]
    megabytes, files = n(1_000, 50), n(10_000, 500)
    copies = [
        Measure(f"copy.{name}", partial(copy, *load), _COPY_ROWS.format(label=label, unit=unit), n(2, 1))
        for name, label, unit, load in (
            ("file", f"a file of {megabytes} MB", "MB/s", (1, 1_000_000, megabytes)),
            ("tree", f"{files} files of 2 kB", "files/s", (files, 2_000, 1)),
        )
    ]
    lines = [
        Measure(
            f"{name}.{kind}",
            partial(command_line, name, backend),
            f"s ↓ | `{words.format('glovebox', backend)}`, {label} ({{runs}}) | :median{target}",
            n(7, 1),
        )
        for name, (words, label, target) in _COMMANDS.items()
        for kind, backend in _BACKENDS.items()
    ]
    setup = partial(host, find)
    return [Stage(setup, [*first, *trues, *copies, *crowds, *lines])]


@dataclass
class Host:
    """This process as the host of boxes, with the variables of a user that has nothing."""

    program: Program
    runner: asyncio.Runner
    engine: Engine | None
    no_engine: str
    opened: list[Any] = field(default_factory=list)
    pool: Any = None

    def make(self, kind: str) -> Any:
        """A client's object for a kind of box."""
        from glovebox import BoxSpec, Runtime

        if kind == BUBBLEWRAP and shutil.which("bwrap") is None:
            raise Unavailable("bubblewrap is missing")
        if kind in (PROCESS, BUBBLEWRAP):
            return Runtime("process", BoxSpec(isolation="bubblewrap" if kind == BUBBLEWRAP else "none"))
        spec = self.container(kind)
        return Runtime(self.pool if kind == POOL else "docker", spec)

    def container(self, kind: str) -> Any:
        from glovebox import BoxSpec

        if self.engine is None:
            raise Unavailable(self.no_engine)
        if kind == GVISOR and not self.engine.has_gvisor:
            raise Unavailable("the engine has no gVisor")
        return BoxSpec(image=self.engine.image, runtime="runsc" if kind == GVISOR else "")

    def fill_pool(self) -> None:
        from glovebox.backends.pool import WarmPool
        from glovebox.client import registry
        from glovebox.settings import host as host_settings

        if self.pool is None:
            spec = self.container(POOL)

            async def filled() -> Any:
                pool = WarmPool(registry.open_backend("docker", host_settings.load()), spec, 1)
                pool.fill()
                return pool

            self.pool = self.run(filled())
        self.run(_until(lambda: self.pool.ready >= 1))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        from glovebox.errors import GloveboxError

        try:
            return self.runner.run(work)
        except (GloveboxError, OSError, TimeoutError) as error:
            raise Failed(f"{type(error).__name__}: {error}"[:300]) from error

    def box(self) -> Any:
        """A box as a process of this machine, which stays for what needs one."""
        if not self.opened:
            self.opened.append(self.make(PROCESS))
            self.run(answered(self.opened[0]))
        return self.opened[0]

    def processes(self) -> set[psutil.Process]:
        """All processes of boxes on this machine."""
        return self.program.processes() | set(psutil.Process().children(recursive=True))

    def close(self) -> None:
        for box in self.opened:
            self.run(box.close())
        if self.pool is not None:
            self.run(self.pool.close())


@contextmanager
def host(find: Callable[[], AbstractContextManager[Engine]], peer: object) -> Iterator[Host]:
    with ExitStack() as stack:
        program, engine, no_engine = stack.enter_context(Program()), None, ""
        try:
            engine = stack.enter_context(find())
        except Failed as problem:
            no_engine = str(problem)
            say(f"boxes: without containers: {problem}")
        variables = {
            **program.environment(),
            "XDG_STATE_HOME": str(program.folder / "state"),
            # What is put into images is made once, and then kept with what else was installed.
            "XDG_CACHE_HOME": str(cache_folder()),
            **({**engine.variables(), "GLOVEBOX_IMAGE": engine.image} if engine else {}),
        }
        before = dict(os.environ)
        stack.callback(_set_environment, before)
        _set_environment(variables)
        ours = Host(program, stack.enter_context(asyncio.Runner()), engine, no_engine)
        stack.callback(ours.close)
        yield ours


def _set_environment(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - a pool has no event for that
            await asyncio.sleep(0.01)


async def output_of(box: Any, command: str, **options: Any) -> str:
    answer = await box.run(command, **options)
    if getattr(answer, "metadata", None) is None or answer.metadata.exit_code != 0:
        raise Failed(f"a command failed: {answer.content[:100]!r}")
    return str(answer.content)


async def answered(box: Any) -> None:
    """Connect, and have a first command answered."""
    await box.connect()
    if (output := await output_of(box, "echo first")) != "first":
        raise Failed(f"wrong answer to a first command: {output[:100]!r}")


def first_command(kind: str, host: Host, turn: int) -> float:
    """Seconds from the construction of the client's object; what is made once is there before."""

    async def work() -> float:
        began = time.perf_counter()
        box = host.make(kind)
        try:
            await answered(box)
            return time.perf_counter() - began
        finally:
            await box.close()

    if kind == POOL:
        host.fill_pool()
    elif turn == 0:
        host.run(work())
    found: float = host.run(work())
    return found


def crowd(kind: str, count: int, host: Host, turn: int) -> dict[str, float]:
    """So many clients ask for a box each, at the same moment."""
    boxes, there = [host.make(kind) for _ in range(count)], host.processes()

    async def start() -> None:
        async with asyncio.timeout(180):
            await asyncio.gather(*map(answered, boxes))

    async def end() -> None:
        await asyncio.gather(*(box.close() for box in boxes))

    began = time.perf_counter()
    try:
        host.run(start())
        found = {"seconds": time.perf_counter() - began}
        time.sleep(2.0)
        if kind == PROCESS:
            found["pss"] = pss(host.processes() - there) / count
        return found
    finally:
        host.run(end())


def bare_commands(count: int, host: Host, turn: int) -> Outcome:
    box = host.box()
    parts = urlsplit(box.url)
    site = Site((parts.hostname or "", parts.port or 0), box.session_api_key, box.workspace)
    return drive_through(site.address, [[OpenHandsApi(site).command("true")] * count], 120)


def await_commands(count: int, host: Host, turn: int) -> Outcome:
    box = host.box()

    async def work() -> Outcome:
        outcome = Outcome()
        for _ in range(count):
            began = time.perf_counter()
            await output_of(box, "true")
            outcome.values.append(1000 * (time.perf_counter() - began))
        return outcome

    found: Outcome = host.run(work())
    return found


def block_commands(count: int, host: Host, turn: int) -> Outcome:
    from glovebox import SyncRuntime

    box, outcome = host.box(), Outcome()
    with SyncRuntime(box.url, key=box.session_api_key) as runtime:
        for _ in range(count):
            began = time.perf_counter()
            runtime.run("true")
            outcome.values.append(1000 * (time.perf_counter() - began))
    return outcome


def copy(files: int, piece: int, pieces: int, host: Host, turn: int) -> dict[str, float]:
    """Once into the box and out of it again. Raises Failed if what arrives is not what was sent."""
    from glovebox.client.transfer import files as transfer

    box, amount = host.box(), files * pieces
    place = f"{box.workspace}/copied"
    with tempfile.TemporaryDirectory(prefix="glovebox-bench-") as folder:
        source, back, is_tree = f"{folder}/source", f"{folder}/back", files > 1
        make_files(Path(source), files, piece, pieces)
        host.run(output_of(box, f"rm -rf {place} && mkdir -p {place}"))
        peak, began = PeakGrowth(host.processes()), time.perf_counter()
        copied = source if is_tree else f"{source}/d0000/00"
        host.run(transfer.copy_to(box, copied, place, recursive=is_tree))
        found = {"in": amount / (time.perf_counter() - began), "grown_in": peak.megabytes() or 0.0}
        peak, began = PeakGrowth(host.processes()), time.perf_counter()
        archive = str(host.run(transfer.copy_from(box, place)))
        found |= {"out": amount / (time.perf_counter() - began), "grown_out": peak.megabytes() or 0.0}
        shutil.unpack_archive(archive, back, "zip")
        os.unlink(archive)
        if len({digest(one) for one in (source, place, back)}) > 1:
            raise Failed("the copy is not what was sent")
    return found


def digest(directory: str) -> str:
    """How many files there are, and a hash of all of them in the order of their names."""
    return subprocess.run(
        _DIGEST, shell=True, cwd=directory, capture_output=True, text=True, check=True
    ).stdout


def make_files(directory: Path, count: int, piece: int, pieces: int) -> None:
    """So many files of so many pieces of so many bytes."""
    block = os.urandom(piece)
    for number in range(count):
        path = directory / f"d{number // 100:04}" / f"{number % 100:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.writelines((number + place).to_bytes(8, "big") + block[8:] for place in range(pieces))


def command_line(name: str, backend: str, host: Host, turn: int) -> float:
    """`glovebox run` to its end, `glovebox shell` to its prompt, each with a box of its own."""
    if backend == "docker":
        host.container(CONTAINER)
    words = _COMMANDS[name][0].format(f"{sys.prefix}/bin/glovebox", backend).split()
    return _time_to_end(words) if name == "run" else _time_to_prompt(words, host.program.folder)


def _time_to_end(command: Sequence[str]) -> float:
    began = time.perf_counter()
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_COMMAND_LIMIT)
    except subprocess.SubprocessError as error:
        raise Failed(f"glovebox run: {error} {getattr(error, 'stderr', '')}"[:300]) from error
    return time.perf_counter() - began


def _time_to_prompt(command: list[str], folder: Path) -> float:
    began, seconds, shown = time.perf_counter(), 0.0, b""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], command, {**os.environ, "TERM": "xterm"})
    try:
        while select.select([terminal], [], [], max(0.0, began + _COMMAND_LIMIT - time.perf_counter()))[0]:
            shown += os.read(terminal, 65_536)
            if _PROMPT in shown and not seconds:
                seconds = time.perf_counter() - began
                os.write(terminal, b"exit\r")
    except OSError:  # how a terminal reports that its program has ended
        pass
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    if not seconds or status:
        raise Failed(f"glovebox shell: {shown.decode(errors='replace').strip()[-200:]}")
    return seconds


GROUP = Group("boxes", (OWN,), stages)
