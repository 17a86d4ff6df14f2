"""`python -m benchmarks` works from one end to the other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from benchmarks.notebook.cells import KINDS

ROOT = Path(__file__).parent.parent.parent
#: What is measured in quick runs.
GROUPS = ("terminal", "notebook", "start,read")


class Measured(NamedTuple):
    """What a run that must succeed has printed and written."""

    printed: str
    rows: Mapping[str, Mapping[str, Any]]
    aims: list[dict[str, Any]]


def benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-reference", "--no-swerex", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


def measured(group: str, result: Path) -> Measured:
    finished = benchmark("--only", group, "--json", str(result))
    assert finished.returncode == 0, finished.stderr
    report = json.loads(result.read_text())
    rows = {row["measure"]: row["cells"]["glovebox"] for row in report["rows"]}
    return Measured(finished.stdout, rows, report["aims"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Measured]]]:
    """Runs at the same time, for what they find of the box's speed does not matter here."""
    folder = tmp_path_factory.mktemp("results")
    with ThreadPoolExecutor(len(GROUPS)) as threads:
        yield {group: threads.submit(measured, group, folder / f"{group}.json") for group in GROUPS}


def test_a_quick_run_of_the_box_alone_measures_start_and_read(runs: dict[str, Future[Measured]]) -> None:
    found = runs["start,read"].result()
    assert "| read, 1 kB; 1 client " in found.printed
    assert found.rows["start to first `/alive` answer (median of 1)"]["values"][0] > 0
    assert found.rows["processes left behind after exit"]["values"] == [0]
    assert found.rows["read, 1 kB; 8 clients"]["values"][0] > 0
    assert found.rows["read, 1 kB; wrong or missing answers"]["values"] == [0]


def test_a_quick_run_of_the_terminal_finds_every_answer_right_and_judges_the_aims(
    runs: dict[str, Future[Measured]],
) -> None:
    rows, aims = runs["terminal"].result()[1:]
    wrong = [cell["values"] for measure, cell in rows.items() if "wrong" in measure]
    assert wrong
    assert all(values == [0] for values in wrong), rows
    missing = [measure for measure, cell in rows.items() if not cell["values"]]
    assert not [measure for measure in missing if "held by tmux" not in measure or shutil.which("tmux")], rows
    assert {aim["reached"] for aim in aims if "reference" not in aim["text"]} <= {True, False}


def test_a_quick_run_of_the_notebook_finds_every_answer_right_and_judges_the_aims(
    runs: dict[str, Future[Measured]],
) -> None:
    rows, aims = runs["notebook"].result()[1:]
    assert not [measure for measure, cell in rows.items() if not cell["values"]], rows
    wrong = [cell["values"] for measure, cell in rows.items() if "wrong" in measure]
    assert len(wrong) == len(KINDS) + 2
    assert all(values == [0] for values in wrong), rows
    assert {aim["reached"] for aim in aims if "reference" not in aim["text"]} <= {True, False}


def test_an_unknown_measure_is_refused_with_the_known_ones() -> None:
    finished = benchmark("--only", "speed")
    assert finished.returncode == 2
    assert "unknown: speed" in finished.stderr
    assert "ipython" in finished.stderr
