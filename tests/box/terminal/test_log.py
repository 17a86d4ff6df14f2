"""The output of a command, by its id: exact, from any place, while it runs and after."""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.box.events import EventLog
from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.manager import Terminal
from glovebox.errors import NoSuchCommand, OutputGone
from tests.box.terminal.console import Console
from tests.support.waiting import until


def all_of(shell: Console) -> list[RunningCommand]:
    """Its commands, the oldest first."""
    return shell.terminal.session("main").commands.of_session("main")


def newest(shell: Console) -> RunningCommand:
    """The command that was given last."""
    return all_of(shell)[-1]


async def everything(command: RunningCommand, size: int = 100_000) -> bytes:
    """All output of a command, in pieces."""
    pieces = []
    offset = 0
    while piece := await command.read(offset, size):
        assert len(piece) <= size
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


#: What is run, and what it prints.
PRINTED = [
    ("true", b""),
    ("echo hi", b"hi\r\n"),
    ("printf 'no end'", b"no end"),
    ("printf 'a\\xe2'; sleep 0.05; printf '\\x82'; sleep 0.05; printf '\\xac\\n'", "a€\r\n".encode()),
    ("printf '\\0\\001\\377\\033[31mred\\033[0m\\r1\\r2'", b"\0\x01\xff\x1b[31mred\x1b[0m\r1\r2"),
    ("printf '\\033]1807;D;deadbeef\\a.\\033]1807;'", b"\x1b]1807;D;deadbeef\x07.\x1b]1807;"),
]


async def test_output_is_kept_byte_by_byte(shell: Console) -> None:
    for command, output in PRINTED:
        await shell.run(command)
        printed = newest(shell)
        assert await everything(printed, 3) == output
        assert b"".join(printed.pieces()) == output
        assert (printed.size, printed.info().output_bytes) == (len(output), len(output))
        assert await printed.read(len(output)) == b""
        assert await printed.read(len(output) + 100) == b""
        assert b"".join(printed.pieces(1)) == output[1:]
    for printed, (_, output) in zip(all_of(shell), PRINTED, strict=True):
        assert await everything(printed) == output


async def test_what_is_said_of_jobs_at_the_end_belongs_to_the_command(shell: Console) -> None:
    await shell.run("sleep 1000 &")
    await shell.run("kill %1")
    assert await everything(newest(shell)) == b"[1]+  Terminated              sleep 1000\r\n"


async def test_twenty_megabytes_are_kept_to_the_byte(shell: Console) -> None:
    data = "".join(f"{number:06d} é {'x' * (number % 70)}\r\n" for number in range(22_500)).encode()
    (shell.workspace / "data").write_bytes(data)
    times = 20_000_000 // len(data) + 1
    await shell.run(f"stty -opost; for ((i = 0; i < {times}; i++)); do cat data; done", blocking=True)
    command = newest(shell)
    assert command.size == len(data) * times
    digest = hashlib.sha256()
    for piece in await asyncio.to_thread(lambda: list(command.pieces())):
        digest.update(piece)
    assert digest.digest() == hashlib.sha256(data * times).digest()
    middle = len(data) * (times // 2) - 10
    assert await command.read(middle, 20) == data[-10:] + data[:10]


async def test_output_can_be_followed_while_the_command_runs(shell: Console) -> None:
    running = asyncio.ensure_future(
        shell.run("for i in 1 2 3; do echo $i; until [ -e go$i ]; do sleep 0.01; done; done; echo end")
    )
    await until(lambda: "1" in shell.streamed(), "it began")
    command = newest(shell)
    seen = b""
    for number in (1, 2, 3):
        await asyncio.wait_for(command.changed(len(seen)), 20)
        seen += await command.read(len(seen))
        assert seen.split() == [b"%d" % one for one in range(1, number + 1)]
        assert not command.finished
        waiting = asyncio.ensure_future(command.changed(len(seen)))
        await asyncio.sleep(0)
        assert not waiting.done()
        (shell.workspace / f"go{number}").touch()
        await asyncio.wait_for(waiting, 20)
    await running
    assert await everything(command) == b"1\r\n2\r\n3\r\nend\r\n"
    await asyncio.wait_for(command.changed(command.size), 20)


async def test_a_command_that_never_was_is_not_found(shell: Console) -> None:
    with pytest.raises(NoSuchCommand, match="'never'"):
        shell.terminal.command("never")


async def test_a_budget_is_spent_on_beginning_end_and_errors(shell: Console) -> None:
    answer = await shell.run("seq 5000; echo 'error: bad thing'; seq 5001 10000; (exit 2)", budget=2000)
    assert len(answer.content) <= 2000
    assert answer.content.startswith("1\n2\n3\n")
    assert "\n9999\n10000\n" in answer.content
    assert "5001:error: bad thing" in answer.content
    assert newest(shell).id in answer.content
    assert (answer.metadata.exit_code, answer.metadata.prefix) == (2, "")


async def test_a_budget_holds_for_each_report_of_a_running_command(shell: Console) -> None:
    first = await shell.run("seq 5000; read -r line; seq 6000 9000", budget=1000, timeout=1)
    assert first.content.startswith("1\n2\n")
    assert "\n4999\n5000\n" in first.content
    last = await shell.type("go", budget=1000)
    assert "\n6000\n6001\n" in f"\n{last.content}"
    assert "\n8999\n9000\n" in last.content
    assert max(len(first.content), len(last.content)) <= 1000


@pytest.fixture
async def forgetful(tmp_path: Path, kind: str) -> AsyncIterator[Console]:
    """A shell of whose output four megabytes are kept."""
    events = EventLog()
    terminal = Terminal(
        events=events,
        working_dir=str(tmp_path),
        username=getpass.getuser(),
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        no_change_timeout=10,
        log_size=4_000_000,
        kind=kind,
    )
    try:
        await terminal.start()
        yield Console(terminal, tmp_path, events)
    finally:
        await terminal.close()


async def test_output_that_is_not_kept_any_more_is_told_to_be_gone(forgetful: Console) -> None:
    await forgetful.run("echo early")
    early = newest(forgetful)
    much = "printf '%01000000d\\n' 0"
    await forgetful.run(
        f"{much}; for i in 1 2 3 4 5 6 7; do read -r line; {much}; done; echo late", timeout=0.5
    )
    late = newest(forgetful)
    for _ in range(7):
        answer = await forgetful.type("go", timeout=0.2)
    while answer.metadata.exit_code == -1:  # what is not reported would stand before the next output
        answer = await forgetful.poll()
    assert late.size == 8 * 1_000_002 + 7 * len("go\r\n") + len("late\r\n")
    for command in (early, late):
        with pytest.raises(OutputGone, match="not kept any more"):
            await command.read(0)
        with pytest.raises(OutputGone):
            list(command.pieces())
    assert await late.read(late.size - 10) == b"00\r\nlate\r\n"
    assert log_size(forgetful) <= 4_500_000
    assert await forgetful.output("echo next") == "next"


def log_size(shell: Console) -> int:
    """How many bytes the log takes on disk."""
    directory = Path(shell.terminal.session("main").shell.log_directory)
    return sum(file.stat().st_size for file in directory.iterdir())
