"""Commands that print a lot: how fast, in how much memory, and whether all of it is kept."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import psutil

from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.dialects import http, parsed
from benchmarks.load import LoadError, exchange
from benchmarks.memory import pss
from benchmarks.openhands import OpenHands
from benchmarks.plan import TerminalPlan
from benchmarks.processes import in_child
from benchmarks.report import Cell, Row
from benchmarks.servers import Target
from benchmarks.terminal.box import Box, fresh_box
from benchmarks.terminal.findings import Findings, at_least, below

_LIMIT = 60.0
#: Seconds between two looks at a server's memory.
_LOOK = 0.05
#: Kinds of output, by the characters of a line.
_KINDS = {"lines of 100 characters": 100, "lines of 9 characters": 9}


@dataclass(frozen=True)
class Printed:
    """A file to print, and how its text ends."""

    kind: str
    path: Path
    size: int
    lines: int
    last: str


@dataclass
class _Series:
    rates: list[float] = field(default_factory=list)
    growths: list[float] = field(default_factory=list)
    reason: str = ""


def measure_bulk(peers: Sequence[Target], plan: TerminalPlan, say: Say) -> Findings:
    """`cat` of large files, each in a fresh box."""
    found = Findings()
    #: Who cannot do it, and why: nobody waits for the same a second time.
    unable: dict[str, str] = {}
    with TemporaryDirectory(prefix="glovebox-bench-output-") as folder:
        for kind, width in _KINDS.items():
            small = _file(Path(folder), kind, width, plan.output_megabytes // 10)
            large = _file(Path(folder), kind, width, plan.output_megabytes)
            series = {
                peer.name: _Series(reason=unable[peer.name])
                if peer.name in unable
                else _of_peer(peer, large, small, plan.slow_output_seconds)
                for peer in peers
            }
            unable |= {name: one.reason for name, one in series.items() if one.reason}
            found.add(_measure(large, series, plan, say))
            # tmux draws what it gets, so it gets less of it.
            found.add(_held_by_tmux(small, say))
    return found


def _measure(file: Printed, others: dict[str, _Series], plan: TerminalPlan, say: Say) -> Findings:
    label = _label(file)
    holder = Row(f"{label}; memory of the holder after it (PSS / RSS)", "MB")
    bare, ours = _Series(), _Series()
    with fresh_box() as own:
        for _ in range(plan.outputs):
            _add(bare, lambda: (_bare(file), 0.0))
            _add(ours, lambda: _print_whole(own, file))
        holder.cells[Glovebox.name] = Cell(own.holder_memory(), samples=1)
    rate, growth = Row(label, "MB/s", better="higher"), Row(f"{label}; growth of the server (PSS)", "MB")
    for name, one in {Glovebox.name: ours, **others}.items():
        rate.cells[name] = _rate(one)
        growth.cells[name] = _growth(one)
        say(f"{label}: {name} {one.reason or f'{rate.cells[name].values[0]:.0f} MB/s'}")
    kernel = Row(f"{label}; a bare pty without any server", "MB/s", {Glovebox.name: _rate(bare)}, better="")
    aims = [
        at_least(f"output in {file.kind}", statistics.median(ours.rates) if ours.rates else None, 40, "MB/s"),
        below(
            f"growth of the server during {_megabytes(file)} MB of {file.kind}",
            max(ours.growths, default=None),
            32,
            "MB",
        ),
    ]
    return Findings([rate, kernel, growth, holder], aims)


def _of_peer(peer: Target, file: Printed, small: Printed, limit: float) -> _Series:
    """One run, after a look whether that makes sense: a wait of minutes tells nothing more."""
    series, look = _Series(), _Series()
    _add(look, lambda: _print(peer, small, limit / 3))
    tried = f"with {_megabytes(small)} MB"
    if look.reason:
        series.reason = f"{look.reason} {tried}"
    elif _megabytes(file) / look.rates[0] > limit:
        series.reason = f"{look.rates[0]:.2f} MB/s {tried}, so the whole was not tried"
    else:
        _add(series, lambda: _print(peer, file, limit))
    return series


def _held_by_tmux(file: Printed, say: Say) -> Findings:
    series = _Series()
    try:
        with fresh_box("--terminal", "tmux") as box:
            _add(series, lambda: _print_whole(box, file))
    except Unavailable as problem:  # there need not be a tmux
        series.reason = str(problem)
    row = Row(f"{_label(file)}, held by tmux", "MB/s", {Glovebox.name: _rate(series)}, better="higher")
    say(f"{row.measure}: {series.reason or f'{series.rates[0]:.1f} MB/s'}")
    return Findings([row])


def _label(file: Printed) -> str:
    return f"terminal: {_megabytes(file)} MB in {file.kind}"


def _megabytes(file: Printed) -> int:
    return round(file.size / 1e6)


def _bare(file: Printed) -> float:
    """MB/s of `cat` on a pty that nobody does anything with but read it: what the kernel allows."""
    began = perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat", str(file.path)])
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # how a pty says that the other end is closed
    os.waitpid(pid, 0)
    took = perf_counter() - began
    os.close(terminal)
    return file.size / 1e6 / took


def _add(series: _Series, work: Callable[[], tuple[float, float]]) -> None:
    if series.reason:
        return
    try:
        rate, growth = in_child(work, LoadError, 2 * _LIMIT)
    except LoadError as error:
        series.reason = str(error)
        return
    series.rates.append(rate)
    series.growths.append(growth)


def _rate(series: _Series) -> Cell:
    if series.reason:
        return Cell(reason=series.reason)
    return Cell((statistics.median(series.rates),), samples=len(series.rates))


def _growth(series: _Series) -> Cell:
    if series.reason:
        return Cell(reason=series.reason)
    return Cell((max(series.growths),), samples=len(series.growths))


def _file(folder: Path, kind: str, width: int, megabytes: int) -> Printed:
    """Numbered lines: the end of the output tells which lines it is."""
    lines = megabytes * 1_000_000 // width
    path = folder / f"{width}-{megabytes}.txt"
    filler = "x" * (width - 9) + "\n" if width > 9 else "\n"
    with open(path, "w") as file:
        for start in range(0, lines, 100_000):
            file.write("".join(f"{n:08}{filler}" for n in range(start, min(start + 100_000, lines))))
    return Printed(kind, path, path.stat().st_size, lines, f"{lines - 1:08}{filler.strip()}")


def _print(target: Target, file: Printed, limit: float) -> tuple[float, float]:
    """Let a server print the file; return MB/s, and the megabytes its memory grew.

    Raises:
        LoadError: no answer, or one with another end.
    """
    body, rate, growth = _ask(target, target.dialect.command(f"cat {file.path}").raw, file, limit)
    if not target.dialect.output(body).endswith(file.last):
        raise LoadError("the answer does not end as the file does")
    return rate, growth


def _print_whole(box: Box, file: Printed) -> tuple[float, float]:
    """The same for a box, of which the whole output is then fetched and compared with the file."""
    action = {"action": "run", "args": {"command": f"cat {file.path}"}, "timeout": 60}
    request = json.dumps({"action": action, "details": True}).encode()
    raw = http(box.site, "POST", "/execute_action", OpenHands.key_header, request)
    body, rate, growth = _ask(box.target, raw, file, _LIMIT)
    answer = parsed(body)
    if not answer["content"].endswith(file.last) or answer["extras"]["metadata"]["exit_code"] != 0:
        raise LoadError("the answer does not end as the file does")
    _check_kept(box, answer["details"]["action_id"], file)
    return rate, growth


def _ask(target: Target, raw: bytes, file: Printed, limit: float) -> tuple[bytes, float, float]:
    with watching(target) as growth:
        began = perf_counter()
        try:
            _, body = exchange(target.site.address, raw, limit)
        except OSError as error:
            raise LoadError(f"no answer: {error}") from error
        took = perf_counter() - began
    return body, file.size / 1e6 / took, growth[0]


def _check_kept(box: Box, command: str, file: Printed) -> None:
    path = f"/commands/{command}/output?format=raw"
    try:
        status, kept = exchange(box.site.address, http(box.site, "GET", path, OpenHands.key_header), _LIMIT)
    except OSError as error:
        raise LoadError(f"the output cannot be fetched: {error}") from error
    # A terminal ends each line with two characters.
    same = _digest(kept.replace(b"\r\n", b"\n")) == _digest(file.path.read_bytes())
    if status != 200 or not same:
        raise LoadError(f"the output was not kept as it was printed: HTTP {status}, {len(kept)} bytes")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def watching(target: Target) -> Iterator[list[float]]:
    """Look at a server's memory again and again; the list has its highest growth (0 for one given)."""
    highest = [0.0]
    if target.running is None:
        yield highest
        return
    server = [psutil.Process(target.running.pid)]
    before, done = pss(server), threading.Event()

    def look() -> None:
        while True:
            highest[0] = max(highest[0], pss(server) - before)
            if done.wait(_LOOK):
                return

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield highest
    finally:
        done.set()
        watcher.join()
