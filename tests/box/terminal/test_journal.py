"""The journal of a session: what was written is read again, whatever happened to the file."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.survival.journal import (
    COMPACT_BYTES,
    Answered,
    Began,
    Ended,
    Entry,
    Journal,
    Opened,
    Reported,
    Resized,
    Sent,
    ShellIdentity,
    ShellStarted,
    load,
    summarize,
)
from glovebox.box.threads import Threads
from glovebox.protocol.terminal import Bill, Limits
from tests.support.waiting import LIMIT

OPENED = Opened(name="main", created=1.5, cwd="/é\n", rows=24, columns=80, limits=Limits(memory=5))
IDENTITY = ShellIdentity(number=7, session_token="s", start_token="t", directory="/tmp/x", position=9)


def began(number: int, command: str = "echo hi") -> Began:
    return Began(
        id=f"id{number}", token="t", input_number=number, position=number, command=command, started=1.0
    )


def ended(number: int, working_dir: str = "/") -> Ended:
    return Ended(
        id=f"id{number}",
        extents=[(number, 5), (number + 9, 1)],
        ended=2.0,
        report=EndReport(3, -1, "me", "here", working_dir, ""),
        status=None,
        bill=Bill(wall_seconds=0.5, output_bytes=6),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def threads() -> Iterator[Threads]:
    pool = Threads("journal", workers=1)
    yield pool
    pool.close()


def size(path: Path) -> int:
    return path.stat().st_size


def written(path: Path, *entries: Entry) -> Journal:
    journal = Journal(str(path))
    for entry in entries:
        journal.append(entry)
    return journal


EVERYTHING: list[Entry] = [
    OPENED,
    Resized(rows=1, columns=2),
    ShellStarted(identity=IDENTITY),
    began(1),
    Sent(action_id="a", input_number=2),
    Reported(id="id1", action_id="a", before=0, size=3),
    ended(1),
    Answered(id="id1", action_id="b"),
    Ended(id="id2", extents=[], ended=1, report=None, status=None, bill=Bill(wall_seconds=0), limit="why"),
]


def test_what_is_written_is_read_again(path: Path) -> None:
    written(path, *EVERYTHING).close()
    assert load(str(path), str(path.parent)) == EVERYTHING
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_journal_goes_on_where_it_ended(path: Path) -> None:
    written(path, OPENED).close()
    written(path, began(1)).close()
    assert load(str(path), str(path.parent)) == [OPENED, began(1)]


def test_a_line_that_was_torn_is_left_out_wherever_it_was_torn(path: Path) -> None:
    written(path, OPENED, began(1), ended(1)).close()
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert load(str(path), str(path.parent)) == [OPENED, began(1)]
    path.write_bytes(whole[:-1])
    assert load(str(path), str(path.parent)) == [OPENED, began(1), ended(1)]


def test_lines_that_are_no_entries_are_left_out(path: Path) -> None:
    written(path, OPENED).close()
    with path.open("ab") as file:
        file.write(b'{"what":"something newer"}\n\xff\n\n[]\n{"what":"resized","rows":"x"}\n')
    written(path, began(1)).close()
    assert load(str(path), str(path.parent)) == [OPENED, began(1)]


def test_without_a_file_there_is_nothing_to_read_and_nothing_to_write(tmp_path: Path) -> None:
    assert load(str(tmp_path / "missing"), str(tmp_path)) == []
    journal = Journal(None)
    journal.append(OPENED)
    journal.rewrite([OPENED])
    assert not journal.overgrown
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_nothing_is_no_reason_to_fail(tmp_path: Path) -> None:
    journal = written(tmp_path / "missing" / "journal", OPENED)
    journal.rewrite([OPENED])
    journal.close()
    full = Journal("/dev/full")
    full.append(OPENED)
    full.close()


def test_a_long_command_is_shortened_and_a_name_that_is_no_text_left_out(path: Path) -> None:
    written(path, began(1, "x" * 100_000), ended(1, "/\udcff")).close()
    first, second = load(str(path), str(path.parent))
    assert isinstance(first, Began)
    assert isinstance(second, Ended)
    assert len(first.command) < 20_000
    assert second.report is not None
    assert (second.report.working_dir, second.report.exit_code) == ("", 3)


def test_a_journal_can_be_written_anew_and_gone_on_with(path: Path) -> None:
    journal = written(path, OPENED, began(1), began(2))
    journal.rewrite([OPENED, began(2)])
    journal.append(ended(2))
    journal.close()
    assert load(str(path), str(path.parent)) == [OPENED, began(2), ended(2)]
    assert [file.name for file in path.parent.iterdir()] == ["journal"]


def test_it_says_when_it_has_grown_too_long(path: Path) -> None:
    journal = Journal(str(path))
    number = 0
    while not journal.overgrown:
        journal.append(began(number, "x" * 9_000))
        number += 1
    assert path.stat().st_size > COMPACT_BYTES
    journal.rewrite([OPENED])
    assert not journal.overgrown
    journal.close()


async def test_what_is_appended_while_it_is_written_anew_is_kept(path: Path, threads: Threads) -> None:
    journal = written(path, OPENED, began(1), ended(1))
    gate = threading.Event()
    reading = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(entries: list[Entry]) -> list[Entry]:
        loop.call_soon_threadsafe(reading.set)
        assert gate.wait(LIMIT)
        return summarize(entries)

    compacting = asyncio.ensure_future(journal.compact(slow, threads))
    await asyncio.wait_for(reading.wait(), LIMIT)
    late: list[Entry] = [began(2), ended(2), Answered(id="id2", action_id="id2")]
    for entry in late:
        journal.append(entry)
    await journal.compact(slow, threads)  # one at a time: this does nothing
    gate.set()
    await compacting
    journal.append(began(3))
    journal.close()
    assert load(str(path), str(path.parent)) == [OPENED, began(1), ended(1), *late, began(3)]


async def test_what_is_forgotten_does_not_come_back(path: Path, threads: Threads) -> None:
    journal = written(path, OPENED, Resized(rows=30, columns=90), ShellStarted(identity=IDENTITY))
    for number in range(1_500):
        journal.append(began(number))
        journal.append(ended(number))
    before = size(path)
    await journal.compact(summarize, threads)
    journal.close()
    opened, shell, *commands = load(str(path), str(path.parent))
    assert isinstance(opened, Opened)
    assert (opened.rows, opened.columns) == (30, 90)
    assert shell == ShellStarted(identity=IDENTITY)
    assert commands[:2] == [began(500), ended(500)]
    assert commands[-1] == ended(1_499)
    assert size(path) < before


async def test_a_journal_that_cannot_be_written_anew_goes_on(path: Path, threads: Threads) -> None:
    journal = written(path, OPENED, began(1))
    os.mkdir(f"{path}.new")
    await journal.compact(summarize, threads)
    journal.append(ended(1))
    journal.close()
    assert load(str(path), str(path.parent)) == [OPENED, began(1), ended(1)]
