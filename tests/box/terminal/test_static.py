"""Static commands have a shell of their own; other capabilities follow the main one."""

from __future__ import annotations

import asyncio

from glovebox.protocol.observations import ErrorObservation
from tests.box.terminal.console import Console
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
