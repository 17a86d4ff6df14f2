"""`glovebox run` as a whole: from the start of the program to its end, with a box of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
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

_BACKENDS = {PROCESS: "process", CONTAINER: "docker"}
_LIMIT = 120.0


def measure_commands(
    names: Sequence[str], engine: Engine | None, plan: BoxesPlan, tally: Tally
) -> BoxFindings:
    """Run the command some times with each backend.

    Raises:
        LoadError: with processes of this machine, it fails.
    """
    findings = BoxFindings()
    for kind, backend in _BACKENDS.items():
        row = Row(f"boxes: `glovebox run --backend {backend} -- true`, the whole command", "s")
        taken: list[float] = []
        if not tally.reason(Glovebox.name, kind):
            with tally.excusing(Glovebox.name, kind):
                for _ in range(plan.whole_commands):
                    taken.append(_run(backend, engine))
                tally.say(f"boxes, glovebox run --backend {backend}: {min(taken):.2f} to {max(taken):.2f} s")
        row.cells = {name: Cell(reason=NOT_OFFERED) for name in names}
        row.cells[Glovebox.name] = tally.median(Glovebox.name, kind, taken)
        if taken:
            row.measure += f" (median of {len(taken)})"
        findings.rows.append(row)
    return findings


def _run(backend: str, engine: Engine | None) -> float:
    """The seconds of one command.

    Raises:
        LoadError: it fails.
    """
    program = Path(sys.executable).parent / "glovebox"
    folder, mark = Path(tempfile.mkdtemp(prefix="glovebox-bench-")), uuid.uuid4().hex
    variables = environment(folder, mark, engine)
    if engine:
        variables["GLOVEBOX_IMAGE"] = engine.image
    began = time.perf_counter()
    try:
        finished = subprocess.run(
            [str(program), "run", "--backend", backend, "--", "true"],
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
        )
        seconds = time.perf_counter() - began
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"glovebox run did not end within {_LIMIT:.0f} s") from error
    finally:
        end(family(None, mark))
        shutil.rmtree(folder, ignore_errors=True)
    if finished.returncode != 0:
        raise LoadError(f"glovebox run: {finished.stderr.strip()[-200:]}")
    return seconds
