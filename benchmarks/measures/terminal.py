"""The terminal: commands, their output while they run, sessions, and the memory all that takes."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic_ns, perf_counter

import psutil

from benchmarks.connection import Connection, parsed
from benchmarks.harness import BARE, OWN, SERVERS, Group, Measure, Stage, choose
from benchmarks.load import Outcome, drive
from benchmarks.peers.openhands import fresh, fresh_box
from benchmarks.peers.server import Peer, Server
from benchmarks.processes import Failed, PeakGrowth, Unavailable, in_child, pss

_ECHO_ROW = (
    "ms ↓ | run `echo`; bare: `bash -c true`; p50 / mean / p95 / p99 | :p50 :mean :p95 :p99 | ≤ 1.2 × bare"
)
_STATIC_ROW = "ms ↓ | run `echo`, is_static; bare: `bash -c true`; p50 / p95 | :p50 :p95 | ≤ 3 × bare"
_STATIC_PAUSE_ROW = _STATIC_ROW.replace("is_static", "is_static, after a pause of 20 ms")
_LINE_ROW = "ms ↓ | a printed line until the client has it; p99 / p50 | :p99 :p50 | < 10"
_PROMPT_ROW = "ms ↓ | run `echo` with a user's PROMPT_COMMAND of 200 ms; p50 / p95 | :p50 :p95 | < 50"
_SESSION_ROW = "ms ↓ | a new session; opened / with its first command, p50 | opened:p50 ready:p50 | < 50"
_CROWD_ROWS = "ms ↓ | {label}; p95 / p50 | :p95 :p50 | < 30\nreq/s ↑ | {label} | :rate"
_HOLDER_ROW = "MB ↓ | the holder with {sessions} sessions more (PSS) | :median | < 10"
_OUTPUT_ROWS = """
s ↓ | {label}; bare: a pty that is only read | seconds:median | ≤ 1.3 × bare
MB ↓ | {label}; peak growth of the server (RSS) | growth:max | < 32
"""
#: Prints numbered lines with the time of their printing, by the clock all processes share.
_PRINTER = "import time; [(print(n, time.monotonic_ns(), flush=True), time.sleep(0.004)) for n in range({})]"
_LIMIT = 60.0
#: Another server that needs longer for one output is not waited for.
_SLOW_OUTPUT = 45.0


def stages(quick: bool) -> list[Stage]:
    n, own = choose(quick), (OWN,)
    seconds, sessions = n(1.0, 0.3), n(50, 8)
    names = [f"crowd{number}" for number in range(sessions)]
    first = [
        Measure("echo", partial(echo, seconds), _ECHO_ROW, 5, bare=spawn_bash),
        Measure("static", partial(static, seconds), _STATIC_ROW, 5, bare=spawn_bash),
        Measure(
            "static.pause",
            static_after_pause,
            _STATIC_PAUSE_ROW,
            n(30, 10),
            bare=spawn_bash,
            only=(OWN, BARE),
        ),
        Measure("line", partial(lines, n(500, 100)), _LINE_ROW, n(3, 1), only=own),
    ]
    label = f"{sessions} sessions, commands without pause"
    crowds = [
        Measure("session", partial(open_session, names), _SESSION_ROW, sessions, seconds=120),
        Measure("session.crowd", partial(crowd, names, n(3.0, 0.5)), _CROWD_ROWS.format(label=label)),
        Measure("holder", lambda box, _: pss([box.holder]), _HOLDER_ROW.format(sessions=sessions), only=own),
    ]
    size, outputs = n(100, 10), list[Measure]()
    for width in (80, 2):
        rows = _OUTPUT_ROWS.format(label=f"{size} MB in lines of {width} characters")
        bare = partial(bare_output, width, size)
        call = partial(output, width, size)
        outputs.append(Measure(f"output.{width}", call, rows, n(3, 1), seconds=60, bare=bare, scope="output"))
    return [
        Stage(fresh, first),
        Stage(slow_prompt_box, [Measure("prompt", echo_after_pause, _PROMPT_ROW, n(20, 5), only=own)]),
        Stage(fresh, crowds),
        # Last, as these may leave a server with a shell that does not answer any more.
        Stage(fresh, outputs),
    ]


def slow_prompt_box(peer: Peer) -> AbstractContextManager[Server]:
    return fresh_box(bashrc="PROMPT_COMMAND='sleep 0.2'\n")


def echo(seconds: float, server: Server, turn: int) -> Outcome:
    """One client, one connection, one shell."""
    # Different words each time: the answer to the command before is a wrong answer.
    script = [server.api.echo(f"hi{number}") for number in range(4)]
    return drive(server.site.address, [script], seconds, seconds + _LIMIT)


def static(seconds: float, server: Server, turn: int) -> Outcome:
    return drive(server.site.address, [server.api.script("static", 0)], seconds, seconds + _LIMIT)


def spawn_bash(turn: int, count: int = 100) -> Outcome:
    """Start a bash that does nothing, again and again."""

    def work() -> Outcome:
        bash, outcome = shutil.which("bash") or "/bin/bash", Outcome()
        for _ in range(count):
            began = perf_counter()
            os.waitpid(os.posix_spawn(bash, ["bash", "-c", "true"], os.environ), 0)
            outcome.values.append(1000 * (perf_counter() - began))
        return outcome

    return in_child(work, _LIMIT)


def static_after_pause(server: Server, turn: int) -> float:
    """The shell of the next static command has time to start."""
    time.sleep(0.02)
    request, began = server.api.echo(f"hi{turn}", is_static=True), perf_counter()
    server.ask(request)
    return 1000 * (perf_counter() - began)


def echo_after_pause(server: Server, turn: int) -> float:
    """The prompt has time to come back, as it has while an agent thinks."""
    time.sleep(0.5)
    began = perf_counter()
    server.ask(server.api.echo(f"hi{turn}"))
    return 1000 * (perf_counter() - began)


def lines(count: int, server: Server, turn: int) -> Outcome:
    """Lines as they are printed."""
    script = shlex.quote(_PRINTER.format(count))
    command = f"{shlex.quote(sys.executable)} -I -S -c {script}"
    return Outcome(in_child(lambda: line_times(_pieces(server, command), count), _LIMIT + 10))


def _pieces(server: Server, command: str) -> Iterator[tuple[str, int]]:
    """The output of a command, with the time (nanoseconds) at which each piece was there."""
    action = {"action": "run", "args": {"command": command}, "timeout": 60}
    with Connection(server.site.address, _LIMIT) as connection:
        for name, data in connection.stream(server.site.post("/execute_action_stream", {"action": action})):
            if name == "output":
                yield json.loads(data)["text"], monotonic_ns()
            elif name in ("observation", "error"):
                return
    raise Failed("the stream ended without an observation")


def line_times(pieces: Iterable[tuple[str, int]], count: int) -> list[float]:
    """Milliseconds from the printing of each line to its arrival."""
    rest, numbers, latencies = "", [], []
    for text, now in pieces:
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            number, _, printed = line.strip().partition(" ")
            if number.isdigit() and printed.isdigit():
                numbers.append(int(number))
                latencies.append((now - int(printed)) / 1e6)
    if numbers != list(range(count)):
        raise Failed(f"{len(numbers)} of {count} lines arrived, or not in order")
    return latencies


def open_session(names: list[str], server: Server, turn: int) -> dict[str, float]:
    request, began = server.api.session(names[turn]), perf_counter()
    status, body = server.exchange(request.raw)
    opened = perf_counter() - began
    if status == 404:
        raise Unavailable
    if not request.accepts(status, body):
        raise Failed(f"wrong answer: HTTP {status} {body[:200]!r}")
    server.ask(server.api.echo(f"in {names[turn]}", names[turn]))
    return {"opened": 1000 * opened, "ready": 1000 * (perf_counter() - began)}


def crowd(names: list[str], seconds: float, server: Server, turn: int) -> Outcome:
    scripts = [[server.api.echo(f"{name}.{n}", name) for n in range(4)] for name in names]
    return drive(server.site.address, scripts, seconds, seconds + _LIMIT)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="glovebox-bench-output-")


@cache
def text_file(width: int, megabytes: int) -> Path:
    """So many megabytes in lines of so many characters; those around a line differ from it."""
    path, count = Path(_folder().name, f"{width}-{megabytes}.txt"), megabytes * 1_000_000 // (width + 1)
    with open(path, "w") as file:
        for start in range(0, count, 100_000):
            numbers = range(start, min(start + 100_000, count))
            file.write("".join(f"{n % 10 ** min(width, 8):0{width}}\n" for n in numbers))
    return path


def bare_output(width: int, megabytes: int, turn: int) -> dict[str, float]:
    """`cat` on a pty that is only read: what the kernel allows."""
    path = str(text_file(width, megabytes))

    def work() -> float:
        began = perf_counter()
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvp("cat", ["cat", path])
        with suppress(OSError):  # how a pty reports that the other end is closed
            while os.read(terminal, 65536):
                pass
        os.waitpid(pid, 0)
        return perf_counter() - began

    return {"seconds": in_child(work, 2 * _LIMIT)}


def output(width: int, megabytes: int, server: Server, turn: int) -> dict[str, float]:
    """`cat` until its answer; all that a box keeps of it is then compared with the file."""
    path = text_file(width, megabytes)
    action = {"action": "run", "args": {"command": f"cat {path}"}, "timeout": 120}
    envelope = {"action": action, "details": True}
    is_own, last = server.name == OWN, path.read_bytes()[-width - 1 : -1].decode()
    raw = server.site.post("/execute_action", envelope) if is_own else server.api.command(f"cat {path}").raw
    peak, began = (
        PeakGrowth([psutil.Process(server.pid)]),
        perf_counter(),
    )
    _, body = server.exchange(raw, 2 * _LIMIT if is_own else _SLOW_OUTPUT)
    seconds, growth, answer = perf_counter() - began, peak.megabytes(), parsed(body)
    if not server.api.output(answer).endswith(last):
        raise Failed("the answer does not end as the file does")
    if is_own:
        kept_path = f"/commands/{answer['details']['action_id']}/output?format=raw"
        status, kept = server.exchange(server.site.head("GET", kept_path))
        # A terminal ends each line with two characters.
        if status != 200 or kept.replace(b"\r\n", b"\n") != path.read_bytes():
            raise Failed(f"the output was not kept as it was printed: HTTP {status}, {len(kept)} bytes")
    return {"seconds": seconds, **({} if growth is None else {"growth": growth})}


GROUP = Group("terminal", (*SERVERS, BARE), stages)
