"""Servers: start and end, single requests at several numbers of clients, large files, memory."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial

from benchmarks.connection import Answers, parsed
from benchmarks.harness import OWN, SERVERS, Group, Measure, Stage, choose
from benchmarks.load import Outcome, drive, quantile
from benchmarks.peers.openhands import CELL_PLUGINS, Glovebox
from benchmarks.peers.server import Peer, Server
from benchmarks.processes import Failed, PeakGrowth, Unavailable, in_child, pss

#: The single requests, in the order of the report.
OPERATIONS = {
    "alive": "GET /alive",
    "read": "read, 1 kB",
    "view": "read through the editor",
    "write": "write, 200 B",
    "edit": "edit, str_replace",
    "list": "list_files, 50 entries",
    "run": "run `echo hi`",
    "static": "run `echo hi`, is_static",
    "ipython": "run_ipython `print`",
}
_START_ROWS = """
s ↓ | start to first `/alive` answer ({runs}) | alive:median | ≤ 0.3
s ↓ | start to end of a first command ({runs}) | command:median
MB ↓ | memory after a first command, all processes (PSS) | pss:median
 | processes after a first command | processes:median
s ↓ | SIGTERM to exit; 20 s at most ({runs}) | stop:median
 | processes left behind after exit | left:median | = 0
"""
_REQUEST_ROWS = "ms ↓ | {label}, p50 / p95 | :p50 :p95\nreq/s ↑ | {label} | :rate"
_BESIDE_ROWS = """
ms ↓ | GET /alive in turns with read and write, p50 | alive:p50
ms ↓ | read, 1 kB in turns with GET /alive, p50 | read:p50 | ≤ 1.8 × beside.alive:p50
ms ↓ | write, 200 B in turns with GET /alive, p50 | write:p50 | ≤ 2.4 × beside.alive:p50
"""
_TRANSFER_ROWS = """
MB/s ↑ | {label} | rate:median
MB ↓ | {label}, peak growth of memory (RSS) | growth:max
"""
#: Background work after the start (plugins, caches) is over after these seconds.
_SETTLE = 2.0
#: How servers of the OpenHands API answer an action they do not know.
_UNKNOWN = ("is not defined", "has no attribute", "Requirement not found")
_FILE = "large.bin"
_LIMIT = 90.0
#: Makes the files that the requests use.
_MAKE_FILES = (
    '( set -e; mkdir -p {0}; cd {0}; seq -f "line %02g of a small file" 0 41 > read.txt; mkdir -p list; '
    "touch list/f{{00..39}}; mkdir -p list/d{{0..9}}; echo ready )"
)


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    starts = [Measure("start", start, _START_ROWS, count=n(5, 1), seconds=45)]
    requests = [Measure("beside", beside, _BESIDE_ROWS, count=n(20, 10))]
    for name, label in OPERATIONS.items():
        for clients in n((1, 8, 32), (1, 8)):
            shown = f"{label}; {clients} client{'s' if clients > 1 else ''}"
            rows = _REQUEST_ROWS.format(label=shown)
            call = partial(load, name, clients, n(0.4, 0.2))
            requests.append(Measure(f"{name}.{clients}", call, rows, n(3, 1), seconds=6, scope=name))
    for name, transfer in (("upload", upload), ("download", download)):
        rows = _TRANSFER_ROWS.format(label=f"{name} of {n(100, 20)} MB")
        requests.append(Measure(name, partial(transfer, n(100, 20)), rows, n(3, 1)))
    row = "MB ↓ | memory after all of the above, all processes (PSS) | :median"
    requests.append(Measure("memory", lambda server, _: pss(server.processes()), row))
    return [Stage(nullcontext, starts), Stage(with_files, requests)]


def start(peer: Peer, turn: int) -> dict[str, float]:
    with peer.start() as server:
        found = {"alive": server.wait_alive(), "command": server.open()}
        time.sleep(_SETTLE)
        processes = server.processes()
        found |= {"pss": pss(processes), "processes": len(processes)}
        found["stop"], found["left"] = server.stop()
    return found


@contextmanager
def with_files(peer: Peer) -> Iterator[Server]:
    """A server with the files that the requests use; a box that can run cells, as the reference can."""
    with (Glovebox(*CELL_PLUGINS) if peer.name == OWN else peer).running() as server:
        make_files(server)
        yield server


def make_files(server: Server) -> None:
    status, body = 0, b""
    for _ in range(3):
        status, body = server.exchange(server.api.command(_MAKE_FILES.format(server.site.folder)).raw)
        if server.api.output(parsed(body)).endswith("ready"):
            return
    raise Failed(f"cannot make its files: HTTP {status} {body[:100]!r}")


def beside(server: Server, turn: int) -> dict[str, float]:
    """Short turns of each, so that noise of the machine meets all."""
    return {name: quantile(load(name, 1, 0.1, server, 1).values, 0.5) for name in ("alive", "read", "write")}


def load(name: str, clients: int, seconds: float, server: Server, turn: int) -> Outcome:
    scripts = [server.api.script(name, client) for client in range(clients)]
    if clients == 1 and turn == 0:
        probe(server, name)
    for client in range(clients):
        for request in server.api.prepare(name, client):
            server.exchange(request.raw)
    return drive(server.site.address, scripts, seconds, _LIMIT)


def probe(server: Server, name: str) -> None:
    """Ask once or more, as the first may have to start something. Failed: the server cannot do it."""
    request, problem = server.api.script(name, 0)[0], Failed("no answer")
    for _ in range(3):
        for one in server.api.prepare(name, 0):
            server.exchange(one.raw)
        status, body = server.exchange(request.raw)
        if request.accepts(status, body):
            return
        text = body.decode(errors="replace")
        if status == 404 or (status >= 400 and any(words in text for words in _UNKNOWN)):
            raise Unavailable
        problem = Failed(f"wrong answer: HTTP {status} {text[:200]}")
    raise problem


@cache
def _content(megabytes: int) -> bytes:
    return os.urandom(1_000_000) * megabytes


def _transfer(server: Server, content: bytes, move: Callable[[], float]) -> dict[str, float]:
    peak = PeakGrowth(server.processes())
    seconds = in_child(move, _LIMIT)
    growth = peak.megabytes()
    return {"rate": len(content) / 1e6 / seconds, **({} if growth is None else {"growth": growth})}


def upload(megabytes: int, server: Server, turn: int) -> dict[str, float]:
    """The server's shell then computes the digest of what arrived."""
    folder, content = f"{server.site.folder}/transfer", _content(megabytes)
    pieces = server.api.upload(folder, _FILE, content)
    found = _transfer(server, content, lambda: _converse(server, pieces, room=1 << 20)[1])
    expected = hashlib.sha256(content).hexdigest()
    for _ in range(3):
        _, body = server.exchange(server.api.command(f"sha256sum {folder}/{_FILE}").raw)
        if server.api.output(parsed(body)).startswith(expected):
            return found
    raise Failed("the file did not arrive as it was sent")


def download(megabytes: int, server: Server, turn: int) -> dict[str, float]:
    """What was uploaded; the archive is then unpacked and compared."""
    raw, content = server.api.download(f"{server.site.folder}/transfer"), _content(megabytes)

    def work() -> float:
        body, took = _converse(server, [raw], room=len(content) + (1 << 20))
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                if archive.read(_FILE) == content:
                    return took
        except (zipfile.BadZipFile, KeyError) as error:
            raise Failed(f"not the archive that was expected: {error}") from error
        raise Failed("the file came back changed")

    return _transfer(server, content, work)


def _converse(server: Server, pieces: Sequence[bytes], room: int) -> tuple[bytes, float]:
    """Send everything, then receive until the server closes; the body of the answer and the seconds."""
    received = bytearray(b"\1") * room  # not zeros: the pages have to exist before the clock runs
    view, at, began = memoryview(received), 0, time.perf_counter()
    try:
        with socket.create_connection(server.site.address, timeout=_LIMIT) as connection:
            for piece in pieces:
                connection.sendall(piece)
            while count := connection.recv_into(view[at : at + (1 << 20)]):
                at += count
    except OSError as error:
        raise Failed(f"the connection broke: {error}") from error
    took = time.perf_counter() - began
    answer = Answers(io.BytesIO(view[:at]).read)
    head = answer.head()
    if head.status != 200 or at == room:
        raise Failed(f"HTTP {head.status}, {at} bytes")
    return answer.body(head), took


GROUP = Group("server", SERVERS, stages)
