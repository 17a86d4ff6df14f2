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
from typing import Any, NamedTuple

import psutil
import pytest
from benchmarks.__main__ import peers_of
from benchmarks.harness import OWN, REFERENCE, Results
from benchmarks.measures import boxes, browser
from benchmarks.peers.browsers import AS_OPENHANDS, GYM, OPENERS, PLAIN, Gym, open_box, open_gym
from benchmarks.peers.clients import Engine
from benchmarks.peers.openhands import Glovebox
from benchmarks.processes import Failed, living

ROOT = Path(__file__).parents[2]
GROUPS = ("terminal", "notebook", "mcp", "start,read")


class Measured(NamedTuple):
    """What a run that must succeed has printed and written."""

    printed: str
    rows: dict[str, dict[str, Any]]
    aims: list[dict[str, Any]]


def benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-reference", "--no-swerex", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)


def measured(group: str, result: Path) -> Measured:
    finished = benchmark("--only", group, "--json", str(result))
    assert finished.returncode == 0, finished.stderr
    report = json.loads(result.read_text())
    rows = {row["measure"]: row["cells"][OWN] for row in report["rows"]}
    return Measured(finished.stdout, rows, report["aims"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Measured]]]:
    """Runs at the same time, for the speed of the box does not matter here."""
    folder = tmp_path_factory.mktemp("results")
    with ThreadPoolExecutor(len(GROUPS)) as threads:
        yield {group: threads.submit(measured, group, folder / f"{group}.json") for group in GROUPS}


def test_a_quick_run_measures_start_and_read(runs: dict[str, Future[Measured]]) -> None:
    found = runs["start,read"].result()
    assert "| read, 1 kB; 1 client " in found.printed
    assert found.rows["start to first `/alive` answer (median of 1)"]["values"][0] > 0
    assert found.rows["processes left behind after exit"]["values"] == [0]
    assert found.rows["read, 1 kB; 8 clients"]["values"][0] > 0
    assert found.rows["read, 1 kB; wrong or missing answers"]["values"] == [0]


@pytest.mark.parametrize(("group", "number"), [("terminal", 4), ("notebook", 5), ("mcp", 1)])
def test_a_quick_run_finds_every_answer_right_and_judges_the_aims(
    runs: dict[str, Future[Measured]], group: str, number: int
) -> None:
    _, rows, aims = runs[group].result()
    wrong = [cell["values"] for measure, cell in rows.items() if "wrong" in measure]
    assert wrong == [[0]] * number, rows
    missing = {measure for measure, cell in rows.items() if not cell["values"]}
    assert not [one for one in missing if "hang" not in one and ("tmux" not in one or shutil.which("tmux"))]
    assert {aim["reached"] for aim in aims if "reference" not in aim["text"]} <= {True, False}


def test_an_unknown_measure_is_refused_with_the_known_ones() -> None:
    finished = benchmark("--only", "speed")
    assert finished.returncode == 2
    assert "unknown: speed" in finished.stderr
    assert "ipython" in finished.stderr


def test_a_run_of_the_browser_alone_needs_no_other_server() -> None:
    options: Any = SimpleNamespace(no_reference=False, bare_reference=False, no_swerex=False)
    options.reference_url = options.reference_key = ""
    assert [peer.name for peer in peers_of(options, frozenset(["browser"]))] == [OWN]
    assert [peer.name for peer in peers_of(options, frozenset(["start"]))] == [OWN, REFERENCE, "SWE-ReX"]


def main_processes(gym: Gym) -> list[psutil.Process]:
    """Of each Chromium the first process: its helpers are started with a type."""
    lines = {process: process.cmdline() for process in gym.processes()}
    return [one for one, words in lines.items() if "--headless" in words and "--type=" not in " ".join(words)]


@pytest.mark.parametrize(("variant", "number"), [(PLAIN, 1), (AS_OPENHANDS, 2)])
def test_browsergym_does_a_step_in_one_or_two_browsers_and_leaves_nothing(variant: str, number: int) -> None:
    with browser.served_pages() as pages, open_gym(variant) as gym:
        first = browser.steps(pages)[0]
        assert first.is_right(gym.step(first.actions))
        assert len(main_processes(gym)) == number
        is_told = "slow_mo parameter (1000 => 0)" in (gym.folder / "log").read_text()
        assert is_told is (variant == PLAIN)
        there = gym.processes()
    assert not living(there)
    with pytest.raises(Failed, match="did not start: "), open_gym(variant, "/bin/false"):
        pass


def test_both_browsers_are_measured_on_the_same_pages_and_nothing_is_wrong_or_left() -> None:
    changes = {"steps": 2, "settle": 0, "observations": 1, "large_observations": 0}
    size = browser.GROUP.size(quick=True, **changes)
    results = Results(size, [OWN, GYM])
    browser.run(results, [], {one: OPENERS[one] for one in ((OWN, PLAIN), (GYM, PLAIN))})
    rows = [row for row in results.rows(browser.measures(size)) if "OpenHands" not in row.measure]
    assert all(row.cells[name].values for row in rows if "10000" not in row.measure for name in (OWN, GYM))
    assert [cell.values for cell in rows[-1].cells.values()] == [(0,), (0,)]
    with browser.served_pages() as pages, open_box() as box:
        assert browser.steps(pages)[0].is_right(box.step(browser.steps(pages)[0].actions))
        there = box.processes()
    assert not living(there)


@contextmanager
def no_engine() -> Iterator[Engine]:
    raise Failed("without containers here")
    yield


def test_boxes_are_measured_without_containers_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"commands": 20, "copy_megabytes": 5, "copy_files": 120, "crowd": 2, "settle": 0.0}
    size = boxes.GROUP.size(quick=True, **changes)
    results = Results(size, [OWN])
    # A path below pytest's own is too long for the sockets of a box.
    with tempfile.TemporaryDirectory(prefix="boxes-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        boxes.run(results, [Glovebox()], no_engine)
        assert not list(Path(folder).iterdir())
    rows = {row.measure.removeprefix("boxes: "): row.cells[OWN] for row in results.rows(boxes.measures(size))}
    missing = {measure: cell.reason for measure, cell in rows.items() if not cell.values}
    missing.pop("what the client adds to bare HTTP, p50", None)  # on a busy machine it is lost in the noise
    assert {reason for measure, reason in missing.items() if "bubblewrap" not in measure} == {
        "without containers here"
    }
    label = "new client to the answer of a first command, a process of this machine (median of 2)"
    assert rows[label].samples == size.starts + 1
    ways = [cell.samples for measure, cell in rows.items() if measure.startswith("`true` in a process")]
    assert ways == [size.commands] * 3
    assert (
        5 < rows["2 at once, a process of this machine, memory of each, all processes (PSS)"].values[0] < 1000
    )
    assert any("a process of this machine: the box answers after" in note for note in results.notes)
    reached = {aim.text: aim.reached for aim in boxes.aims(results)}
    assert reached["a container, to the answer of a first command < 0.5 s"] is None
    assert reached["`glovebox shell --backend process` to its prompt < 1 s"] is not None
    assert not results.has_own_failure
