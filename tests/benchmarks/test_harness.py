"""The table shows what was measured, counts what was wrong, and says why something is missing."""

from __future__ import annotations

import json

import pytest
from benchmarks.harness import OWN, REFERENCE, Group, Measure, Results, table
from benchmarks.load import Outcome
from benchmarks.peers.openhands import Glovebox, Reference
from benchmarks.processes import Failed, NotOffered
from benchmarks.report import Aim, Cell, Report, Row, at_least, below, times

LONG = "it could not be installed because a program is missing"


def cells_of(report: Report, measure: str) -> list[str]:
    for line in report.table().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == measure:
            return cells[1:]
    raise AssertionError(f"no row {measure}")


def report_of(*rows: Row) -> Report:
    return Report(["ours", "theirs"], ["a note"], list(rows))


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
            Row(
                "r",
                "s",
                {"ours": Cell((12345.6,), client_limited=True), "theirs": Cell(reason="not offered")},
            ),
            ["s ↓", "12346†", "n/a (not offered)", ""],
        ),
    ],
)
def test_a_row_shows_values_and_ratios_or_why_there_are_none(row: Row, shown: list[str]) -> None:
    assert cells_of(report_of(row), "r") == shown


def test_a_long_reason_stands_once_below_the_table_and_aims_after_it() -> None:
    report = report_of(*(Row(name, "s", {"theirs": Cell(reason=LONG)}) for name in ("start", "stop")))
    report.aims += [Aim("fast", "2 ms", True), Aim("small", "9 MB", False), Aim("far", "n/a", None)]
    assert cells_of(report, "start")[2] == cells_of(report, "stop")[2] == "n/a [1]"
    assert report.table().count(LONG) == 1
    assert [cells_of(report, name)[1] for name in ("fast", "small", "far")] == ["yes", "no", "not measured"]
    assert json.loads(report.as_json())["rows"][0]["cells"]["theirs"]["reason"] == LONG


def test_an_aim_without_a_figure_is_neither_reached_nor_missed() -> None:
    assert [below("a", value, 2, "ms").reached for value in (1.5, 2.5, None)] == [True, False, None]
    assert [at_least("a", value, 40, "MB/s").reached for value in (40, 39.6)] == [True, False]
    assert [times("a", value, 2, 100).reached for value in (250, 150, None)] == [True, False, None]


def test_measures_are_read_from_lines() -> None:
    (measure,) = table("ms ↓ | {n} echoes ({runs}) | echo:p50 | not offered", "a: ", n=3)
    assert measure == Measure("a: 3 echoes ({runs})", "ms", "echo:p50", "lower", "not offered")


def test_only_right_answers_are_timed_and_wrong_and_missing_ones_counted() -> None:
    results = Results(None, [OWN, REFERENCE])
    results.take(OWN, "echo", Outcome([30.0, 10.0, 20.0], wrong=1, unanswered=2, example="late"))
    results.take(REFERENCE, "echo", Outcome(wrong=4))
    spread, wrong = Measure("echo ({runs})", "ms", "echo:p50 echo:max"), Measure("wrong", "", "echo:wrong")
    first, second = results.rows([spread, wrong])
    assert first.cells[OWN] == Cell((20.0, 30.0), samples=3)
    assert first.cells[REFERENCE] == Cell(reason="no right answer")
    assert second.cells == {
        name: Cell((n,), samples=m, out_of=m) for name, n, m in ((OWN, 3, 6), (REFERENCE, 4, 4))
    }


def test_a_peer_that_fails_leaves_its_reason_has_an_answer_missing_and_no_more_turns() -> None:
    results = Results(None, [OWN, REFERENCE])
    results.take(REFERENCE, "read.1", Outcome([1.0]))
    with results.excusing(REFERENCE, "read"):
        raise Failed("gone")
    assert results.wrong("read.1", "read.8", peer=REFERENCE) == Cell((1,), samples=2, out_of=2)
    assert results.cell(Measure("", "ms", "read.8:p50"), REFERENCE).reason == "gone"
    assert results.cell(Measure("", "ms", "readers:p50"), REFERENCE).reason == ""
    peers = [Glovebox(), Reference()]
    assert [peer.name for _, peer in results.turns(1, peers, "read.8")] == [OWN]
    assert not results.has_own_failure


def test_a_failure_of_the_box_stands_in_its_column_and_fails_the_run_unless_it_is_optional() -> None:
    def run(results: Results, problem: Failed) -> None:
        with results.excusing(OWN, "tmux", optional=True):
            raise Failed("no tmux")
        raise problem

    group = Group({}, lambda size: [Measure("a", "s", "a:last"), Measure("b", "s", "tmux:last")], run)
    for problem, has_failed in ((Failed("dead"), True), (NotOffered(), False)):
        results = group.results("test", None, [OWN], problem)
        assert [row.cells[OWN].reason for row in results.rows(group.measures(None))] == [
            str(problem),
            "no tmux",
        ]
        assert results.has_own_failure is has_failed
