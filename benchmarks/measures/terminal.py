"""The terminal: commands, their output while they run, sessions, and the memory all that takes.

The box's rows are measured in fresh boxes; the other servers go on with the one shell they have.
"""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic_ns, perf_counter
from typing import Any

import psutil

from benchmarks.connection import Connection, parsed
from benchmarks.harness import GIVEN, OWN, REFERENCE, Group, Measure, Results, Sizes, table
from benchmarks.load import Outcome, drive, drive_through
from benchmarks.peers.openhands import Box, fresh_box
from benchmarks.peers.server import Peer, Server, start_all
from benchmarks.processes import Failed, NotOffered, in_child, pss, rss, watched_growth
from benchmarks.report import Aim, at_least, below, none_wrong, times

SIZES = {
    "echo_seconds": (6.0, 0.5),
    # Of the other servers, which need many times as long for one.
    "slow_echoes": (60, 4),
    "rounds": (3, 1),
    "lines": (500, 100),
    "sessions": (50, 8),
    "session_seconds": (3.0, 0.5),
    # One after the other in one session, and the first and last of them that are compared.
    "commands": (20_000, 500),
    "part": (1_000, 125),
    "long_lines": (20, 5),
    # Per server, as a command that went wrong may hang.
    "long_line_seconds": (40.0, 15.0),
    "megabytes": (100, 10),
    "outputs": (2, 1),
    # Another server that needs longer for one output is not waited for.
    "slow_output_seconds": (45.0, 8.0),
}
_ROWS = """
ms ↓ | `echo`; p50 / mean / p95 / p99 | echo:p50 echo:mean echo:p95 echo:p99
 | `echo`; wrong or missing answers | echo:wrong
ms | `bash -c true` without any server; posix_spawn / subprocess.run, p50 | spawn:median run:median
ms ↓ | `echo`, held by tmux; p50 / mean / p95 / p99 | tmux:p50 tmux:mean tmux:p95 tmux:p99
ms ↓ | a printed line until the client has it; first / p50 / p99 \
 | line.first:median line.all:p50 line.all:p99
ms | {many}; p50 of the first / of the last {part} | many.first:p50 many.last:p50
 | {many}; wrong or missing answers | commands:wrong
MB | {many}; server / holder / bash at the start (PSS) | start.server:last start.holder:last start.bash:last
MB | {many}; server / holder / bash half-way (PSS) | half.server:last half.holder:last half.bash:last
MB | {many}; server / holder / bash at the end (PSS) | end.server:last end.holder:last end.bash:last
 | {many}; descriptors of the three at the start \
 | start.fd.server:last start.fd.holder:last start.fd.bash:last
 | {many}; descriptors of the three at the end | end.fd.server:last end.fd.holder:last end.fd.bash:last
ms ↓ | a new session; opened / with its first command, p50 | sessions.opened:p50 sessions.ready:p50
ms ↓ | {sessions} sessions, commands without pause; p50 / p95 | sessions.at_once:p50 sessions.at_once:p95
req/s ↑ | {sessions} sessions, commands without pause | sessions.at_once:rate
ms ↓ | {sessions} sessions, 4 commands per second each; p50 / p95 | sessions.paced:p50 sessions.paced:p95
 | {sessions} sessions; wrong or missing answers | sessions.at_once:wrong sessions.paced:wrong
MB ↓ | {holder} (PSS) | fresh.pss:last used.pss:last full.pss:last
MB ↓ | {holder} (RSS) | fresh.rss:last used.rss:last full.rss:last
 | command lines of 5000 characters; wrong or missing answers | long:wrong
"""
_OUTPUT_ROWS = """
MB/s ↑ | {label} | output.{width}.rate:median
MB/s | {label}; a bare pty without any server | bare.{width}:median
MB ↓ | {label}; growth of the server (PSS) | output.{width}.growth:max
MB ↓ | {label}; memory of the holder after it (PSS / RSS) | kept{width}.pss:last kept{width}.rss:last
MB/s ↑ | {small}, held by tmux | output_tmux.{width}:median
"""
#: Kinds of output, by the characters of a line.
_KINDS = {100: "lines of 100 characters", 9: "lines of 9 characters"}
#: Prints numbered lines with the time of their printing, by the clock all processes share.
_PRINTER = "import time; [(print(n, time.monotonic_ns(), flush=True), time.sleep(0.004)) for n in range({})]"
_LIMIT = 60.0


def measures(size: Sizes) -> list[Measure]:
    many = f"{size.commands} commands in one session"
    holder = f"the holder; fresh / after a command / with {size.sessions} sessions more"
    rows = table(_ROWS, "terminal: ", many=many, holder=holder, part=size.part, sessions=size.sessions)
    for width, kind in _KINDS.items():
        label, small = (f"{size.megabytes // n} MB in {kind}" for n in (1, 10))
        rows += table(_OUTPUT_ROWS, "terminal: ", label=label, small=small, width=width)
    return rows


def run(results: Results, peers: Sequence[Peer]) -> None:
    size = results.size
    with ExitStack() as stack:
        others = start_all(results, [peer for peer in peers if peer.name != OWN], stack)
        with fresh_box() as box:
            _measure_echo(results, [box, *others])
            _measure_stream(results, [box, *others])
        with results.excusing(OWN, "tmux", optional=True), fresh_box("--terminal", "tmux") as box:
            results.take(OWN, "tmux", _echo(box, size.echo_seconds / size.rounds))
        with fresh_box() as box:
            _measure_commands(results, box)
        with fresh_box() as box:
            for server in (box, *others):
                with results.excusing(server.name, "sessions"):
                    _measure_sessions(results, server)
        # Last, as these may leave a server with a shell that does not answer any more.
        with fresh_box() as box:
            for server in (box, *others):
                results.take(server.name, "long", _long_lines(server, size))
        with TemporaryDirectory(prefix="glovebox-bench-output-") as folder:
            for width in _KINDS:
                _measure_output(results, others, Path(folder), width)


def _echo(server: Server, seconds: float | None, count: int = 4) -> Outcome:
    """One client, one connection, one shell: for so long, or so many."""
    # Different words each time: the answer to the command before is a wrong answer.
    script = [server.api.echo(f"hi{number}") for number in range(count)]
    return drive(server.site.address, [script], seconds, (seconds or 0) + 60)


def _measure_echo(results: Results, servers: Sequence[Server]) -> None:
    size = results.size
    for _, server in results.turns(size.rounds, servers, "echo"):
        with results.excusing(server.name, "echo"):
            if server.name == OWN:
                spawned, ran = in_child(_start_bash, 60)
                results.add(OWN, "spawn", *spawned)
                results.add(OWN, "run", *ran)
                outcome = _echo(server, size.echo_seconds / size.rounds)
            else:
                outcome = _echo(server, None, size.slow_echoes // size.rounds)
            results.take(server.name, "echo", outcome)


def _start_bash(count: int = 200) -> tuple[list[float], list[float]]:
    """Milliseconds of a bash that does nothing, started directly and in Python's usual way, in turns."""
    bash = shutil.which("bash") or "/bin/bash"
    spawned, ran = [], []
    for _ in range(count):
        began = perf_counter()
        os.waitpid(os.posix_spawn(bash, ["bash", "-c", "true"], os.environ), 0)
        between = perf_counter()
        subprocess.run([bash, "-c", "true"], check=True)
        spawned.append(1000 * (between - began))
        ran.append(1000 * (perf_counter() - between))
    return spawned, ran


def _measure_stream(results: Results, servers: Sequence[Server]) -> None:
    """Lines as they are printed; of a server without a stream, when the command has ended."""
    script = shlex.quote(_PRINTER.format(results.size.lines))
    command = f"{shlex.quote(sys.executable)} -I -S -c {script}"
    for turn, server in results.turns(results.size.rounds, servers, "line"):
        if turn and server.name != OWN:
            continue
        with results.excusing(server.name, "line"):
            if server.is_given:
                raise Failed(GIVEN)  # its clock might be another one
            waited = in_child(partial(line_times, _pieces(server, command), results.size.lines), _LIMIT + 10)
            results.add(server.name, "line.first", waited[0])
            results.add(server.name, "line.all", *waited)


def _pieces(server: Server, command: str) -> Iterator[tuple[str, int]]:
    """The output of a command, with the time (nanoseconds) at which each piece was there."""
    if server.name != OWN:
        _, body = server.exchange(server.api.command(command).raw)
        yield server.api.output(parsed(body)) + "\n", monotonic_ns()
        return
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


def _measure_commands(results: Results, box: Box) -> None:
    """Thousands of commands in one session: the last ones should be as the first ones were."""
    half, outcome = results.size.commands // 2, Outcome()
    for number in range(20):  # what is loaded and cached only once is no growth
        box.ask(box.api.echo(f"before {number}"))
    processes = {"server": box.server, "holder": box.holder, "bash": box.shell()}

    def look(when: str) -> None:
        results.add_all(OWN, when, **{name: pss([process]) for name, process in processes.items()})
        files = {name: descriptors(process) for name, process in processes.items()}
        results.add_all(OWN, f"{when}.fd", **files)

    look("start")
    for start, when in ((0, "half"), (half, "end")):
        script = [box.api.echo(f"number {number}") for number in range(start, start + half)]
        outcome.add(drive_through(box.site.address, [script], 60 + results.size.commands / 50))
        look(when)
    results.take(OWN, "commands", outcome)
    results.add(OWN, "many.other_shells", int(box.shell() != processes["bash"]))
    results.add(OWN, "many.first", *outcome.values[: results.size.part])
    results.add(OWN, "many.last", *outcome.values[-results.size.part :])


def descriptors(process: psutil.Process) -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def _look_at_holder(results: Results, server: Server, scope: str) -> None:
    if isinstance(server, Box):
        results.add_all(OWN, scope, pss=pss([server.holder]), rss=rss(server.holder))


def _measure_sessions(results: Results, server: Server) -> None:
    _look_at_holder(results, server, "fresh")
    server.ask(server.api.echo("first"))
    _look_at_holder(results, server, "used")
    names = [f"crowd{number}" for number in range(results.size.sessions)]
    for name in names:
        request, began = server.api.session(name), perf_counter()
        status, body = server.exchange(request.raw)
        opened = perf_counter() - began
        if status == 404:
            raise NotOffered
        if not request.accepts(status, body):
            raise Failed(f"wrong answer: HTTP {status} {body[:200]!r}")
        server.ask(server.api.echo(f"in {name}", name))
        ready = perf_counter() - began
        results.add_all(server.name, "sessions", opened=1000 * opened, ready=1000 * ready)
    _look_at_holder(results, server, "full")
    scripts = [[server.api.echo(f"{name}.{n}", name) for n in range(4)] for name in names]
    for series, pace in (("at_once", 0.0), ("paced", 0.25)):
        seconds = results.size.session_seconds
        outcome = drive(server.site.address, scripts, seconds, seconds + 60, pace=pace)
        results.take(server.name, f"sessions.{series}", outcome)


def long_text(number: int) -> str:
    """Words that make a command `echo ...` of 5,000 characters, other ones for each number."""
    return ",".join(f"{number}.{place}" for place in range(5_000))[: 5_000 - len("echo ")]


def _long_lines(server: Server, size: Sizes) -> Outcome:
    """Long commands; one that hangs may use up the time of the others."""
    outcome, give_up = Outcome(), perf_counter() + size.long_line_seconds
    while outcome.asked < size.long_lines and perf_counter() < give_up:
        request, began = server.api.echo(long_text(outcome.asked)), perf_counter()
        try:
            request.ask(server.site.address, limit=size.long_line_seconds)
            outcome.values.append(1000 * (perf_counter() - began))
        except Failed as problem:
            outcome.add(Outcome(wrong=1, example=str(problem)))
    return outcome


@dataclass(frozen=True)
class Text:
    """A file of numbered lines to print: the end of the output shows which lines it is."""

    path: Path
    megabytes: float
    last: str


def _make_text(folder: Path, width: int, megabytes: int) -> Text:
    lines, filler = megabytes * 1_000_000 // width, "x" * (width - 9)
    path = folder / f"{width}-{megabytes}.txt"
    with open(path, "w") as file:
        for start in range(0, lines, 100_000):
            file.write("".join(f"{n:08}{filler}\n" for n in range(start, min(start + 100_000, lines))))
    return Text(path, path.stat().st_size / 1e6, f"{lines - 1:08}{filler}")


def _measure_output(results: Results, others: Sequence[Server], folder: Path, width: int) -> None:
    size, series = results.size, f"output.{width}"
    small, large = (_make_text(folder, width, size.megabytes // n) for n in (10, 1))
    # Another server that failed with one kind of lines is not waited for again.
    for _, server in results.turns(1, others, series):
        with results.excusing(server.name, "output"):
            rate, growth = _try_output(server, size.slow_output_seconds, small, large)
            results.add_all(server.name, series, rate=rate, growth=growth)
    with fresh_box() as box:
        for _ in range(size.outputs):
            results.add(OWN, f"bare.{width}", in_child(partial(_bare_output, large), _LIMIT))
            rate, growth = in_child(partial(_print_and_compare, box, large), 2 * _LIMIT)
            results.add_all(OWN, series, rate=rate, growth=growth)
        _look_at_holder(results, box, f"kept{width}")
    # tmux draws what it gets, so it gets less of it.
    tmux = f"output_tmux.{width}"
    with results.excusing(OWN, tmux, optional=True), fresh_box("--terminal", "tmux") as box:
        results.add(OWN, tmux, in_child(partial(_print_and_compare, box, small), 2 * _LIMIT)[0])


def _bare_output(text: Text) -> float:
    """MB/s of `cat` on a pty that is only read: what the kernel allows."""
    began = perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat", str(text.path)])
    with suppress(OSError):  # how a pty reports that the other end is closed
        while os.read(terminal, 65536):
            pass
    os.waitpid(pid, 0)
    os.close(terminal)
    return text.megabytes / (perf_counter() - began)


def _try_output(server: Server, limit: float, small: Text, large: Text) -> tuple[float, float]:
    """One run, after a small one that shows whether it would take minutes."""
    tried = f"with {small.megabytes:.0f} MB"
    try:
        rate, _ = in_child(partial(_print, server, small, limit / 3), 2 * _LIMIT)
    except Failed as problem:
        raise Failed(f"{problem} {tried}") from problem
    if large.megabytes / rate > limit:
        raise Failed(f"{rate:.2f} MB/s {tried}, so the whole was not tried")
    return in_child(partial(_print, server, large, limit), 2 * _LIMIT)


def _print(server: Server, text: Text, limit: float) -> tuple[float, float]:
    """Let a server print a file; MB/s, and the megabytes its memory grew. Failed: that is not its text."""
    answer, rate, growth = _timed(server, server.api.command(f"cat {text.path}").raw, text, limit)
    if not server.api.output(answer).endswith(text.last):
        raise Failed("the answer does not end as the file does")
    return rate, growth


def _print_and_compare(box: Box, text: Text) -> tuple[float, float]:
    """The same for a box, whose whole output is then fetched and compared with the file."""
    action = {"action": "run", "args": {"command": f"cat {text.path}"}, "timeout": 60}
    raw = box.site.post("/execute_action", {"action": action, "details": True})
    answer, rate, growth = _timed(box, raw, text, _LIMIT)
    if not answer["content"].endswith(text.last) or answer["extras"]["metadata"]["exit_code"] != 0:
        raise Failed("the answer does not end as the file does")
    path = f"/commands/{answer['details']['action_id']}/output?format=raw"
    status, kept = box.exchange(box.site.head("GET", path))
    # A terminal ends each line with two characters.
    if status != 200 or kept.replace(b"\r\n", b"\n") != text.path.read_bytes():
        raise Failed(f"the output was not kept as it was printed: HTTP {status}, {len(kept)} bytes")
    return rate, growth


def _timed(server: Server, raw: bytes, text: Text, limit: float) -> tuple[Any, float, float]:
    with watched_growth([] if server.is_given else [psutil.Process(server.pid)]) as growth:
        began = perf_counter()
        _, body = server.exchange(raw, limit)
        took = perf_counter() - began
    return parsed(body), text.megabytes / took, growth[0]


def aims(results: Results) -> list[Aim]:
    figure, size = results.figure, results.size
    p50, mean = (figure(f"echo:{name}") for name in ("p50", "mean"))
    fork = min(figure("spawn:median") or 0, figure("run:median") or 0)
    sessions, up_to = f"{size.sessions} sessions", f"with up to {size.sessions + 1} sessions"
    held = {
        kind: max(figure(f"{when}.{kind}:last") or 0 for when in ("fresh", "used", "full")) or None
        for kind in ("pss", "rss")
    }
    found = [
        below("`echo` over HTTP, p50", p50, 2.0, "ms"),
        times("`echo` over HTTP, p50: the reference's is", figure("echo:p50", REFERENCE), p50, 100),
        times("`echo` over HTTP, mean: the reference's is", figure("echo:mean", REFERENCE), mean, 200),
        below("`echo` over HTTP, p50, against a fork of `bash -c true`:", p50, fork, "ms"),
        below("a printed line until the client has it, p99", figure("line.all:p99"), 10, "ms"),
        *_command_aims(results, f"{size.commands} commands in one session"),
        below(f"{sessions}, commands without pause, p95", figure("sessions.at_once:p95"), 30, "ms"),
        below(f"{sessions}, 4 commands per second each, p95", figure("sessions.paced:p95"), 30, "ms"),
        below("a new session, p50", figure("sessions.opened:p50"), 50, "ms"),
        below(f"memory of the holder {up_to}, PSS", held["pss"], 10, "MB"),
        below(f"memory of the holder {up_to}, RSS", held["rss"], 10, "MB"),
        none_wrong("command lines of 5000 characters: none wrong", results.wrong("long")),
    ]
    for width, kind in _KINDS.items():
        growth = f"growth of the server during {size.megabytes} MB of {kind}"
        found.append(at_least(f"output in {kind}", figure(f"output.{width}.rate:median"), 40, "MB/s"))
        found.append(below(growth, figure(f"output.{width}.growth:max"), 32, "MB"))
    return found


def _command_aims(results: Results, many: str) -> list[Aim]:
    def total(scope: str) -> float:
        return sum(results.figure(f"{scope}.{who}:last") or 0 for who in ("server", "holder", "bash"))

    first, last = (results.figure(f"many.{which}:p50") for which in ("first", "last"))
    if not first or not last:
        return [Aim(many, "n/a", None)]
    bad, slower = results.wrong("commands").values[0], last / first
    grown, more = total("end") - total("half"), total("end.fd") - total("start.fd")
    is_one_shell = not results.figure("many.other_shells:last")
    return [
        Aim(f"{many}: none wrong, all in one shell", f"{bad:.0f} wrong", bad == 0 and is_one_shell),
        Aim(f"{many}: the last as fast as the first (within a fifth)", f"{slower:.2f} times", slower < 1.2),
        Aim(f"{many}: no descriptor more", f"{more:+.0f}", more <= 0),
        Aim(f"{many}: no growth in the second half (within 1 MB)", f"{grown:+.2f} MB", grown < 1),
    ]


GROUP = Group(SIZES, measures, run, aims)
