"""Programs without a shell, beside `docker exec` and a bare spawn: `true`, much output, many at once."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager
from functools import partial
from time import perf_counter
from typing import Any

from benchmarks.connection import Connection, parsed
from benchmarks.harness import BARE, OWN, SERVERS, Group, Measure, Stage, choose
from benchmarks.load import Outcome, drive, drive_through
from benchmarks.peers.engine import Container, DockerExec
from benchmarks.peers.openhands import fresh
from benchmarks.peers.server import Server
from benchmarks.processes import Failed, in_child

_TRUE_ROW = "ms ↓ | one-shot `true`; bare: `subprocess.run`; p50 / p95 | :p50 :p95 | ≤ 1.5 × bare + 1"
_OUTPUT_ROW = "MB/s ↑ | {} MB through stdout; bare: a pipe that is only read | :median | ≥ 300"
_AT_ONCE_ROWS = """
ms ↓ | {} at once, from the first request to an answer; p50 / p95 | :p50 :p95
 | {} at once; wrong or missing answers | :wrong | = 0
"""
_LIMIT = 120.0
#: Prints so many bytes in lines of sixteen.
_LINE = b"0123456789abcde\n"
_PRINTER = "yes 0123456789abcde | head -c {}"


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    megabytes, crowd = n(200, 50), n(500, 500)
    at_once = _AT_ONCE_ROWS.format(crowd, crowd)
    return [
        Stage(
            subject,
            [
                Measure("true", partial(run_true, n(1.0, 0.3)), _TRUE_ROW, 5, bare=spawn_true),
                Measure(
                    "stdout",
                    partial(output, megabytes),
                    _OUTPUT_ROW.format(megabytes),
                    n(3, 1),
                    seconds=60,
                    bare=partial(bare_output, megabytes),
                ),
                Measure("at_once", partial(run_at_once, crowd), at_once, n(3, 1), only=SERVERS),
            ],
        )
    ]


def subject(peer: Any) -> AbstractContextManager[Server | Container]:
    return peer.running() if isinstance(peer, DockerExec) else fresh(peer)


def run_true(seconds: float, subject: Server | Container, turn: int) -> Outcome:
    if isinstance(subject, Container):
        return _repeated(lambda: subject.execute("true"), 5)
    script = [subject.api.execute(number) for number in range(4)]
    return drive(subject.site.address, [script], seconds, seconds + _LIMIT)


def spawn_true(turn: int) -> Outcome:
    spawn = partial(subprocess.run, ["true"], check=True, capture_output=True)
    return in_child(partial(_repeated, spawn, 200), _LIMIT)


def _repeated(call: Any, count: int) -> Outcome:
    outcome = Outcome()
    for _ in range(count):
        began = perf_counter()
        call()
        outcome.values.append(1000 * (perf_counter() - began))
    return outcome


def run_at_once(count: int, server: Server, turn: int) -> Outcome:
    return drive_through(server.site.address, [[server.api.execute(n)] for n in range(count)], _LIMIT)


def bare_output(megabytes: int, turn: int) -> float:
    def work() -> float:
        command, began, size = ["bash", "-c", _PRINTER.format(megabytes * 1_000_000)], perf_counter(), 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdout is not None
            while piece := process.stdout.read(1 << 18):
                size += len(piece)
        return size / 1e6 / (perf_counter() - began)

    return in_child(work, _LIMIT)


def output(megabytes: int, subject: Server | Container, turn: int) -> float:
    """MB/s of a program's output; all of it has to arrive."""
    command, size = _PRINTER.format(megabytes * 1_000_000), megabytes * 1_000_000

    def work() -> float:
        began = perf_counter()
        if isinstance(subject, Container):
            pieces = [subject.execute("bash", "-c", command)]
        elif subject.name == OWN:
            pieces = follow(subject, command)
        else:
            body = {"command": command, "shell": True, "timeout": _LIMIT}
            raw = subject.site.post("/execute", body)
            pieces = [parsed(subject.exchange(raw, _LIMIT)[1])["stdout"].encode()]
        took = perf_counter() - began
        whole = b"".join(pieces)
        if whole != _LINE * (size // len(_LINE)) + _LINE[: size % len(_LINE)]:
            raise Failed(f"{len(whole)} bytes arrived, or not those that were printed")
        return size / 1e6 / took

    return in_child(work, _LIMIT + 30)


def follow(server: Server, command: str) -> list[bytes]:
    """The output of a new process, as it comes."""
    status, body = server.exchange(server.site.post("/processes", {"argv": ["bash", "-c", command]}))
    if status != 201:
        raise Failed(f"no process: HTTP {status} {body[:200]!r}")
    path = f"/processes/{parsed(body)['id']}/stdout?follow=true"
    with Connection(server.site.address, _LIMIT) as connection:
        connection.send(server.site.head("GET", path))
        head = connection.head()
        if head.status != 200:
            raise Failed(f"no output: HTTP {head.status} {connection.body(head)[:200]!r}")
        return list(iter(connection.chunk, b""))


GROUP = Group("processes", (*SERVERS, DockerExec.name, BARE), stages)
