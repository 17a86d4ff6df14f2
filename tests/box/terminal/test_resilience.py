"""A session can be used again, whatever was done to its shell, and tells nothing that did not happen."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.box.terminal.console import Console, console
from tests.support.running import wait_until
from tests.support.waiting import until

FORGED = "\\033]1807;D;%s\\x1f0\\x1f\\x1fme\\x1fhost\\x1f\\x27/\\x27\\x1f\\x27\\x27\\a"


async def test_an_end_that_is_told_while_a_program_runs_is_not_believed(shell: Console) -> None:
    program = f"bash -c 'printf \"{FORGED}\" $1; sleep 1' - $__gb_token"
    answer = await shell.run(f"{program}; echo more; (exit 5)")
    assert (answer.content, answer.metadata.exit_code) == ("more", 5)
    assert answer.metadata.working_dir == str(shell.workspace)


async def test_a_prompt_that_a_command_prints_is_output(shell: Console) -> None:
    answer = await shell.run('echo "${PS1@P}"; sleep 0.5; echo more; (exit 5)')
    assert (answer.content.splitlines()[-1], answer.metadata.exit_code) == ("more", 5)
    assert await shell.output("echo next") == "next"


async def test_the_file_that_took_the_output_of_the_shell_can_be_shown(shell: Console) -> None:
    await shell.run("exec >out 2>&1")
    await shell.run("echo one")
    await shell.run("exec >/dev/tty 2>&1")
    answer = await shell.run("cat out; echo AFTER; (exit 3)")
    assert "\none\n" in f"\n{answer.content}\n"
    assert (answer.content.splitlines()[-1], answer.metadata.exit_code) == ("AFTER", 3)
    assert "__gb_end" not in answer.content
    assert await shell.output("echo next") == "next"


@pytest.mark.parametrize(
    "command",
    [
        "stty kill ^X",
        "unset __gb_token",
        "__gb_token=x",
        "enable -n eval",
        "enable -n mapfile printf",
        "alias __gb=false",
        "exec bash --norc",
        "exec -a other bash",
        "unset PS1 PROMPT_COMMAND",
    ],
)
async def test_the_shell_is_repaired(shell: Console, command: str) -> None:
    await shell.run(command)
    answer = await shell.run("echo one; (exit 5)")
    assert (answer.content.splitlines()[-1:], answer.metadata.exit_code) == (["one"], 5)
    assert await shell.output("echo two") == "two"


@pytest.mark.parametrize("command", ["ulimit -n 3", "bind '\"\\C-m\": self-insert'"])
async def test_a_shell_that_cannot_be_talked_to_is_replaced(tmp_path: Path, command: str) -> None:
    async with console(tmp_path) as shell:
        await shell.run("mkdir sub; cd sub")
        await shell.run(command)
        answer = await shell.run("echo one", blocking=True)
        assert answer.content == "one"
        assert "This command ran in a new one." in answer.metadata.prefix
        assert await shell.output("pwd") == str(shell.workspace / "sub")


async def test_input_never_becomes_a_command(tmp_path: Path) -> None:
    async with console(tmp_path, no_change_timeout=0.3) as shell:
        pid = int(await shell.output("echo $$"))
        await shell.run("bind '\"\\C-m\": self-insert'")
        await shell.run("echo never begins")
        accepted = shell.events.last
        typed = asyncio.ensure_future(shell.type("touch wrong", blocking=True))
        await until(lambda: shell.events.last > accepted, "it was accepted")
        os.kill(pid, signal.SIGKILL)
        await typed
        assert not (shell.workspace / "wrong").exists()


async def test_a_reader_that_is_far_behind_still_sees_the_end(tmp_path: Path, kind: str) -> None:
    async with console(tmp_path, kind=kind, log_size=4_000_000) as shell:
        script = "touch begun; head -c 6000000 /dev/zero | tr '\\0' x; touch made; (exit 5)"
        running = asyncio.ensure_future(shell.run(script, blocking=True))
        await until((shell.workspace / "begun").exists, "it runs")
        wait_until((shell.workspace / "made").exists, what="the output")  # the event loop is busy elsewhere
        assert (await running).metadata.exit_code == 5


async def test_a_small_log_loses_nothing_that_it_keeps(tmp_path: Path) -> None:
    async with console(tmp_path, log_size=500_000) as shell:
        for _ in range(20):
            await shell.run("printf '%0300000d' 0", blocking=True)
            command = shell.terminal.session("main").commands.of_session("main")[-1]
            assert command.size == 300_000
