"""Programs without a terminal, run and started by a `Box`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox import AsyncBox, Box
from glovebox.errors import CommandFailed, ProcessTimeout
from tests.client.support import OneBox
from tests.support.running import RunningBox
from tests.support.waiting import LIMIT, until

#: Every byte there is, twice, so that no encoding lets them all through by chance.
BYTES = bytes(range(256)) * 2


@pytest.fixture
def used(box: RunningBox) -> Iterator[Box]:
    with Box(backend=OneBox(box.url)) as made:
        yield made


def test_a_program_has_separate_streams_and_an_exit_code(used: Box) -> None:
    done = used.exec("echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code, done.ok) == ("out\n", "err\n", 3, False)
    assert done.output == "out\nerr\n"
    assert repr(done).startswith("<ExecOutcome 'echo out; echo err >&2; exit 3': exit code 3, ")
    with pytest.raises(CommandFailed, match=r"(?s)exit code 3.*err"):
        done.check()
    assert used.exec(["true"]).check().reason == "exit"


def test_arguments_input_directory_and_environment_arrive_exactly(used: Box, tmp_path: Path) -> None:
    assert used.exec(["printf", "%s|", "a b", "$HOME", "'"]).stdout == "a b|$HOME|'|"
    assert used.exec(["cat"], stdin=BYTES).stdout_bytes == BYTES
    assert used.exec(["cat"], stdin="äöü\n").stdout == "äöü\n"
    assert used.exec(["pwd"], cwd=str(tmp_path)).stdout == f"{tmp_path}\n"
    assert used.exec('echo "$X"', env={"X": "y z"}).stdout == "y z\n"
    assert used.exec("cat").stdout == ""  # without input, there is none


def test_large_output_is_complete(used: Box) -> None:
    done = used.exec("head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2")
    assert (len(done.stdout_bytes), len(done.stderr_bytes)) == (5_000_000, 3_000_000)


def test_output_is_reported_as_it_comes(used: Box, tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []

    def report(text: str) -> None:
        heard.append(("out", text))
        (tmp_path / "go").touch()

    script = f"echo ä; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo err >&2"
    done = used.exec(script, on_stdout=report, on_stderr=lambda text: heard.append(("err", text)))
    assert heard == [("out", "ä\n"), ("err", "err\n")]
    assert (done.stdout, done.stderr, done.ok) == ("ä\n", "err\n", True)


def test_a_program_whose_time_is_over_is_killed(used: Box) -> None:
    with pytest.raises(ProcessTimeout, match=r"(?s)killed after 1 s.*begun") as late:
        used.exec("echo begun; sleep 600", timeout=1)
    assert isinstance(late.value, TimeoutError)
    assert late.value.output == "begun\n"


async def test_a_program_whose_caller_is_cancelled_is_ended(box: RunningBox, tmp_path: Path) -> None:
    async with AsyncBox(backend=OneBox(box.url)) as used:
        running = asyncio.create_task(used.exec(f"echo $$ > {tmp_path}/pid; exec sleep 600"))
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        pid = int((tmp_path / "pid").read_text())
        await until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_signal_is_told(used: Box) -> None:
    done = used.exec("kill -KILL $$")
    assert (done.exit_code, done.signal, done.reason) == (137, "SIGKILL", "signal")


def test_a_started_program_is_talked_to(used: Box) -> None:
    with used.spawn(["cat"]) as process:
        assert process.running()
        process.write("one\n")
        pieces = iter(process)
        first = next(pieces)
        assert (first.stream, first.text) == ("stdout", "one\n")
        process.write(BYTES)
        process.close_stdin()
        done = process.wait(LIMIT)
        assert done.stdout_bytes == b"one\n" + BYTES
        assert b"".join(piece.data for piece in pieces) == BYTES
        assert process.stdout(4) == BYTES
        assert not process.running()
    assert repr(process) == f"<ProcessHandle 'cat', pid {process.pid}>"


def test_a_started_program_ends_with_its_block(used: Box) -> None:
    with used.spawn("sleep 600 & sleep 600") as process, pytest.raises(TimeoutError):
        process.wait(0.2)
    assert process.wait(LIMIT).signal == "SIGKILL"
    process.kill()  # once more does nothing
