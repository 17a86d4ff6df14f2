"""`python -m benchmarks` works from one end to the other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.__main__ import GROUPS, choices_of, peers_of
from benchmarks.harness import OWN, REFERENCE, SWEREX, Results
from benchmarks.measures import boxes, browser, vscode
from benchmarks.peers.browsers import Gym, opened_browser
from benchmarks.peers.engine import Engine
from benchmarks.peers.openhands import Glovebox
from benchmarks.processes import Failed, Unavailable, Wrong, living

ROOT = Path(__file__).parents[2]
#: Of each run what may be missing: what needs another peer or program.
RUNS = {"terminal": 1, "processes": 2, "notebook,mcp": 2, "start,read,upload,download": 1}


def benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-reference", "--no-swerex", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)


def measured(names: str, result: Path) -> tuple[str, list[dict[str, Any]]]:
    finished = benchmark("--only", names, "--json", str(result))
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, [
        row for table in json.loads(result.read_text())["tables"] for row in table["rows"]
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Any]]]:
    """Runs at the same time, for the speed of the box does not matter here."""
    folder = tmp_path_factory.mktemp("results")
    with ThreadPoolExecutor(len(RUNS)) as threads:
        yield {names: threads.submit(measured, names, folder / f"{names}.json") for names in RUNS}


@pytest.mark.parametrize(("names", "number"), RUNS.items())
def test_a_quick_run_measures_all_finds_every_answer_right_and_judges_the_targets(
    runs: dict[str, Future[Any]], names: str, number: int
) -> None:
    printed, rows = runs[names].result()
    assert "load average" in printed
    wrong = [row["cells"][OWN]["values"] for row in rows if "wrong" in row["measure"]]
    assert wrong == [[0]] * number, rows
    missing = [row["measure"] for row in rows if not row["cells"][OWN]["values"]]
    assert not [one for one in missing if "tmux" not in one or shutil.which("tmux")]
    assert {row["target"]["reached"] for row in rows if row["target"]} <= {True, False}


def test_measures_are_chosen_by_group_and_by_name_and_an_unknown_one_is_refused() -> None:
    choices = choices_of(quick=True)
    assert [group for group in choices if "read" in choices[group].get("read.8", ())] == ["server"]
    assert "terminal.static" in choices["terminal"]["static"] - choices["server"]["static.1"]
    assert all("terminal" in words for words in choices["terminal"].values())
    finished = benchmark("--only", "speed")
    assert finished.returncode == 2
    assert "unknown: speed" in finished.stderr
    assert "ipython" in finished.stderr


def test_only_the_peers_of_the_chosen_groups_are_needed() -> None:
    options: Any = SimpleNamespace(no_reference=False, bare_reference=False, no_swerex=False, before="")
    groups = {group.name: group for group in GROUPS}
    assert [peer.name for peer in peers_of(options, [groups["browser"]])] == [OWN, Gym.name]
    assert [peer.name for peer in peers_of(options, [groups["server"]])] == [OWN, REFERENCE, SWEREX]


def test_both_browsers_do_a_step_on_the_same_pages_and_leave_nothing() -> None:
    for peer in (Glovebox(), Gym()):
        with browser.on_pages(peer) as subject:
            assert browser.one_step("fill", subject, 0) > 0
            there = subject[0].processes()
        assert not living(there)
    with pytest.raises(Failed, match="did not start: "), opened_browser(Gym(), "/bin/false"):
        pass


@pytest.mark.vscode
@pytest.mark.usefixtures("vscode_server")
def test_a_window_of_a_tree_is_measured_and_goes_on_after_a_wrong_answer() -> None:
    here = vscode.OtherTree(ROOT)
    here.install()
    with vscode.opened_window(here) as window:
        assert all(vscode.act(name, window, 0) > 0 for name in ("run", "read", "write", "edit", "first"))
        Path(window.folder, "folders/measured/notes.txt").write_text("other text\n")
        with pytest.raises(Wrong, match="read 1 was not done right"):
            vscode.act("read", window, 1)
        assert vscode.act("run", window, 2) > 0
        there = window.processes()
    assert len(there) > 2
    assert not living(there)


def test_another_tree_without_an_environment_is_left_out_and_one_without_windows_says_why(
    tmp_path: Path,
) -> None:
    other = vscode.OtherTree(tmp_path)
    with pytest.raises(Unavailable, match="make setup"):
        other.install()
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    other.install()
    with pytest.raises(Failed, match="ended: ModuleNotFoundError"), vscode.opened_window(other):
        pass


@contextmanager
def no_engine() -> Iterator[Engine]:
    raise Unavailable("without containers here")
    yield


def test_boxes_are_measured_without_containers_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = boxes.stages(quick=True, find=no_engine)
    results = Results("boxes", [OWN])
    # A path below pytest's own is too long for the sockets of a box.
    with tempfile.TemporaryDirectory(prefix="boxes-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        results.run(stages, [Glovebox()], [one.name for stage in stages for one in stage.measures])
        assert not list(Path(folder).iterdir())
    rows = {row.measure: row.cells[OWN] for row in results.rows()}
    missing = {measure: cell.reason for measure, cell in rows.items() if not cell.values}
    assert {reason for measure, reason in missing.items() if "bubblewrap" not in measure} == {
        "without containers here"
    }
    assert (
        5 < rows["3 at once, a process of this machine, memory of each, all processes (PSS)"].values[0] < 1000
    )
    assert not results.has_own_failure
