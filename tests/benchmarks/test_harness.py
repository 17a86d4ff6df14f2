"""Measures are carried out as their table says, and the report shows what was measured, or why not."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.harness import BARE, OWN, REFERENCE, Measure, Results, Stage
from benchmarks.load import Outcome
from benchmarks.processes import Failed, Unavailable, Wrong
from benchmarks.report import Cell, Report, Row, Table, Target

LONG = "it could not be installed because a program is missing"


def cells_of(report: Report, measure: str) -> list[str]:
    for line in report.text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == measure:
            return cells[1:]
    raise AssertionError(f"no row {measure}")


def measured(*measures: Measure) -> Results:
    """What is measured of this box, of the reference, and without any server."""
    results = Results("test", [OWN, REFERENCE, BARE])
    peers = [SimpleNamespace(name=name) for name in (OWN, REFERENCE)]
    results.run([Stage(nullcontext, measures)], peers, [one.name for one in measures])
    return results


def failing(problem: Failed) -> Any:
    def call(subject: object, turn: int) -> float:
        raise problem

    return call


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (
            Row("r", "ms", {"ours": Cell((2.0, 4.0)), "theirs": Cell((3.0, 40.0))}),
            ["ms ↓", "2 / 4", "3 / 40", "1.50× / 10×"],
        ),
        (
            Row("r", "req/s", {"ours": Cell((650.0,)), "theirs": Cell((1.69,))}, "higher"),
            ["req/s ↑", "650", "1.69", "0.0026×"],
        ),
        (
            Row("r", "", {"ours": Cell((0,), out_of=9), "theirs": Cell((2,), out_of=7)}, ""),
            ["", "0 of 9", "2 of 7", ""],
        ),
        (
            Row("r", "s", {"ours": Cell((12345.6,), client_limited=True), "theirs": Cell(reason="no")}),
            ["s ↓", "12346†", "n/a (no)", ""],
        ),
        (
            Row("r", "s", {"ours": Cell((3.0,)), "theirs": Cell((2.0,))}, "lower", Target("≤ 1", False, 1.5)),
            ["s ↓", "3", "2", "0.67×", "≤ 1: missed (1.50×)"],
        ),
    ],
)
def test_a_row_shows_values_and_ratios_or_why_there_are_none(row: Row, shown: list[str]) -> None:
    assert cells_of(Report(["a note"], [Table("group", ["ours", "theirs"], [row])]), "r") == shown


def test_a_long_reason_stands_once_below_the_tables() -> None:
    rows = [Row(name, "s", {"theirs": Cell(reason=LONG)}) for name in ("start", "stop")]
    report = Report([], [Table("group", ["ours", "theirs"], rows)])
    assert cells_of(report, "start")[2] == cells_of(report, "stop")[2] == "n/a [1]"
    assert report.text().count(LONG) == 1
    assert json.loads(report.as_json())["tables"][0]["rows"][0]["cells"]["theirs"]["reason"] == LONG


def test_a_measure_calls_each_peer_so_often_in_turns_and_samples_become_figures() -> None:
    order: list[str] = []

    def call(peer: Any, turn: int) -> dict[str, float]:
        order.append(peer.name)
        return {"speed": 10.0 * turn, "weight": 3.0}

    rows = "s ↓ | speed ({runs}) | speed:median\nMB | weight | weight:max"
    results = measured(Measure("m", call, rows, count=5, bare=lambda turn: {"speed": 5.0}))
    speed, weight, _ = results.rows()
    assert order == [OWN, REFERENCE] * 5
    assert speed.measure == "speed (median of 5)"
    assert [speed.cells[name].values for name in (OWN, REFERENCE, BARE)] == [(20.0,), (20.0,), (5.0,)]
    assert (weight.cells[OWN].values, weight.cells[BARE], weight.better) == ((3.0,), Cell(), "")


def test_a_slow_peer_is_not_called_again_and_the_time_of_a_call_is_its_sample() -> None:
    (row, _) = measured(Measure("m", lambda peer, turn: None, "ms ↓ | m | :p50", 5, seconds=0)).rows()
    assert row.cells[OWN].samples == 1
    assert 0 < row.cells[OWN].values[0] < 10_000


def test_only_right_answers_are_samples_and_wrong_and_missing_ones_are_counted() -> None:
    outcome = Outcome([30.0, 10.0, 20.0], wrong=1, unanswered=2, example="late")
    spread, wrong, total = measured(
        Measure("a", lambda peer, turn: outcome, "ms | a | :p50 :max\n | bad | :wrong", only=(OWN,)),
        Measure("b", failing(Wrong("no")), "", count=2, only=(OWN,)),
    ).rows()
    assert spread.cells[OWN] == Cell((20.0, 30.0), samples=3)
    assert spread.cells[REFERENCE].reason == "not offered"
    assert (wrong.cells[OWN].values, wrong.cells[OWN].out_of) == ((3,), 6)
    assert (total.cells[OWN].values, total.cells[OWN].out_of) == ((5,), 8)
    assert total.target == Target("= 0", False)


@pytest.mark.parametrize(("problem", "has_failed"), [(Failed("dead"), True), (Unavailable("no tmux"), False)])
def test_a_failure_stands_in_the_cell_and_ends_the_measure_and_what_belongs_to_it(
    problem: Failed, has_failed: bool
) -> None:
    results = measured(
        Measure("read.1", failing(problem), "ms | one | :p50", count=3, scope="read"),
        Measure("read.8", lambda peer, turn: 1.0, "ms | eight | :p50"),
        Measure("reader", lambda peer, turn: 1.0, "ms | other | :p50"),
    )
    one, eight, other, _ = results.rows()
    assert [row.cells[OWN].reason for row in (one, eight, other)] == [str(problem), str(problem), ""]
    assert results.has_own_failure is has_failed


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        ("< 2", False),
        ("≤ 2", True),
        ("≥ 40", False),
        ("≤ 0.5 × reference", True),
        ("< 1 × bare + 1", True),
        ("≤ 1.8 × base:p50", False),
        ("≤ 1 × missing:p50", None),
    ],
)
def test_a_target_compares_the_box_with_a_number_a_peer_or_another_measure(
    target: str, reached: bool | None
) -> None:
    def call(peer: Any, turn: int) -> float:
        return 2.0 if peer.name == OWN else 4.0

    base = Measure("base", lambda peer, turn: 1.0, "ms | base | :p50")
    rows = measured(base, Measure("m", call, f"ms ↓ | m | :p50 | {target}", bare=lambda turn: 1.5)).rows()
    assert rows[1].target is not None
    assert (rows[1].target.text, rows[1].target.reached) == (target, reached)
