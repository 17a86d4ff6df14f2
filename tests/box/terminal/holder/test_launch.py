"""The process of a holder, started before there is anything for it to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from glovebox.box.terminal.holder.launch import HolderProcess
from tests.box.terminal.console import console
from tests.support.waiting import LIMIT


@pytest.fixture
def launched() -> Iterator[HolderProcess]:
    with closing(HolderProcess()) as launched:
        yield launched


def test_it_ends_if_nobody_has_orders_for_it(
    launched: HolderProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    launched.connection.close()
    assert launched.process.wait(LIMIT) == 0
    assert capfd.readouterr() == ("", "")


async def test_it_holds_the_shells_of_whoever_has_orders(launched: HolderProcess, tmp_path: Path) -> None:
    async with console(tmp_path, launched=launched) as shell:
        assert shell.terminal.holder_pid == launched.process.pid
        assert await shell.output("echo $PPID") == str(launched.process.pid)
    assert launched.process.returncode == 0


async def test_complaints_go_to_a_file_once_it_has_orders(launched: HolderProcess, tmp_path: Path) -> None:
    async with console(tmp_path, launched=launched):
        descriptors = Path(f"/proc/{launched.process.pid}/fd")
        assert [(descriptors / str(number)).readlink().name for number in range(3)] == [
            "null",
            "holder.log",
            "holder.log",
        ]


async def test_one_that_has_died_meanwhile_is_replaced(launched: HolderProcess, tmp_path: Path) -> None:
    launched.process.kill()
    launched.process.wait(LIMIT)
    async with console(tmp_path, launched=launched) as shell:
        assert await shell.output("echo here") == "here"
