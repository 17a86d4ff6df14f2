"""The command line with a box of its own: `glovebox run` to its end, `glovebox shell` to its prompt."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.boxes.client import environment
from benchmarks.boxes.engine import Engine
from benchmarks.boxes.peer import CONTAINER, PROCESS
from benchmarks.boxes.tally import NOT_OFFERED, BoxFindings, Tally
from benchmarks.competitors import Glovebox
from benchmarks.load import LoadError
from benchmarks.plan import BoxesPlan
from benchmarks.processes import end, family
from benchmarks.report import Cell, Row
from benchmarks.terminal.findings import below

_BACKENDS = {PROCESS: "process", CONTAINER: "docker"}
_LIMIT = 120.0
#: Seconds until somebody who wanted a shell can type.
_PROMPT_AIM = 1.0
#: What the shells of boxes print after their prompt; no terminal shows it.
_PROMPT = b"\x1b]1807;B;"
_PIECE = 65_536

#: Runs a program in some environment and directory; the seconds it took.
Measure = Callable[[Sequence[str], Mapping[str, str], Path], float]


def measure_commands(
    names: Sequence[str], engine: Engine | None, plan: BoxesPlan, tally: Tally
) -> BoxFindings:
    """Run both commands some times with each backend.

    Raises:
        LoadError: with processes of this machine, one fails.
    """
    findings = BoxFindings()

    def add(kind: str, command: str, until: str, measure: Measure) -> Cell:
        row = Row(f"boxes: `{command}`, {until}", "s")
        taken: list[float] = []
        if not tally.reason(Glovebox.name, kind):
            with tally.excusing(Glovebox.name, kind):
                for _ in range(plan.whole_commands):
                    taken.append(_measured(command, measure, engine))
                tally.say(f"boxes, {command}: {min(taken):.2f} to {max(taken):.2f} s")
        row.cells = {name: Cell(reason=NOT_OFFERED) for name in names}
        row.cells[Glovebox.name] = cell = tally.median(Glovebox.name, kind, taken)
        row.measure += f" (median of {len(taken)})" if taken else ""
        findings.rows.append(row)
        return cell

    for kind, backend in _BACKENDS.items():
        add(kind, f"glovebox run --backend {backend} -- true", "the whole command", _to_its_end)
    for kind, backend in _BACKENDS.items():
        command = f"glovebox shell --backend {backend}"
        values = add(kind, command, "until its prompt is there", _to_its_prompt).values
        median = values[0] if values else None
        findings.aims.append(below(f"`{command}` to its prompt", median, _PROMPT_AIM, "s"))
    return findings


def _measured(command: str, measure: Measure, engine: Engine | None) -> float:
    """The seconds of one command, of which nothing is left then.

    Raises:
        LoadError: it fails.
    """
    program, *arguments = command.split()
    folder, mark = Path(tempfile.mkdtemp(prefix="glovebox-bench-")), uuid.uuid4().hex
    variables = environment(folder, mark, engine)
    if engine:
        variables["GLOVEBOX_IMAGE"] = engine.image
    try:
        return measure([str(Path(sys.executable).parent / program), *arguments], variables, folder)
    finally:
        end(family(None, mark))
        shutil.rmtree(folder, ignore_errors=True)


def _to_its_end(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> float:
    began = time.perf_counter()
    try:
        finished = subprocess.run(
            command, env=variables, cwd=folder, capture_output=True, text=True, timeout=_LIMIT
        )
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"glovebox run did not end within {_LIMIT:.0f} s") from error
    if finished.returncode != 0:
        raise LoadError(f"glovebox run: {finished.stderr.strip()[-200:]}")
    return time.perf_counter() - began


def _to_its_prompt(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> float:
    controller, terminal = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**variables, "TERM": "xterm"},
        cwd=folder,
        preexec_fn=lambda: os.login_tty(terminal),
    )
    os.close(terminal)
    seconds, shown = 0.0, b""
    try:
        for piece in _pieces(controller, began + _LIMIT):
            shown += piece
            if _PROMPT in shown and not seconds:
                seconds = time.perf_counter() - began
                os.write(controller, b"exit\r")
    finally:
        os.close(controller)
        process.wait()
    if not seconds or process.returncode:
        raise LoadError(f"glovebox shell: {shown.decode(errors='replace').strip()[-200:]}")
    return seconds


def _pieces(controller: int, until: float) -> Iterator[bytes]:
    """What is shown in a terminal until the program in it has ended, or for so long."""
    while select.select([controller], [], [], max(0.0, until - time.perf_counter()))[0]:
        with contextlib.suppress(OSError):  # it has ended
            if piece := os.read(controller, _PIECE):
                yield piece
                continue
        return
