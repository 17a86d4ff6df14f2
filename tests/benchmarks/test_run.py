"""`python -m benchmarks` works from one end to the other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-reference", "--no-swerex", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


def test_a_quick_run_of_the_box_alone_measures_start_and_read(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    finished = benchmark("--only", "start,read", "--json", str(result))
    assert finished.returncode == 0, finished.stderr
    assert "| read, 1 kB; 1 client " in finished.stdout
    rows = {row["measure"]: row["cells"]["glovebox"] for row in json.loads(result.read_text())["rows"]}
    assert rows["start to first `/alive` answer (median of 1)"]["values"][0] > 0
    assert rows["processes left behind after exit"]["values"] == [0]
    assert rows["read, 1 kB; 8 clients"]["values"][0] > 0
    assert rows["read, 1 kB; wrong or missing answers"]["values"] == [0]


def test_a_quick_run_of_the_terminal_finds_every_answer_right_and_judges_the_aims(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    finished = benchmark("--only", "terminal", "--json", str(result))
    assert finished.returncode == 0, finished.stderr
    report = json.loads(result.read_text())
    rows = {row["measure"]: row["cells"]["glovebox"] for row in report["rows"]}
    wrong = [cell["values"] for measure, cell in rows.items() if "wrong" in measure]
    assert wrong
    assert all(values == [0] for values in wrong), rows
    missing = [measure for measure, cell in rows.items() if not cell["values"]]
    assert not [measure for measure in missing if "held by tmux" not in measure or shutil.which("tmux")], rows
    assert {aim["reached"] for aim in report["aims"] if "reference" not in aim["text"]} <= {True, False}


def test_an_unknown_measure_is_refused_with_the_known_ones() -> None:
    finished = benchmark("--only", "speed")
    assert finished.returncode == 2
    assert "unknown: speed" in finished.stderr
    assert "ipython" in finished.stderr
