"""The table shows what was measured and says why something was not."""

from __future__ import annotations

import json

from benchmarks.report import Aim, Cell, Report, Row

LONG = "it could not be installed because a program is missing"


def cells_of(report: Report, measure: str) -> list[str]:
    for line in report.table().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == measure:
            return cells[1:]
    raise AssertionError(f"no row {measure}")


def report_of(*rows: Row) -> Report:
    return Report(["ours", "theirs"], ["a note"], list(rows))


def test_a_ratio_divides_the_other_value_by_ours() -> None:
    report = report_of(Row("latency", "ms", {"ours": Cell((2.0, 4.0)), "theirs": Cell((3.0, 40.0))}))
    assert cells_of(report, "latency") == ["ms ↓", "2 / 4", "3 / 40", "1.50× / 10×"]


def test_a_very_small_ratio_is_not_shown_as_zero() -> None:
    cells = {"ours": Cell((650.0,)), "theirs": Cell((1.69,))}
    assert cells_of(report_of(Row("rate", "req/s", cells, better="higher")), "rate")[3] == "0.0026×"


def test_a_count_has_no_ratio_and_tells_out_of_how_many() -> None:
    report = report_of(
        Row("wrong", "", {"ours": Cell((0,), out_of=9), "theirs": Cell((2,), out_of=7)}, better="")
    )
    assert cells_of(report, "wrong") == ["", "0 of 9", "2 of 7", ""]


def test_what_was_not_measured_says_why_and_has_no_ratio() -> None:
    report = report_of(
        Row("rate", "req/s", {"ours": Cell((5.0,)), "theirs": Cell(reason="not offered")}, better="higher")
    )
    assert cells_of(report, "rate") == ["req/s ↑", "5", "n/a (not offered)", ""]


def test_a_long_reason_stands_once_below_the_table() -> None:
    report = report_of(*(Row(name, "s", {"theirs": Cell(reason=LONG)}) for name in ("start", "stop")))
    assert cells_of(report, "start")[2] == cells_of(report, "stop")[2] == "n/a [1]"
    assert report.table().count(LONG) == 1


def test_a_figure_limited_by_the_client_is_marked() -> None:
    report = report_of(Row("rate", "req/s", {"ours": Cell((12345.6,), client_limited=True)}))
    assert cells_of(report, "rate")[1] == "12346†"


def test_aims_stand_below_the_table_with_what_became_of_them() -> None:
    report = report_of(Row("latency", "ms", {"ours": Cell((2.0,))}))
    report.aims += [Aim("fast", "2 ms", True), Aim("small", "9 MB", False), Aim("far", "n/a", None)]
    assert cells_of(report, "fast") == ["2 ms", "yes"]
    assert cells_of(report, "small") == ["9 MB", "no"]
    assert cells_of(report, "far") == ["n/a", "not measured"]


def test_all_columns_are_aligned() -> None:
    report = report_of(Row("a", "s", {"ours": Cell((1.5,))}), Row("longer", "ms", {"ours": Cell((150.0,))}))
    lengths = {len(line) for line in report.table().splitlines() if line.startswith("|")}
    assert len(lengths) == 1


def test_json_carries_the_samples() -> None:
    report = report_of(Row("start", "s", {"ours": Cell((1.5,), samples=5)}))
    assert json.loads(report.as_json())["rows"][0]["cells"]["ours"]["samples"] == 5
