"""Servers: start and end, single requests at several numbers of clients, large files, memory."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.connection import Answers, parsed
from benchmarks.harness import GIVEN, OWN, Group, Measure, Results, Sizes, table
from benchmarks.load import Outcome, drive
from benchmarks.peers.openhands import CELL_PLUGINS, Glovebox
from benchmarks.peers.server import HERE, Peer, Server, start_all
from benchmarks.processes import Failed, NotOffered, PeakGrowth, in_child, pss

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
    "glob": "glob, 100 of 240 files",
    "grep": "grep, 1 line in 240 files",
    "stat": "stat",
    "mkdir": "mkdir and delete in turn",
    "ipython": "run_ipython `print`",
}
#: What `--only` takes of this group.
NAMES = ("start", *OPERATIONS, "upload", "download", "memory")
SIZES = {
    "starts": (5, 1),
    "slow_starts": (3, 1),
    "has_cold_start": (True, False),
    "clients": ((1, 8, 32), (1, 8)),
    # Load per server, operation and number of clients, divided into rounds.
    "seconds": (1.2, 0.2),
    "rounds": (3, 1),
    # One client with a slow server: this long at most.
    "slow_seconds": (6.0, 1.5),
    "megabytes": (100, 20),
    "transfers": (3, 1),
    "wanted": (frozenset(NAMES), frozenset(NAMES)),
}
_START_ROWS = """
s ↓ | start to first `/alive` answer ({runs}) | start.alive:median
s ↓ | start to first `/alive` answer, files not in memory (1 run) | start.cold:last
s ↓ | start to end of a first command ({runs}) | start.command:median
MB ↓ | memory after a first command, all processes (PSS) | start.pss:median
 | processes after a first command | start.processes:median
s ↓ | SIGTERM to exit ({runs}) | start.stop:median | did not end within 20 s
 | processes left behind after exit | start.left:median
"""
_REQUEST_ROWS = """
ms ↓ | {label}, p50 / p95 | {series}:p50 {series}:p95
req/s ↑ | {label} | {series}:rate
"""
_TRANSFER_ROWS = """
MB/s ↑ | {name} of {megabytes} MB | {name}.rate:median
MB ↓ | {name} of {megabytes} MB, peak growth of memory (RSS) | {name}.growth:max | not measurable from here
"""
_MEMORY_ROW = "MB ↓ | memory after all of the above, all processes (PSS) | memory:last | given by its address"
#: Background work after the start (plugins, caches) is over after these seconds.
_SETTLE = 2.0
#: A server that takes longer to start is started less often.
SLOW_START = 5.0
#: A server that takes longer for one round of all clients is loaded once, not in several rounds.
_LONG_ROUND = 1.0
#: One client should send this many requests, as long as that does not take too long.
_SAMPLES = 20
#: How servers of the OpenHands API answer an action they do not know.
_UNKNOWN = ("is not defined", "has no attribute", "Requirement not found")
_FILE = "large.bin"
_LIMIT = 60.0
#: Makes the files that the requests use.
_MAKE_FILES = (
    '( set -e; mkdir -p {0}; cd {0}; seq -f "line %02g of a small file" 0 41 > read.txt; mkdir -p list; '
    "touch list/f{{00..39}}; for d in {{0..9}}; do mkdir -p list/d$d; for f in {{0..9}}; do "
    'echo "value = $d$f" > list/d$d/m$f.py; echo "note $d$f" > list/d$d/n$f.txt; done; done; echo ready )'
)


def measures(size: Sizes) -> list[Measure]:
    rows = table(_START_ROWS) if "start" in size.wanted else []
    if not size.has_cold_start:
        rows = [row for row in rows if "cold" not in row.figures]
    for name in (name for name in OPERATIONS if name in size.wanted):
        labels = {n: f"{OPERATIONS[name]}; {n} client{'s' if n > 1 else ''}" for n in size.clients}
        for clients, label in labels.items():
            rows += table(_REQUEST_ROWS, label=label, series=f"{name}.{clients}")
        wrong = " ".join(f"{name}.{clients}:wrong" for clients in size.clients)
        rows.append(Measure(f"{OPERATIONS[name]}; wrong or missing answers", "", wrong))
    for name in ("upload", "download"):
        rows += table(_TRANSFER_ROWS, name=name, megabytes=size.megabytes) if name in size.wanted else []
    return rows + (table(_MEMORY_ROW) if "memory" in size.wanted else [])


def run(results: Results, peers: Sequence[Peer]) -> None:
    wanted = results.size.wanted
    if "start" in wanted:
        _measure_starts(results, peers)
    if wanted == {"start"}:
        return
    # A box that is to run cells has the plugins for that, as the reference has.
    with_cells = [Glovebox(*CELL_PLUGINS) if peer.name == OWN else peer for peer in peers]
    with ExitStack() as stack:
        servers = start_all(results, with_cells if "ipython" in wanted else peers, stack)
        for server in servers:
            with results.excusing(server.name):
                make_files(server)
        for name in (name for name in OPERATIONS if name in wanted):
            measure_requests(results, name, servers)
        if wanted & {"upload", "download"}:
            content = os.urandom(1_000_000) * results.size.megabytes
            _measure_transfers(results, "upload", _upload, servers, content)
            _measure_transfers(results, "download", _download, servers, content)
        for server in servers:
            if not server.is_given:
                results.add(server.name, "memory", pss(server.processes()))


def _measure_starts(results: Results, peers: Sequence[Peer]) -> None:
    for peer in peers:
        if peer.given_url:
            results.excuse(peer.name, GIVEN, "start")
    for _, peer in results.turns(int(results.size.has_cold_start), peers, "start"):
        with results.excusing(peer.name, "start"):
            _drop_cached([peer.folder, peer.python.resolve().parent.parent, HERE.parent / "src"])
            with peer.start() as server:
                results.add(peer.name, "start.cold", server.wait_alive())
    for turn, peer in results.turns(results.size.starts, peers, "start"):
        is_slow = (results.figure("start.alive:median", peer.name) or 0) > SLOW_START
        if turn < results.size.slow_starts or not is_slow:
            with results.excusing(peer.name, "start"), peer.start() as server:
                alive, command = server.wait_alive(), server.open()
                time.sleep(_SETTLE)
                processes = server.processes()
                found = {
                    "alive": alive,
                    "command": command,
                    "pss": pss(processes),
                    "processes": len(processes),
                }
                stop, left = server.stop()
                found |= {"left": left, **({} if stop is None else {"stop": stop})}
                results.add_all(peer.name, "start", **found)


def _drop_cached(folders: Sequence[Path]) -> None:
    """Drop files from the page cache, as far as no process uses them: the next start reads the disk."""
    for folder in folders:
        for path in folder.rglob("*"):
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(handle)


def make_files(server: Server) -> None:
    status, body = 0, b""
    for _ in range(3):
        status, body = server.exchange(server.api.command(_MAKE_FILES.format(server.site.folder)).raw)
        if server.api.output(parsed(body)).endswith("ready"):
            return
    raise Failed(f"cannot make its files: HTTP {status} {body[:100]!r}")


def measure_requests(results: Results, name: str, servers: Sequence[Server]) -> None:
    seconds: dict[str, float] = {}
    for _, server in results.turns(1, servers, name):
        with results.excusing(server.name, name):
            seconds[server.name] = probe(server, name)
    for clients in results.size.clients:
        series = f"{name}.{clients}"
        for turn, server in results.turns(results.size.rounds, servers, series):
            latency = seconds[server.name]
            share = _share(results.size, latency, clients, turn)
            if share:
                with results.excusing(server.name, series):
                    limit = min(share + 15 + 4 * latency * clients, 90)
                    results.take(server.name, series, _load(server, name, clients, share, limit))


def probe(server: Server, name: str) -> float:
    """The shortest time of a right answer to an operation. Failed: the server cannot do it."""
    request, taken, problem = server.api.script(name, 0)[0], list[float](), Failed("no answer")
    for attempt in range(4):  # the first one may have to start something, and one may fail by chance
        if attempt == 3 and not taken:
            break
        for one in server.api.prepare(name, 0):
            server.exchange(one.raw)
        began = time.perf_counter()
        status, body = server.exchange(request.raw)
        if request.accepts(status, body):
            taken.append(time.perf_counter() - began)
        else:
            text = body.decode(errors="replace")
            is_unknown = status == 404 or (status >= 400 and any(words in text for words in _UNKNOWN))
            problem = NotOffered() if is_unknown else Failed(f"wrong answer: HTTP {status} {text[:200]}")
    if not taken:
        raise problem
    return min(taken)


def _share(size: Sizes, latency: float, clients: int, turn: int) -> float:
    """How many seconds to load a server in this turn; 0 for not at all."""
    if clients == 1:
        return float(max(min(_SAMPLES * latency, size.slow_seconds), size.seconds) / size.rounds)
    if clients * latency > _LONG_ROUND:
        return float(size.seconds) if turn == 0 else 0
    return float(size.seconds / size.rounds)


def _load(server: Server, name: str, clients: int, seconds: float, limit: float) -> Outcome:
    for client in range(clients):
        for request in server.api.prepare(name, client):
            server.exchange(request.raw)
    scripts = [server.api.script(name, client) for client in range(clients)]
    return drive(server.site.address, scripts, seconds, limit)


def _measure_transfers(
    results: Results,
    name: str,
    transfer: Callable[[Server, bytes], float],
    servers: Sequence[Server],
    content: bytes,
) -> None:
    for _, server in results.turns(results.size.transfers, servers, name):
        with results.excusing(server.name, name):
            peak = PeakGrowth(server.processes())
            seconds = transfer(server, content)
            growth = peak.megabytes()
            results.add(server.name, f"{name}.rate", len(content) / 1e6 / seconds)
            if growth is not None:
                results.add(server.name, f"{name}.growth", growth)


def _upload(server: Server, content: bytes) -> float:
    """Seconds of an upload; the server's shell then computes the digest of what arrived."""
    folder = f"{server.site.folder}/transfer"
    pieces = server.api.upload(folder, _FILE, content)
    seconds = in_child(lambda: _converse(server, pieces, room=1 << 20)[1], _LIMIT)
    expected = hashlib.sha256(content).hexdigest()
    for _ in range(3):
        _, body = server.exchange(server.api.command(f"sha256sum {folder}/{_FILE}").raw)
        if server.api.output(parsed(body)).startswith(expected):
            return seconds
    raise Failed("the file did not arrive as it was sent")


def _download(server: Server, content: bytes) -> float:
    """Seconds of a download; the archive is then unpacked and compared."""
    raw = server.api.download(f"{server.site.folder}/transfer")

    def work() -> float:
        body, took = _converse(server, [raw], room=len(content) + (1 << 20))
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                if archive.read(_FILE) == content:
                    return took
        except (zipfile.BadZipFile, KeyError) as error:
            raise Failed(f"not the archive that was expected: {error}") from error
        raise Failed("the file came back changed")

    return in_child(work, _LIMIT)


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


GROUP = Group(SIZES, measures, run)
