"""Processes beside the shells: the sandbox user's, ended with the box, found again by the next server."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from glovebox.box.events import EventLog
from glovebox.box.terminal.manager import Terminal
from glovebox.settings import current_user
from tests.support.waiting import LIMIT, until


def terminal_of(tmp_path: Path, *, username: str = "", state: bool = False, kind: str = "pty") -> Terminal:
    return Terminal(
        working_dir=str(tmp_path),
        username=username or current_user(),
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        no_change_timeout=10,
        events=EventLog(),
        state_dir=str(tmp_path / "state") if state else None,
        keep_sessions=state,
        kind=kind,
    )


@pytest.fixture(params=["pty", "tmux"])
async def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Terminal]:
    terminal = terminal_of(tmp_path, kind=request.param)
    await terminal.open()
    yield terminal
    await terminal.close()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def left(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:  # known by now
        return True


def there(path: str) -> bool:
    return os.path.exists(path)


async def test_a_process_runs_with_its_files_without_input_and_tells_its_status(
    terminal: Terminal, tmp_path: Path
) -> None:
    kept = await terminal.keeper.keep(
        "one",
        ["sh", "-c", "pwd; cat {directory}/given; cat; echo $WHERE; exit 3"],
        environment={"WHERE": "{directory}"},
        files={"given": b"in {directory}\n"},
    )
    assert await asyncio.wait_for(asyncio.shield(kept.exited), LIMIT) == 3
    told = await kept.printed()
    assert told.splitlines() == [str(tmp_path), f"in {kept.directory}", kept.directory]
    assert os.stat(kept.directory).st_mode & 0o777 == 0o700
    assert terminal.keeper.kept("one") is kept
    await kept.close()
    await kept.close()
    assert not there(kept.directory)
    assert terminal.keeper.kept("one") is None


async def test_a_signal_reaches_the_process_and_what_it_runs(terminal: Terminal) -> None:
    kept = await terminal.keeper.keep("one", ["sh", "-c", "sleep 1000; exit 7"])
    # A shell that has not quite become the other program would take the signal for itself, and go on.
    await until(
        lambda: [child.name() for child in psutil.Process(kept.pid).children()] == ["sleep"], "the condition"
    )
    kept.signal(signal.SIGINT)
    assert await asyncio.wait_for(asyncio.shield(kept.exited), LIMIT) == 128 + signal.SIGINT
    kept.signal(signal.SIGINT)  # to nobody


async def test_closing_ends_everything_it_started(terminal: Terminal) -> None:
    script = "trap '' TERM HUP; setsid sleep 1000 & sleep 1000 & wait"
    kept = await terminal.keeper.keep("one", ["sh", "-c", script])
    await until(lambda: len(psutil.Process(kept.pid).children(recursive=True)) == 2, "the condition")
    family = [kept.pid, *(child.pid for child in psutil.Process(kept.pid).children(recursive=True))]
    await kept.close()
    await until(lambda: all(map(gone, family)), "the condition")


async def test_a_name_is_taken_until_its_process_is_closed(terminal: Terminal) -> None:
    kept = await terminal.keeper.keep("one", ["sleep", "1000"])
    with pytest.raises(FileExistsError):
        await terminal.keeper.keep("one", ["sleep", "1000"])
    await kept.close()
    again = await terminal.keeper.keep("one", ["sleep", "1000"])
    assert not gone(again.pid)


async def test_a_program_that_does_not_exist_says_so(terminal: Terminal) -> None:
    kept = await terminal.keeper.keep("one", ["no-such-program-here"])
    assert await asyncio.wait_for(asyncio.shield(kept.exited), LIMIT) == 127
    assert "no-such-program-here" in await kept.printed()


async def test_only_the_end_of_much_output_is_told(terminal: Terminal) -> None:
    kept = await terminal.keeper.keep("one", ["sh", "-c", "seq 200000; echo last"])
    await asyncio.wait_for(asyncio.shield(kept.exited), LIMIT)
    told = await kept.printed(100)
    assert told.endswith("200000\nlast\n")
    assert len(told) <= 100


async def test_everything_ends_with_the_terminal(tmp_path: Path) -> None:
    terminal = terminal_of(tmp_path)
    await terminal.open()
    kept = await terminal.keeper.keep("one", ["sleep", "1000"])
    pid = kept.pid
    await terminal.close()
    await until(lambda: gone(pid), "the condition")
    assert not there(kept.directory)


@pytest.mark.parametrize("kind", ["pty", "tmux"])
async def test_the_next_server_finds_what_was_left(tmp_path: Path, kind: str) -> None:
    before = terminal_of(tmp_path, state=True, kind=kind)
    await before.open()
    script = "echo before; while [ ! -e go ]; do sleep 0.02; done; echo after; exit 5"
    kept = await before.keeper.keep("one", ["sh", "-c", script])
    directory, pid = kept.directory, kept.pid
    state = before.keeper.state_file("notes")
    assert state is not None
    holder = before.holder_pid
    assert holder is not None
    await before.close()
    after = terminal_of(tmp_path, state=True, kind=kind)
    await after.open()
    found = after.keeper.kept("one")
    assert found is not None
    assert (found.pid, found.directory) == (pid, directory)
    assert after.keeper.state_file("notes") == state
    os.mkdir(tmp_path / "go")
    assert await asyncio.wait_for(asyncio.shield(found.exited), LIMIT) == 5
    assert (await found.printed()).split() == ["before", "after"]
    await found.close()
    await after.close()
    last = terminal_of(tmp_path, state=True, kind=kind)
    last._keep = False
    await last.open()
    assert last.keeper.kept("one") is None
    await last.close()
    # This process started the holder, and so has to take leave of it.
    await until(lambda: left(holder), "the end of the holder")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
async def test_a_process_is_of_the_sandbox_user(tmp_path: Path) -> None:
    terminal = terminal_of(tmp_path, username="nobody")
    os.chmod(tmp_path, 0o755)
    await terminal.open()
    kept = await terminal.keeper.keep(
        "one", ["sh", "-c", "id -un; cat {directory}/given; touch {directory}/mine && echo can"],
        files={"given": b"given\n"}, cwd="/",
    )  # fmt: skip
    assert await asyncio.wait_for(asyncio.shield(kept.exited), LIMIT) == 0
    assert (await kept.printed()).split() == ["nobody", "given", "can"]
    assert os.stat(kept.directory).st_uid == pwd.getpwnam("nobody").pw_uid
    await terminal.close()


async def test_input_and_output_may_be_pipes(terminal: Terminal) -> None:
    kept = await terminal.keeper.keep("one", ["sh", "-c", "echo aside >&2; cat; exit 4"], pipes=True)
    way_in, way_out = (os.path.join(kept.directory, end) for end in ("in", "out"))
    assert [os.stat(path).st_mode & 0o777 for path in (way_in, way_out)] == [0o600, 0o600]

    def talk() -> bytes:
        with open(way_in, "wb") as inward, open(way_out, "rb") as outward:
            inward.write(b"hello")
            inward.close()
            return outward.read()

    assert await asyncio.wait_for(asyncio.to_thread(talk), LIMIT) == b"\nhello"
    assert await asyncio.wait_for(asyncio.shield(kept.exited), LIMIT) == 4
    assert await kept.printed() == "aside\n"
    await kept.close()


@pytest.mark.parametrize("asked", [False, True])
async def test_a_start_that_is_given_up_leaves_nothing_and_everything_else_goes_on(
    terminal: Terminal, asked: bool
) -> None:
    """`asked`: the process is being started at that moment; otherwise all that is still to come."""
    keeper = terminal.keeper
    other = await keeper.keep("other", ["sleep", "1000"])
    seconds = f"1000.{os.getpid()}"
    starting = asyncio.create_task(keeper.keep("one", ["sleep", seconds]))
    async with asyncio.timeout(LIMIT):
        while asked and keeper.kept("one") is None:  # noqa: ASYNC110  the moment is short
            await asyncio.sleep(0)
    starting.cancel()
    [outcome] = await asyncio.gather(starting, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)
    assert keeper.kept("one") is None
    again = await keeper.keep("one", ["sleep", seconds])
    await until(lambda: sleeping(seconds) == {again.pid}, "the end of the first")
    assert not other.exited.done()
    await asyncio.gather(again.close(), other.close())


def sleeping(seconds: str) -> set[int]:
    return {one.pid for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", seconds]}
