"""The measures of boxes see what really happened."""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.boxes.client import OURS, Library
from benchmarks.boxes.engine import Engine
from benchmarks.boxes.section import libraries, measure_boxes
from benchmarks.boxes.tally import BoxFindings
from benchmarks.competitors import Glovebox, Reference, Say, SweRexServer, Unavailable
from benchmarks.report import Cell

from benchmarks import plan as plans

BROKEN = Library(Reference.name, Path(sys.executable), "benchmarks.boxes.no_such_module")
WITHOUT = "without containers here"
PLAN = dataclasses.replace(
    plans.quick(frozenset(["boxes"])).boxes,
    commands=20,
    copy_megabytes=5,
    copy_files=120,
    crowd=2,
    settle=0.0,
)


def nothing(text: str) -> None:
    """Say it to nobody."""


@contextmanager
def no_engine(say: Say) -> Iterator[Engine]:
    raise Unavailable(WITHOUT)
    yield


@pytest.fixture(scope="module")
def found() -> BoxFindings:
    """What a short run finds; at its end nothing is left of it."""
    # A path below pytest's own is too long for the sockets of a box.
    with tempfile.TemporaryDirectory(prefix="boxes-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        findings = measure_boxes([OURS, BROKEN], PLAN, nothing, no_engine)
        assert os.listdir(folder) == []
    return findings


@pytest.fixture(scope="module")
def rows(found: BoxFindings) -> dict[str, Cell]:
    return {row.measure.removeprefix("boxes: "): row.cells["glovebox"] for row in found.rows}


def test_everything_about_processes_is_measured_and_the_rest_says_why_not(rows: dict[str, Cell]) -> None:
    missing = {measure: cell.reason for measure, cell in rows.items() if not cell.values}
    missing.pop("what the client adds to bare HTTP, p50", None)  # on a busy machine it is lost in the noise
    assert all(
        " container" in measure or "docker" in measure or "bubblewrap" in measure for measure in missing
    )
    assert {reason for measure, reason in missing.items() if "bubblewrap" not in measure} == {WITHOUT}
    assert all(value >= 0 for cell in rows.values() for value in cell.values)


def test_starts_are_counted_with_the_one_that_is_kept(rows: dict[str, Cell]) -> None:
    label = "new client to the answer of a first command, a process of this machine (median of 2)"
    assert rows[label].samples == PLAN.starts + 1


def test_boxes_that_run_at_once_are_weighed(rows: dict[str, Cell]) -> None:
    label = "2 at once, a process of this machine"
    assert rows[f"{label}, until all have answered a command"].values[0] > 0
    # A server and its shells are some megabytes at least, and no more than the machine has.
    assert 5 < rows[f"{label}, memory of each, all processes (PSS)"].values[0] < 1000


def test_every_way_to_a_box_is_asked_as_often_as_planned(rows: dict[str, Cell]) -> None:
    ways = [cell for measure, cell in rows.items() if measure.startswith("`true` in a process")]
    assert [cell.samples for cell in ways] == [PLAN.commands] * 3


def test_a_file_and_a_tree_are_copied_in_and_out(rows: dict[str, Cell]) -> None:
    for what in ("a file of 5 MB", "120 files of 2 kB"):
        for way in ("into the box", "out of the box"):
            assert rows[f"{what} {way}"].values[0] > 0
            assert len(rows[f"{what} {way}, peak growth of memory, client / box"].values) == 2


def test_the_steps_of_a_start_are_told_and_the_aims_are_judged(found: BoxFindings) -> None:
    assert any("a process of this machine: the box answers after" in note for note in found.notes)
    reached = {aim.text: aim.reached for aim in found.aims}
    assert reached["a container, to the answer of a first command < 0.5 s"] is None
    assert reached["`glovebox shell --backend process` to its prompt < 1 s"] is not None
    assert reached["`glovebox shell --backend docker` to its prompt < 1 s"] is None


def test_a_client_that_does_not_start_takes_no_part_and_says_why(found: BoxFindings) -> None:
    cells = {row.measure: row.cells[Reference.name] for row in found.rows}
    assert not [measure for measure, cell in cells.items() if cell.values]
    reasons = {cell.reason for measure, cell in cells.items() if " container" not in measure}
    assert all("no_such_module" in reason for reason in reasons - {"not offered"})


def test_only_the_clients_of_servers_that_take_part_are_measured() -> None:
    assert [one.name for one in libraries([Glovebox(), SweRexServer()], is_bare=True)] == [
        "glovebox",
        "SWE-ReX",
    ]
    (reference,) = libraries([Reference()], is_bare=True)
    assert not reference.has_plugins
