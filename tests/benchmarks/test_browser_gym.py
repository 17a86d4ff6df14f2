"""BrowserGym and a box with a real Chromium are measured, and nothing of them is left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from benchmarks.browser.box import open_box
from benchmarks.browser.gym import GYM, Gym, open_gym
from benchmarks.browser.lives import OPENERS
from benchmarks.browser.pages import served_pages
from benchmarks.browser.section import measure_browser
from benchmarks.browser.steps import steps
from benchmarks.competitors import Unavailable
from benchmarks.load import LoadError
from benchmarks.plan import BrowserPlan
from benchmarks.processes import living

from tests.support.running import wait_until

ROOT = Path(__file__).parent.parent.parent
#: As little as can be; the large page takes BrowserGym half a minute.
PLAN = BrowserPlan(
    starts=1,
    slow_starts=0,
    steps=2,
    settle=0,
    rounds=1,
    slow_rounds=0,
    observations=1,
    large_observations=0,
)
#: BrowserGym says so when it is told to.
PAUSES_LEFT_OUT = "slow_mo parameter (1000 => 0)"


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    with served_pages() as address:
        yield address


def nothing(text: str) -> None:
    """Say it to nobody."""


def main_processes(gym: Gym) -> list[psutil.Process]:
    """Of each Chromium the first process: its helpers are started with a type."""
    lines = {process: process.cmdline() for process in gym.processes()}
    return [
        process
        for process, words in lines.items()
        if "--headless" in words and not any(word.startswith("--type=") for word in words)
    ]


def test_browsergym_does_every_step_and_leaves_nothing(pages: str) -> None:
    with open_gym(is_plain=True) as gym:
        for step in steps(pages):
            seen = gym.step(step.actions)
            assert step.is_right(seen), seen
            assert seen.milliseconds > 0
            assert step.is_right(gym.observe())
        assert gym.step('click("nowhere")').error == 'ValueError: Could not find element with bid "nowhere"'
        assert len(main_processes(gym)) == 1
        assert PAUSES_LEFT_OUT in (gym.folder / "log").read_text()
        there, folder = gym.processes(), gym.folder
    assert not living(there)
    assert not folder.exists()


def test_as_openhands_runs_it_there_is_a_second_browser_and_the_pauses_are_there(pages: str) -> None:
    with open_gym(is_plain=False) as gym:
        step = steps(pages)[0]
        seen = gym.step(step.actions)
        assert step.is_right(seen), seen
        assert len(main_processes(gym)) == 2
        assert PAUSES_LEFT_OUT not in (gym.folder / "log").read_text()
        there = gym.processes()
    assert not living(there)


def test_a_browsergym_that_dies_is_told_of_in_its_last_words() -> None:
    with open_gym(is_plain=True) as gym:
        worker = next(
            process for process in gym.processes() if "benchmarks.browser.gym_worker" in process.cmdline()
        )
        worker.kill()
        with pytest.raises(LoadError):
            gym.step("noop(0)")
        there = gym.processes()
    assert not living(there)


def test_a_chromium_that_does_not_start_is_a_reason() -> None:
    gym = Gym("/bin/false", is_plain=True)
    try:
        with pytest.raises(Unavailable, match="did not start: "):
            gym.wait_ready()
    finally:
        gym.close()
    assert not gym.folder.exists()


def test_browsergym_ends_when_the_benchmark_is_killed() -> None:
    script = (
        "import os, signal\nfrom benchmarks.browser.gym import open_gym\n"
        "with open_gym(is_plain=True) as gym:\n"
        "    print(gym.folder, *(process.pid for process in gym.processes()), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    finished = subprocess.run([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    folder, *pids = finished.stdout.split()
    assert len(pids) > 2
    wait_until(lambda: not any(runs(int(pid)) for pid in pids), what="the end of BrowserGym and its browser")
    shutil.rmtree(folder)


def runs(pid: int) -> bool:
    try:
        return bool(living([psutil.Process(pid)]))
    except psutil.NoSuchProcess:
        return False


def test_a_box_does_every_step_and_leaves_nothing(pages: str) -> None:
    with open_box() as box:
        for step in steps(pages):
            seen = box.step(step.actions)
            assert step.is_right(seen), seen
            assert step.is_right(box.observe())
        assert [one for one in box.processes() if "chromium" in one.name()]
        there = box.processes()
    assert not living(there)


def test_both_are_measured_on_the_same_pages_and_no_answer_is_wrong() -> None:
    openers = {name: OPENERS[name] for name in ("glovebox", GYM)}
    found = measure_browser(PLAN, nothing, openers)
    rows = [row for row in found.rows if "10000" not in row.measure and "OpenHands" not in row.measure]
    missing = [row for row in rows if not all(row.cells[name].values for name in openers)]
    assert not missing
    wrong = next(row.cells for row in rows if row.measure == "browser: wrong or missing answers")
    assert [cell.values for cell in wrong.values()] == [(0,), (0,)]
    assert {aim.reached for aim in found.aims} <= {True, False}
