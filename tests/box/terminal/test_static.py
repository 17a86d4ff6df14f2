"""Static commands have a shell of their own; other capabilities follow the main one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.linux import processes
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.terminal import Limits
from tests.box.terminal.console import Console, console
from tests.support.waiting import LIMIT, until


async def test_a_static_command_runs_in_a_shell_of_its_own(shell: Console) -> None:
    await shell.run("mkdir sub; cd sub; export MAIN=1")
    answer = await shell.run('pwd; echo "[$MAIN]"; export STATIC=1; cd /', is_static=True)
    assert answer.content == f"{shell.workspace}\n[]"
    assert answer.metadata.exit_code == 0
    assert answer.metadata.working_dir == "/"
    assert await shell.output('pwd; echo "[$STATIC]"') == f"{shell.workspace}/sub\n[]"
    assert shell.terminal.cwd == f"{shell.workspace}/sub"


async def test_a_static_command_has_a_directory_of_its_own(shell: Console) -> None:
    assert await shell.output("pwd", is_static=True, cwd="/") == "/"
    assert await shell.output("pwd", cwd="/") == str(shell.workspace)
    assert await shell.output("pwd", is_static=True, cwd="/no/such") == await shell.output("cd; pwd")


async def test_a_static_command_does_not_wait_for_the_main_shell(shell: Console) -> None:
    await shell.run("sleep 100", timeout=0.1)
    assert await shell.output("echo static", is_static=True) == "static"
    running = await shell.run("echo no")
    assert "NOT executed" in running.metadata.suffix


async def test_static_commands_run_side_by_side(shell: Console) -> None:
    waits = shell.run("until [ -e flag ]; do sleep 0.01; done; echo waited", is_static=True)
    answers = await asyncio.gather(waits, shell.run("touch flag; echo made", is_static=True))
    assert [answer.content for answer in answers] == ["waited", "made"]


async def test_a_static_command_is_answered_like_any_other(shell: Console) -> None:
    empty = await shell.run("", is_static=True)
    assert empty.content == "ERROR: No previous running command to retrieve logs from."
    several = await shell.answer("echo a\necho b", is_static=True)
    assert isinstance(several, ErrorObservation)
    late = await shell.run("sleep 100", is_static=True, timeout=0.1)
    assert "timed out after 0.1 seconds" in late.metadata.suffix
    assert (await shell.run("exit 3", is_static=True)).metadata.exit_code == 3


async def test_others_can_wait_for_the_commands_that_were_accepted(shell: Console) -> None:
    await asyncio.wait_for(shell.terminal.settled(), LIMIT)
    first = asyncio.ensure_future(shell.run("sleep 0.2; touch first"))
    second = asyncio.ensure_future(shell.run("sleep 0.2; touch second; cd /"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    settled = asyncio.ensure_future(shell.terminal.settled())
    await settled
    assert first.done()
    assert second.done()
    assert (shell.workspace / "second").exists()
    assert shell.terminal.cwd == "/"


async def test_others_do_not_wait_for_commands_that_come_later(shell: Console) -> None:
    first = asyncio.ensure_future(shell.run("sleep 0.3; touch first"))
    before = shell.events.last
    await until(lambda: shell.events.last > before, "it was accepted")
    settled = asyncio.ensure_future(shell.terminal.settled())
    await asyncio.sleep(0)
    later = asyncio.ensure_future(shell.run("sleep 100", timeout=30))
    await settled
    assert first.done()
    assert not later.done()
    later.cancel()


async def test_a_command_that_runs_on_does_not_keep_others_waiting(shell: Console) -> None:
    await shell.run("sleep 100", timeout=0.1)
    await asyncio.wait_for(shell.terminal.settled(), LIMIT)


# After the first static command, the shell of the next is started ahead.

#: What a shell knows about its start.
_ABOUT = (
    "declare -p PWD OLDPWD SECONDS SHLVL; set -o; shopt; trap -p; jobs; umask; ulimit -a; pwd -P; "
    "compgen -v | grep -v -e gb -e BASH -e LINENO; compgen -A function | grep -v gb; alias; tty | wc -l; "
    "cat /proc/$$/limits; grep -e ^SigBlk -e ^SigCgt -e ^Cap -e ^NoNewPrivs -e ^Groups /proc/$$/status; "
    "ls /proc/$$/fd"
)


async def _waiting_shell(shell: Console) -> int:
    """The process that waits for the next static command."""
    holder = shell.terminal.holder_pid
    assert holder is not None
    main = int(await shell.output("echo $$"))
    found: list[int] = []

    def waits() -> bool:
        found[:] = [pid for pid in processes.children(holder) if pid != main and _in_read(pid)]
        return len(found) == 1

    await until(waits, "a shell that was started ahead")
    return found[0]


def _in_read(pid: int) -> bool:
    shell = processes.read(pid)
    return shell is not None and shell.state == "S"


@pytest.fixture
async def ahead(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path, OLDPWD="/usr") as started:
        yield started


@pytest.mark.parametrize("cwd", [None, "/", "/no/such", "/proc/self/root/usr", "relative"])
async def test_a_shell_that_was_started_ahead_is_like_a_new_one(ahead: Console, cwd: str | None) -> None:
    new = await ahead.output(_ABOUT, is_static=True, cwd=cwd)
    await _waiting_shell(ahead)
    await asyncio.sleep(1.1)  # which SECONDS must not count
    assert await ahead.output(_ABOUT, is_static=True, cwd=cwd) == new


async def test_the_name_of_the_directory_is_kept_if_it_was_inherited(tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(tmp_path / "workspace")
    async with console(tmp_path, PWD=str(tmp_path / "named")) as shell:
        for _ in range(2):
            assert await shell.output("pwd", is_static=True) == str(tmp_path / "named")
            assert await shell.output("pwd", is_static=True, cwd="/") == "/"
            await _waiting_shell(shell)


async def test_a_shell_that_was_started_ahead_reads_the_startup_files_as_they_are_now(ahead: Console) -> None:
    await ahead.run("true", is_static=True)
    waiting = await _waiting_shell(ahead)
    await ahead.run("echo 'FROM=$PWD; . ~/more' >~/.bashrc; echo 'alias hi=\"echo hello\"' >~/more")
    await ahead.run('mv "$PWD" "$PWD.old"; mkdir "$PWD"')
    answer = await ahead.run('hi; echo "$FROM"; echo $$; [ . -ef "$PWD" ] && echo same', is_static=True)
    assert answer.content.splitlines() == ["hello", str(ahead.workspace), str(waiting), "same"]


async def test_a_shell_that_was_started_ahead_is_used_once(ahead: Console) -> None:
    await ahead.run("true", is_static=True)
    waiting = await _waiting_shell(ahead)
    pids = await asyncio.gather(*(ahead.output("echo $$; sleep 0.2", is_static=True) for _ in range(4)))
    assert len(set(pids)) == 4
    assert str(waiting) in pids


async def test_a_shell_that_died_while_it_waited_is_not_used(ahead: Console) -> None:
    await ahead.run("true", is_static=True)
    os.kill(await _waiting_shell(ahead), signal.SIGKILL)
    assert await ahead.output("echo here", is_static=True) == "here"


async def test_a_shell_that_waits_ends_with_the_terminal(tmp_path: Path) -> None:
    async with console(tmp_path) as shell:
        await shell.run("true", is_static=True)
        waiting = await _waiting_shell(shell)
    await until(lambda: not processes.read(waiting), "its end")


async def test_limits_hold_in_a_shell_that_was_started_ahead(ahead: Console) -> None:
    await ahead.run("true", is_static=True)
    await _waiting_shell(ahead)
    answer = await ahead.run("while :; do :; done", is_static=True, limits=Limits(cpu_seconds=0.2))
    assert answer.metadata.exit_code != 0
    assert "CPU" in answer.metadata.suffix
