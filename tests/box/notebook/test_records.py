"""What cells gave out is kept in bounded memory."""

from __future__ import annotations

import pytest

from glovebox.box.notebook.cells import MOST_BYTES, MOST_BYTES_OF_ONE, MOST_CELLS, CellLogs
from glovebox.errors import NoSuchCell
from glovebox.protocol.notebook import CellInfo, CellOutput


def begin(records: CellLogs, cell_id: str) -> None:
    records.begin(cell_id, lambda: CellInfo(id=cell_id, kernel="main", state="running", accepted=0))


def text(size: int) -> CellOutput:
    return CellOutput(kind="stream", name="stdout", text="x" * size)


def test_a_cell_is_told_with_what_it_gave_out() -> None:
    records = CellLogs()
    begin(records, "a")
    records.add("a", text(3))
    record = records.get("main", "a")
    assert [output.text for output in record.outputs] == ["xxx"]
    assert (record.cell.id, record.dropped_bytes) == ("a", 0)


def test_the_oldest_cells_are_forgotten() -> None:
    records = CellLogs()
    for number in range(MOST_CELLS + 1):
        begin(records, str(number))
    with pytest.raises(NoSuchCell):
        records.get("main", "0")
    assert records.get("main", "1")


def test_bytes_are_bounded_whatever_cells_give_out() -> None:
    records = CellLogs()
    for number in range(50):
        begin(records, str(number))
        for _ in range(5):
            records.add(str(number), text(1_000_000))
        assert records.size <= MOST_BYTES
    assert records.get("main", "49").dropped_bytes > 5_000_000 - MOST_BYTES_OF_ONE


def test_output_of_a_forgotten_cell_is_not_kept() -> None:
    records = CellLogs()
    records.add("never", text(100))
    assert records.size == 0


def test_a_cell_belongs_to_its_kernel() -> None:
    records = CellLogs()
    begin(records, "a")
    with pytest.raises(NoSuchCell):
        records.get("other", "a")


def test_a_cell_of_the_same_id_replaces_the_earlier_one() -> None:
    records = CellLogs()
    begin(records, "a")
    records.add("a", text(1000))
    begin(records, "a")
    assert (records.get("main", "a").outputs, records.size) == ([], 0)
