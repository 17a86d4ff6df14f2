"""What the system kills for want of memory is named where it happened. The kills are real ones."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.box.terminal.commands import RunningCommand
from tests.box.system.memory_group import HUNGRY, enter, memory_group, readable_log
from tests.box.terminal.console import Console

LIMIT = 64_000_000
KILLED = r"\[Out of memory: the system killed {} \(pid \d+, \d+(\.\d)? MB\), which {}\.\]"
NAMED = KILLED.format(r"python\S*", "this command had started")


@pytest.fixture
def group() -> Iterator[Path]:
    if not readable_log():
        pytest.skip("the kernel's log cannot be read here")
    with memory_group(LIMIT) as made:
        yield made


async def confine(shell: Console, group: Path) -> None:
    """Let the shell and what it starts have little memory."""
    enter(group, int(await shell.output("echo $$")))


def newest(shell: Console) -> RunningCommand:
    return shell.terminal.session("main").commands.of_session("main")[-1]


async def test_a_process_that_was_killed_for_want_of_memory_is_named(group: Path, shell: Console) -> None:
    await confine(shell, group)
    answer = await shell.run(HUNGRY)
    assert answer.metadata.exit_code == 137
    first, _, line = answer.metadata.suffix.removeprefix("\n").partition("\n")
    assert first == "[The command completed with exit code 137.]"
    found = re.fullmatch(NAMED, line)
    assert found, line
    assert newest(shell).info().oom == line[1:-1]
    after = await shell.run("sleep 0.03; echo on")
    assert (after.content, after.metadata.suffix) == ("on", "\n[The command completed with exit code 0.]")
    assert newest(shell).info().oom is None


async def test_a_command_that_goes_on_after_a_kill_tells_of_it_in_the_end(
    group: Path, shell: Console
) -> None:
    await confine(shell, group)
    script = shell.workspace / "script"
    script.write_text(f"{HUNGRY}\necho rest\n")
    answer = await shell.run(f"bash {shlex.quote(str(script))}")
    assert answer.content.endswith("rest")
    assert answer.metadata.exit_code == 0
    assert re.search(NAMED, answer.metadata.suffix), answer.metadata.suffix


async def test_a_shell_that_was_killed_for_want_of_memory_is_named_too(group: Path, shell: Console) -> None:
    await confine(shell, group)
    answer = await shell.run("printf -v large '%*s' 500000000 ''; echo rest")
    assert answer.metadata.exit_code == 137
    pattern = (
        r"\n\[Out of memory: the system killed bash \(pid \d+, \d+(\.\d)? MB\), which ran this command\.\]"
    )
    assert re.search(pattern, answer.metadata.suffix), answer.metadata.suffix
    assert await shell.output("echo new") == "new"


async def test_a_job_of_an_earlier_command_is_not_held_against_a_later_one(
    group: Path, shell: Console
) -> None:
    await confine(shell, group)
    waits = f"until test -e go; do sleep 0.01; done; {HUNGRY}"
    await shell.run(f"bash -c {shlex.quote(waits)} 2>/dev/null &")
    answer = await shell.run("sleep 0.1; touch go; wait; echo on")
    assert answer.metadata.exit_code == 0
    assert answer.content.endswith("on")
    assert "had started" not in answer.metadata.suffix


async def test_another_kind_of_death_is_not_taken_for_a_want_of_memory(shell: Console) -> None:
    answer = await shell.run("bash -c 'kill -KILL $$'")
    assert answer.metadata.exit_code == 137
    assert answer.metadata.suffix == "\n[The command completed with exit code 137.]"
