"""Boxes as a host starts them: first command, many at once, cost of the client, command line."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.connection import Site
from benchmarks.harness import OWN, Group, Measure, Stage, choose, say
from benchmarks.load import drive_through, quantile
from benchmarks.peers.engine import Engine, find_engine
from benchmarks.peers.openhands import OpenHandsApi
from benchmarks.peers.server import cache_folder
from benchmarks.processes import Failed, Program, Unavailable, pss

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
    "run": ("{} run --backend {} -- true", "s ↓ | `{}`, the whole command ({{runs}}) | :median"),
    "shell": ("{} shell --backend {}", "s ↓ | `{}`, until its prompt is there ({{runs}}) | :median | < 1"),
}
_CROWD_ROW = "s ↓ | {0}, until all have answered a command | seconds:median"
_CROWD_MEMORY_ROW = "\nMB ↓ | {0}, memory of each, all processes (PSS) | pss:median"
_TRUE_ROWS = """
ms ↓ | `true` by the client / by bare HTTP, in turns; p50 | client:median bare:median
ms ↓ | what the client adds to bare HTTP, p50 | added:median | < 1
"""
_BACKENDS = {PROCESS: "process", CONTAINER: "docker"}
_COMMAND_LIMIT = 120.0
#: What the shells of boxes print after their prompt; no terminal shows it.
_PROMPT = b"\x1b]1807;B;"


def stages(quick: bool, find: Callable[[], AbstractContextManager[Engine]] = find_engine) -> list[Stage]:
    n = choose(quick)
    first = [
        Measure(f"first.{kind}", partial(first_command, kind), _FIRST_ROW.format(label, target), n(9, 1))
        for kind, label in KINDS.items()
        for target in (" | < 0.5" if kind == CONTAINER else "",)
    ]
    at_once = f"{n(20, 3)} at once"
    crowds = [
        Measure(f"crowd.{kind}", partial(crowd, kind, n(20, 3)), row.format(f"{at_once}, {KINDS[kind]}"))
        for kind, row in ((PROCESS, _CROWD_ROW + _CROWD_MEMORY_ROW), (CONTAINER, _CROWD_ROW))
    ]
    lines = [
        Measure(f"{name}.{kind}", partial(command_line, name, backend), row.format(shown), n(7, 1))
        for name, (words, row) in _COMMANDS.items()
        for kind, backend in _BACKENDS.items()
        for shown in (words.format("glovebox", backend),)
    ]
    true = Measure("true", partial(true_by_client, n(300, 60)), _TRUE_ROWS, n(5, 1))
    return [Stage(partial(host, find), [*first, true, *crowds, *lines])]


@dataclass(frozen=True)
class Host:
    """This process as the host of boxes, with the variables of a user that has nothing."""

    program: Program
    engine: Engine | None
    no_engine: str

    def spec(self, kind: str) -> Any:
        """The backend and the box of a kind."""
        from glovebox import BoxSpec

        if kind in (PROCESS, BUBBLEWRAP):
            if kind == BUBBLEWRAP and shutil.which("bwrap") is None:
                raise Unavailable("bubblewrap is missing")
            return "process", BoxSpec(isolation="bubblewrap" if kind == BUBBLEWRAP else "none")
        if self.engine is None:
            raise Unavailable(self.no_engine)
        if kind == GVISOR and not self.engine.has_gvisor:
            raise Unavailable("the engine has no gVisor")
        return "docker", BoxSpec(image=self.engine.image, runtime="runsc" if kind == GVISOR else "")

    def processes(self) -> set[psutil.Process]:
        """All processes of boxes on this machine."""
        return self.program.processes() | set(psutil.Process().children(recursive=True))


@contextmanager
def host(find: Callable[[], AbstractContextManager[Engine]], peer: object) -> Iterator[Host]:
    with ExitStack() as stack:
        program, engine, no_engine = stack.enter_context(Program()), None, ""
        try:
            engine = stack.enter_context(find())
        except Failed as problem:
            no_engine = str(problem)
            say(f"boxes: without containers: {problem}")
        stack.callback(os.environ.update, dict(os.environ))
        stack.callback(os.environ.clear)
        variables = program.environment()
        os.environ.clear()
        os.environ.update(variables, XDG_STATE_HOME=str(program.folder / "state"))
        # What is put into images is made once, and then kept with what else was installed.
        os.environ.update({"XDG_CACHE_HOME": str(cache_folder())})
        os.environ.update({**engine.variables(), "GLOVEBOX_IMAGE": engine.image} if engine else {})
        yield Host(program, engine, no_engine)


@contextmanager
def opened_box(host: Host, kind: str) -> Iterator[Any]:
    """A box that has answered a first command."""
    from glovebox import SyncRuntime
    from glovebox.errors import GloveboxError

    backend, spec = host.spec(kind)
    try:
        with SyncRuntime(backend, spec) as box:
            if (output := box.run("echo first").content) != "first":
                raise Failed(f"wrong answer to a first command: {output[:100]!r}")
            yield box
    except (GloveboxError, OSError) as error:
        raise Failed(f"{type(error).__name__}: {error}"[:300]) from error


def first_command(kind: str, host: Host, turn: int) -> float:
    """Seconds from the construction of the client's object; what is made once is there before."""
    if kind == POOL:
        return asyncio.run(_first_of_pool(host.spec(kind)[1]))
    if turn == 0:
        with opened_box(host, kind):
            pass
    began = time.perf_counter()
    with opened_box(host, kind):
        return time.perf_counter() - began


async def _first_of_pool(spec: Any) -> float:
    from glovebox import Runtime
    from glovebox.backends.pool import WarmPool
    from glovebox.client import registry
    from glovebox.settings import host as host_settings

    pool = WarmPool(registry.open_backend("docker", host_settings.load()), spec, 1)
    pool.fill()
    try:
        async with asyncio.timeout(120):
            while pool.ready < 1:  # noqa: ASYNC110 - it has no event for that
                await asyncio.sleep(0.01)
        began = time.perf_counter()
        async with Runtime(pool, spec) as box:
            await box.run("echo first")
            return time.perf_counter() - began
    finally:
        await pool.close()


def crowd(kind: str, count: int, host: Host, turn: int) -> dict[str, float]:
    """So many clients ask for a box each, at the same moment."""
    host.spec(kind)
    boxes, there, began = [ExitStack() for _ in range(count)], host.processes(), time.perf_counter()
    with ThreadPoolExecutor(count) as threads:
        try:
            for _ in threads.map(lambda box: box.enter_context(opened_box(host, kind)), boxes):
                pass
            found = {"seconds": time.perf_counter() - began}
            time.sleep(2.0)
            if kind == PROCESS:
                found["pss"] = pss(host.processes() - there) / count
        finally:
            for _ in threads.map(ExitStack.close, boxes):
                pass
    return found


def true_by_client(count: int, host: Host, turn: int) -> dict[str, float]:
    """The same command in the same box, by the client and with prebuilt requests over a raw socket."""
    with opened_box(host, PROCESS) as box:
        parts, taken = urlsplit(box.url), list[float]()
        site = Site((parts.hostname or "", parts.port or 0), box.session_api_key, box.workspace)
        for _ in range(count):
            began = time.perf_counter()
            box.run("true")
            taken.append(1000 * (time.perf_counter() - began))
        outcome = drive_through(site.address, [[OpenHandsApi(site).command("true")] * count], 120)
    if outcome.bad:
        raise Failed(f"wrong or missing answers: {outcome.example}")
    client, bare = quantile(taken, 0.5), quantile(outcome.values, 0.5)
    return {"client": client, "bare": bare, "added": client - bare}


def command_line(name: str, backend: str, host: Host, turn: int) -> float:
    """`glovebox run` to its end, `glovebox shell` to its prompt, each with a box of its own."""
    if backend == "docker":
        host.spec(CONTAINER)
    words = _COMMANDS[name][0].format(f"{sys.prefix}/bin/glovebox", backend).split()
    if name == "shell":
        return _time_to_prompt(words, host.program.folder)
    began = time.perf_counter()
    try:
        subprocess.run(words, capture_output=True, text=True, check=True, timeout=_COMMAND_LIMIT)
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
