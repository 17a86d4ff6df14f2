"""A shell may end; the session does not."""

from __future__ import annotations

import pytest

from tests.box.terminal.console import Console
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("command", "content", "status"),
    [
        ("exit 3", "exit", 3),
        ("exec echo bye", "bye", 0),
        ("kill -9 $$", "", 137),
        ("set -e; echo before; false", "before", 1),
        ("trap 'echo farewell' EXIT; exit 4", "exit\nfarewell", 4),
    ],
)
async def test_a_command_that_ends_the_shell_says_so(
    shell: Console, command: str, content: str, status: int
) -> None:
    await shell.run("mkdir sub; cd sub; X=1")
    answer = await shell.run(command)
    assert (answer.content, answer.metadata.exit_code) == (content, status)
    assert answer.metadata.suffix == (
        f"\n[The shell itself ended with exit code {status}, and with it everything that was set in it. "
        f"The next command gets a new shell in {shell.workspace}/sub.]"
    )
    fresh = await shell.run('echo "[$X]"; pwd')
    assert fresh.content == f"[]\n{shell.workspace}/sub"
    assert fresh.metadata.exit_code == 0


async def test_control_d_at_the_idle_prompt_ends_the_shell(shell: Console) -> None:
    answer = await shell.run("C-d")
    assert answer.content == "exit"
    assert answer.metadata.suffix.startswith("\n[The shell itself ended with exit code 0")
    assert await shell.output("echo fresh") == "fresh"


async def test_a_shell_that_ends_while_a_command_is_awaited_ends_the_command(shell: Console) -> None:
    await shell.run("until [ -e go ]; do sleep 0.01; done; echo last words; exit 9", timeout=0.1)
    (shell.workspace / "go").touch()
    answer = await shell.poll()
    assert (answer.content, answer.metadata.exit_code) == ("last words\nexit", 9)
    assert await shell.output("echo fresh") == "fresh"


async def test_a_shell_that_was_killed_unnoticed_is_replaced_and_the_answer_says_so(shell: Console) -> None:
    await shell.run("(until [ -e go ]; do sleep 0.01; done; kill -9 $$; touch killed) & cd /")
    (shell.workspace / "go").touch()
    await until((shell.workspace / "killed").exists, "the shell was killed")
    answer = await shell.run("echo fresh; pwd")
    assert (answer.content, answer.metadata.exit_code) == ("fresh\n/", 0)
    assert (
        answer.metadata.prefix
        == "[The previous shell had ended with exit code 137. This command ran in a new one.]\n"
    )


async def test_a_command_for_a_shell_that_is_just_ending_runs_in_the_next(shell: Console) -> None:
    await shell.run("exec </dev/null")
    answer = await shell.run("echo fresh")
    assert (answer.content, answer.metadata.exit_code) == ("fresh", 0)


async def test_a_directory_that_is_gone_becomes_the_home(shell: Console) -> None:
    await shell.run("mkdir gone; cd gone; rmdir ../gone")
    await shell.run("exit")
    assert await shell.output("pwd") == await shell.output("cd; pwd")


async def test_a_shell_that_becomes_another_bash_goes_on(shell: Console) -> None:
    await shell.run("cd /; X=1; export Y=2")
    pid = await shell.output("echo $$")
    answer = await shell.run("exec bash")
    assert answer.metadata.exit_code == 0
    assert await shell.output('echo "$$ [$X] $Y"') == f"{pid} [] 2"
    assert (await shell.run("exec bash --login")).metadata.exit_code == 0
    assert await shell.output("sleep 0.3; echo slow") == "slow"


async def test_a_shell_in_the_shell_can_be_talked_to_and_left(shell: Console) -> None:
    await shell.run("bash --norc", timeout=0.5)
    assert "nested" in (await shell.type("echo nes''ted", timeout=0.5)).content
    assert (await shell.type("exit 6")).metadata.exit_code == 6
    assert await shell.output("echo back") == "back"
