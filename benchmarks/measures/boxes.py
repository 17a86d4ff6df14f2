"""Boxes as a host starts them: the first command, many at once, the cost of the client, copies."""

from __future__ import annotations

import hashlib
import os
import pty
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.connection import Site
from benchmarks.harness import (
    GIVEN,
    NOT_ASKED,
    NOT_OFFERED,
    OWN,
    REFERENCE,
    SWEREX,
    Group,
    Measure,
    Results,
    Sizes,
    table,
)
from benchmarks.load import drive_through
from benchmarks.peers.clients import OWN_IMAGE, Client, Engine, client_variables, find_engine, mount_arguments
from benchmarks.peers.host_clients import ASYNC, BUBBLEWRAP, CONTAINER, POOL, PROCESS, SYNC, Started
from benchmarks.peers.openhands import OpenHandsApi
from benchmarks.peers.server import Peer
from benchmarks.processes import Failed, PeakGrowth, Program, pss
from benchmarks.report import Aim, below, times

SIZES = {
    # Of each kind; one more as a process, which then does the rest.
    "starts": (9, 1),
    # Of the reference's own server, which takes long.
    "slow_starts": (1, 0),
    # `true` in each way, of this project's client and of the others, divided into rounds.
    "commands": (1_500, 60),
    "slow_commands": (60, 6),
    "rounds": (3, 1),
    "copy_megabytes": (1_000, 100),
    "copy_files": (10_000, 500),
    "copies": (2, 1),
    # Boxes at once, whether the reference starts as many of its own servers, and how long a client may take.
    "crowd": (20, 3),
    "has_slow_crowd": (True, False),
    "crowd_seconds": (180.0, 30.0),
    # Seconds before memory is measured.
    "settle": (2.0, 0.5),
    # Of `glovebox run` and `glovebox shell` with each backend.
    "whole_commands": (7, 1),
}
KINDS = {
    PROCESS: "a process of this machine",
    BUBBLEWRAP: "a process within bubblewrap",
    CONTAINER: "a container",
    POOL: "a container that the warm pool had ready",
}
_FIRST_ROW = """
s ↓ | new client to the answer of a first command, {label} ({runs}) | first.{kind}:median | not in this run
"""
_COMMAND_ROWS = """
s ↓ | `glovebox run --backend process -- true`, the whole command ({runs}) | run.process:median
s ↓ | `glovebox run --backend docker -- true`, the whole command ({runs}) | run.container:median
s ↓ | `glovebox shell --backend process`, until its prompt is there ({runs}) | shell.process:median
s ↓ | `glovebox shell --backend docker`, until its prompt is there ({runs}) | shell.container:median
"""
_CROWD_ROWS = """
s ↓ | {label}, until all have answered a command | crowd.{kind}:last
MB ↓ | {label}, memory of each, all processes (PSS) | crowd.{kind}.pss:last | in the client's process
"""
_TRUE_ROWS = """
ms ↓ | `true` in a process of this machine by bare HTTP; p50 / p95 | true.bare:p50 true.bare:p95 | not offered
ms ↓ | `true` in a process of this machine by the client, `await`; p50 / p95 \
 | true.async:p50 true.async:p95 | not offered
ms ↓ | `true` in a process of this machine by the client that blocks; p50 / p95 \
 | true.sync:p50 true.sync:p95 | not offered
ms ↓ | what the client adds to bare HTTP, p50 | true.added:last | not offered
"""
_COPY_ROWS = """
{unit} ↑ | {label} into the box | copy.{load}.in:median
MB ↓ | {label} into the box, peak growth of memory, client / box \
 | copy.{load}.in.client:median copy.{load}.in.box:median
{unit} ↑ | {label} out of the box | copy.{load}.out:median
MB ↓ | {label} out of the box, peak growth of memory, client / box \
 | copy.{load}.out.client:median copy.{load}.out.box:median
"""
_BACKENDS = {PROCESS: "process", CONTAINER: "docker"}
_BARE = "bare"
_WAYS_OF = {OWN: (_BARE, ASYNC, SYNC), REFERENCE: (_BARE, SYNC), SWEREX: (ASYNC,)}
_COMMANDS = {"run": "{} run --backend {} -- true", "shell": "{} shell --backend {}"}
_SMALL = 2_000
#: What a server of the reference's own takes; more of them than fit are not started.
_REFERENCE_MEMORY = 800 * 1024**2
_COMMAND_LIMIT = 120.0
#: What the shells of boxes print after their prompt; no terminal shows it.
_PROMPT = b"\x1b]1807;B;"
#: Prints how many files there are, and a hash of all of them in the order of their names.
_DIGEST = (
    "cd {directory} && find . -type f | wc -l && "
    "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum | cut -d ' ' -f 1"
)


def measures(size: Sizes) -> list[Measure]:
    rows = [
        row for kind, label in KINDS.items() for row in table(_FIRST_ROW, "boxes: ", kind=kind, label=label)
    ]
    rows += table(_COMMAND_ROWS, "boxes: ")
    for kind in _BACKENDS:
        label = f"{size.crowd} at once, {KINDS[kind]}"
        rows += table(_CROWD_ROWS, "boxes: ", kind=kind, label=label)
    rows += table(_TRUE_ROWS, "boxes: ")
    file, tree = f"a file of {size.copy_megabytes} MB", f"{size.copy_files} files of {_SMALL // 1000} kB"
    rows += table(_COPY_ROWS, "boxes: ", label=file, load="file", unit="MB/s")
    return rows + table(_COPY_ROWS, "boxes: ", label=tree, load="tree", unit="files/s")


#: How the container engine is found.
Finding = Callable[[], AbstractContextManager[Engine]]


def run(results: Results, peers: Sequence[Peer], find: Finding = find_engine) -> None:
    with ExitStack() as stack:
        engine = _engine(results, stack, find)
        clients = _clients(results, peers, engine, stack)
        _measure_first(results, clients)
        try:
            boxes = _keep_boxes(results, clients)
            _measure_true(results, clients, boxes)
            measure_copies(results, clients, boxes)
        finally:
            for client in clients:
                with results.excusing(client.name):
                    client.end_boxes()
        _measure_crowds(results, clients)
        _measure_commands(results, engine)


def _engine(results: Results, stack: ExitStack, find: Finding) -> Engine | None:
    """The container engine, if there is one; without it the rows about containers have a reason."""
    for name in results.names:
        if name != OWN:
            results.excuse(name, NOT_OFFERED, f"first.{BUBBLEWRAP}", f"first.{POOL}", "run", "shell")
    if shutil.which("bwrap") is None:
        results.excuse(OWN, "bubblewrap is missing", f"first.{BUBBLEWRAP}")
    try:
        engine = stack.enter_context(find())
    except Failed as problem:
        results.say(f"without containers: {problem}")
        for name in results.names:
            series = (f"{what}.{CONTAINER}" for what in ("first", "crowd", "run", "shell"))
            results.excuse(name, str(problem), *series, f"first.{POOL}")
        return None
    results.notes.append(f"containers: {engine.version()}, image {engine.image}")
    if not engine.has_own_image:
        reason = f"there is no image {OWN_IMAGE}, and its own is not built here"
        results.excuse(REFERENCE, reason, f"first.{CONTAINER}", f"crowd.{CONTAINER}")
    return engine


def _clients(
    results: Results, peers: Sequence[Peer], engine: Engine | None, stack: ExitStack
) -> list[Client]:
    """Those that start; all import what they need at the same time."""
    started = []
    for peer in peers:
        with results.excusing(peer.name):
            if peer.given_url:
                raise Failed(GIVEN)
            started.append((peer, stack.enter_context(Client(peer.name, engine))))
    clients = []
    for peer, client in started:
        with results.excusing(client.name):
            mounts = mount_arguments(client.python, stack) if client.name == SWEREX and engine else ()
            image = engine.image if engine else ""
            client.wait_ready(client.mark, image, tuple(mounts), not getattr(peer, "is_bare", False))
            clients.append(client)
    return clients


def _measure_first(results: Results, clients: Sequence[Client]) -> None:
    """Start boxes of every kind, one alone at a time, the clients in turns."""
    for kind in KINDS:
        series, steps = f"first.{kind}", list[tuple[float, ...]]()
        for client in clients:
            if client.name == OWN and not results.reason(OWN, series):
                with results.excusing(OWN, series, optional=kind != PROCESS):
                    _start_and_end(client, kind)  # what is made once is there then
        for turn, client in results.turns(results.size.starts, clients, series):
            is_slow = (client.name, kind) == (REFERENCE, PROCESS)
            if is_slow and turn >= results.size.slow_starts:
                continue
            with results.excusing(client.name, series, optional=kind != PROCESS):
                started, parts = _start_and_end(client, kind)
                results.add(client.name, series, started.seconds)
                if client.name == OWN:
                    steps.append(parts)
        if steps:
            results.notes.append(_steps_note(kind, steps))


def _start_and_end(client: Client, kind: str) -> tuple[Started, tuple[float, ...]]:
    """Start a box and end it; how long each step took, of a container by the engine's own events."""
    try:
        started = client.ask("begin", kind)
        times: tuple[float, ...] = (started.made, started.connected, started.answered)
        if kind == CONTAINER and client.engine and client.name == OWN:
            at = client.engine.times(f"glovebox-{started.name}", started.made, started.answered)
            if {"create", "start"} <= at.keys():
                times = (started.made, at["create"], at["start"], started.connected, started.answered)
    finally:
        client.end_boxes()
    return started, tuple(after - before for before, after in pairwise(times))


def _steps_note(kind: str, steps: Sequence[tuple[float, ...]]) -> str:
    length = max(map(len, steps))
    words: tuple[str, ...] = ("the box answers after", "a first command")
    if length > 2:
        words = ("the engine has created it after", "started it", "the box answers", "a first command")
    medians = map(statistics.median, zip(*(one for one in steps if len(one) == length), strict=True))
    shown = ", ".join(f"{word} {1000 * value:.0f} ms" for word, value in zip(words, medians, strict=True))
    return f"a first command, {KINDS[kind]}: {shown} (medians of the steps)"


def _keep_boxes(results: Results, clients: Sequence[Client]) -> dict[str, Started]:
    """A box of each as a process of this machine, which then does the rest; its start counts, too."""
    boxes: dict[str, Started] = {}
    for _, client in results.turns(1, clients, f"first.{PROCESS}"):
        with results.excusing(client.name, f"first.{PROCESS}", "true", "copy"):
            boxes[client.name] = client.ask("begin", PROCESS)
            results.add(client.name, f"first.{PROCESS}", boxes[client.name].seconds)
    return boxes


def _measure_true(results: Results, clients: Sequence[Client], boxes: Mapping[str, Started]) -> None:
    """`true` in a box of each, by its client and by bare HTTP, in turns and rounds."""
    size = results.size
    for _, client in results.turns(size.rounds, [one for one in clients if one.name in boxes], "true"):
        number = max(1, (size.commands if client.name == OWN else size.slow_commands) // size.rounds)
        for way in _WAYS_OF[client.name]:
            with results.excusing(client.name, "true"):
                if way == _BARE:
                    taken = _bare_commands(boxes[client.name], number)
                else:
                    taken = client.ask("await_commands" if way == ASYNC else "block_commands", number)
                results.add(client.name, f"true.{way}", *taken)
    for name in boxes:
        way = ASYNC if results.figure(f"true.{ASYNC}:p50", name) else SYNC
        by_client, bare = (results.figure(f"true.{one}:p50", name) for one in (way, _BARE))
        if by_client and bare and by_client > bare:
            results.add(name, "true.added", by_client - bare)
        elif by_client and bare:
            results.excuse(name, "lost in the noise", "true.added")


def _bare_commands(box: Started, number: int) -> list[float]:
    parts = urlsplit(box.url)
    site = Site((parts.hostname or "", parts.port or 0), box.key, box.workspace)
    script = [OpenHandsApi(site).command("true") for _ in range(number)]
    outcome = drive_through(site.address, [script], 120)
    if outcome.right < number:
        raise Failed(f"wrong or missing answers: {outcome.example or outcome.unanswered}")
    return outcome.values


@dataclass(frozen=True)
class Load:
    """What is copied, and the digest of its files in the order of their names."""

    series: str
    directory: Path
    amount: int
    files: int
    digest: str


def measure_copies(results: Results, clients: Sequence[Client], boxes: Mapping[str, Started]) -> None:
    """A large file and a tree of small ones; every copy is compared with what was sent."""
    results.excuse(SWEREX, "it copies in the client's own process, or to a container only", "copy")
    for name in results.names:
        if name not in boxes:
            results.excuse(name, results.reason(name, f"first.{PROCESS}") or NOT_ASKED, "copy")
    with tempfile.TemporaryDirectory(prefix="glovebox-bench-") as folder:
        size = results.size
        file = _make_load("file", Path(folder, "one"), 1, 1_000_000, size.copy_megabytes)
        for load in (file, _make_load("tree", Path(folder, "many"), size.copy_files, _SMALL, 1)):
            for _, client in results.turns(results.size.copies, clients, "copy"):
                with results.excusing(client.name, "copy"):
                    _copy(results, client, f"{boxes[client.name].workspace}/copied", load)


def _make_load(series: str, directory: Path, count: int, piece: int, pieces: int) -> Load:
    """So many files of so many pieces of so many bytes, on the disk of this machine."""
    block, whole = os.urandom(piece), hashlib.sha256()
    for number in range(count):
        path = directory / f"d{number // 100:04}" / f"{number % 100:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            for place in range(pieces):
                file.write(content := (number + place).to_bytes(8, "big") + block[8:])
                whole.update(content)
    return Load(series, directory, count * pieces, count, whole.hexdigest())


def _copy(results: Results, client: Client, place: str, load: Load) -> None:
    """Once into the box and out of it again. Raises Failed if what arrives is not what was sent."""
    name = f"copy.{load.series}"
    client.ask("output", f"rm -rf {place} && mkdir -p {place}")
    with _growth(results, client, f"{name}.in"):
        source = load.directory if load.files > 1 else load.directory / "d0000" / "00"
        seconds = client.ask("copy_in", str(source), place, load.files > 1)
    seen = client.ask("output", _DIGEST.format(directory=place)).split()
    if seen != [str(load.files), load.digest]:
        raise Failed(f"the box has something else than {load.series}: {' '.join(seen)[:100]}")
    results.add(client.name, f"{name}.in", load.amount / seconds)
    with _growth(results, client, f"{name}.out"):
        seconds, archive = client.ask("copy_out", place)
    try:
        if _archive_digest(Path(archive)) != (load.files, load.digest):
            raise Failed(f"something else than {load.series} came out of the box")
    finally:
        Path(archive).unlink()
    results.add(client.name, f"{name}.out", load.amount / seconds)


@contextmanager
def _growth(results: Results, client: Client, series: str) -> Iterator[None]:
    peaks = {"client": PeakGrowth([psutil.Process(client.pid)]), "box": PeakGrowth(client.boxes())}
    yield
    for who, peak in peaks.items():
        growth = peak.megabytes()
        if growth is not None:  # or the kernel does not say
            results.add(client.name, f"{series}.{who}", growth)


def _archive_digest(archive: Path) -> tuple[int, str]:
    """How many files an archive has, and a hash of all of them in the order of their names."""
    whole = hashlib.sha256()
    with zipfile.ZipFile(archive) as files:
        names = sorted(name for name in files.namelist() if not name.endswith("/"))
        for name in names:
            with files.open(name) as file:
                while piece := file.read(1 << 20):
                    whole.update(piece)
    return len(names), whole.hexdigest()


def _measure_crowds(results: Results, clients: Sequence[Client]) -> None:
    """Start many boxes at once, of each kind that several have."""
    size = results.size
    for kind in _BACKENDS:
        series = f"crowd.{kind}"
        if kind == PROCESS and not size.has_slow_crowd:
            results.excuse(REFERENCE, NOT_ASKED, series)
        elif kind == PROCESS and psutil.virtual_memory().available < size.crowd * _REFERENCE_MEMORY:
            results.excuse(REFERENCE, f"{size.crowd} of its servers may not fit into the free memory", series)
        for _, client in results.turns(1, clients, series):
            with results.excusing(client.name, series, optional=kind != PROCESS):
                try:
                    taken = client.ask("begin_many", kind, size.crowd, limit=size.crowd_seconds)
                    results.add(client.name, series, taken)
                    if (client.name, kind) != (SWEREX, PROCESS):
                        time.sleep(size.settle)
                        results.add(client.name, f"{series}.pss", pss(client.boxes()) / size.crowd)
                finally:
                    client.end_boxes()


def _measure_commands(results: Results, engine: Engine | None) -> None:
    """The command line with a box of its own: `glovebox run` to its end, `glovebox shell` to its prompt."""
    for name, command in _COMMANDS.items():
        for kind, backend in _BACKENDS.items():
            series, time_it = f"{name}.{kind}", _time_to_end if name == "run" else _time_to_prompt
            for _ in range(results.size.whole_commands):
                if not results.reason(OWN, series):
                    with results.excusing(OWN, series, optional=kind != PROCESS), Program() as program:
                        variables = {**program.environment(), **client_variables(program.folder, engine)}
                        variables |= {"GLOVEBOX_IMAGE": engine.image} if engine else {}
                        words = command.format(f"{sys.prefix}/bin/glovebox", backend).split()
                        results.add(OWN, series, time_it(words, variables, program.folder))


def _time_to_end(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> float:
    began = time.perf_counter()
    try:
        options: Any = {"env": variables, "cwd": folder, "timeout": _COMMAND_LIMIT}
        subprocess.run(command, capture_output=True, text=True, check=True, **options)
    except subprocess.SubprocessError as error:
        raise Failed(f"glovebox run: {error} {getattr(error, 'stderr', '')}"[:300]) from error
    return time.perf_counter() - began


def _time_to_prompt(command: list[str], variables: Mapping[str, str], folder: Path) -> float:
    began, seconds, shown = time.perf_counter(), 0.0, b""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], command, {**variables, "TERM": "xterm"})
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


def aims(results: Results) -> list[Aim]:
    figure = results.figure
    theirs, ours = (figure(f"first.{PROCESS}:median", name) for name in (REFERENCE, OWN))
    container = figure(f"first.{CONTAINER}:median")
    reference = times("a process, to the answer of a first command: the reference's is", theirs, ours, 10)
    shells = [
        below(f"`glovebox shell --backend {backend}` to its prompt", figure(f"shell.{kind}:median"), 1.0, "s")
        for kind, backend in _BACKENDS.items()
    ]
    first = below("a container, to the answer of a first command", container, 0.5, "s")
    others = [reference] if REFERENCE in results.names else []
    return [
        first,
        *others,
        *shells,
        below("what the client adds to bare HTTP, p50", figure("true.added:last"), 1.0, "ms"),
    ]


GROUP = Group(SIZES, measures, run, aims)
