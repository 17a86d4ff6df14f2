"""What a command does while it runs, as everybody is told, and its bill."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import Any

import pytest

from glovebox.box.executor import Call, Executor
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import ActionState, CommandFinished
from glovebox.protocol.terminal import Bill, CommandInfo
from tests.box.terminal.console import Console
from tests.support.waiting import LIMIT, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


async def called(shell: Console, command: str, **args: Any) -> Call:
    """Run a command and keep what the answer knows of it."""
    executor = Executor(shell.terminal.handlers(), shell.events)
    call = executor.call()
    await executor.execute(CmdRunAction(command=command, **args), call)
    return call


async def becomes(shell: Console, call: Call, state: str, *, session: str = "main") -> CommandInfo:
    """Wait until a command does something, and see that everybody is told the same."""
    command = shell.terminal.command(call.id)
    await until(lambda: command.info().state == state, f"{command.info()} is {state}")
    told = [event.command for event in shell.events.since(0) if isinstance(event, ActionState)]
    info = command.info()
    # Everything begins as running, which only the program's name may make worth telling.
    assert state == "running" or state in {event.state for event in told if event.id == call.id}
    later = await called(shell, "", timeout=0.2, session=session)
    assert later.command is not None
    assert (later.command.id, later.command.state) == (call.id, state)
    return info


async def bill(shell: Console, call: Call) -> Bill:
    """What a command that ended did cost, as its answer says and as everybody is told."""
    assert call.command is not None
    assert call.command.state == "ended"
    assert call.command == shell.terminal.command(call.id).info()
    told = [event.command for event in shell.events.since(0) if isinstance(event, CommandFinished)]
    assert call.command in told
    assert call.command.bill is not None
    return call.command.bill


async def test_a_question_is_told_with_its_words(impatient: Console) -> None:
    call = await called(impatient, "echo first; read -r -p 'Name: ' name; echo \"hello $name\"")
    info = await becomes(impatient, call, "waiting_for_input")
    assert (info.prompt, info.echo_off, info.program, info.by) == ("Name:", False, "bash", "agent")
    assert (info.ended, info.exit_code, info.bill) == (None, None, None)
    assert (await impatient.type("you")).content == "hello you"
    after = impatient.terminal.command(call.id).info()
    assert (after.state, after.prompt, after.exit_code) == ("ended", "", 0)


async def test_a_password_is_asked_for_without_echo(impatient: Console) -> None:
    call = await called(impatient, "read -r -s -p 'Password: ' secret; echo; echo ${#secret}")
    info = await becomes(impatient, call, "waiting_for_input")
    assert (info.prompt, info.echo_off) == ("Password:", True)
    assert (await impatient.type("four")).content == "4"
    assert not impatient.terminal.command(call.id).info().echo_off


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
async def test_a_pager_is_told_from_other_programs(impatient: Console) -> None:
    call = await called(impatient, "seq 5000 | less")
    assert (await becomes(impatient, call, "pager")).program == "less"


async def test_an_editor_is_known_by_its_name(impatient: Console) -> None:
    program = impatient.workspace / "vim"
    program.write_text("#!/bin/bash\nread -r -n 1 key\n")
    program.chmod(0o755)
    call = await called(impatient, "./vim file")
    assert (await becomes(impatient, call, "editor")).program == "vim"


async def test_what_is_stopped_runs_again_when_it_is_continued(impatient: Console) -> None:
    (impatient.workspace / "inner.sh").write_text("echo $$ > pid\nexec sleep 1000\n")
    call = await called(impatient, "bash -c 'bash inner.sh; true'")
    await becomes(impatient, call, "running")
    await until((impatient.workspace / "pid").exists, "it started")
    pid = int((impatient.workspace / "pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    await becomes(impatient, call, "stopped")
    os.kill(pid, signal.SIGCONT)
    await becomes(impatient, call, "running")


async def test_sessions_do_different_things_at_once(impatient: Console) -> None:
    waits = await called(impatient, "cat", session="waits")
    runs = await called(impatient, "sleep 1000", session="runs")
    jobs = await called(impatient, "sleep 1000 & wait", session="jobs")
    await becomes(impatient, waits, "waiting_for_input", session="waits")
    assert (await becomes(impatient, runs, "running", session="runs")).program == "sleep"
    await becomes(impatient, jobs, "background", session="jobs")


async def test_the_bill_of_a_command_says_how_much_it_printed(shell: Console) -> None:
    costs = await bill(shell, await called(shell, "printf '%01234d'"))
    assert costs.output_bytes == 1234
    assert costs.wall_seconds > 0
    costs = await bill(shell, await called(shell, "true"))
    assert costs.output_bytes == 0
    costs = await bill(shell, await called(shell, "printf 'é\\n'"))
    assert costs.output_bytes == len("é\r\n".encode())


async def test_the_bill_counts_the_time_of_programs_and_of_the_shell(shell: Console) -> None:
    spinning = "import time\nwhile time.process_time() < 0.3: pass"
    costs = await bill(shell, await called(shell, f"{sys.executable} -c '{spinning}'"))
    assert costs.cpu_seconds is not None
    assert costs.cpu_seconds >= 0.25
    assert costs.wall_seconds >= 0.25
    costs = await bill(shell, await called(shell, "for ((i = 0; i < 200000; i++)); do :; done"))
    assert costs.cpu_seconds is not None
    assert costs.cpu_seconds > 0


async def test_the_bill_knows_the_most_memory_that_was_used(impatient: Console) -> None:
    hungry = "data = bytearray(100_000_000); input('fed? ')"
    call = await called(impatient, f'{sys.executable} -c "{hungry}"')
    info = await becomes(impatient, call, "waiting_for_input")
    assert info.prompt == "fed?"
    assert (await impatient.type("yes", timeout=LIMIT, blocking=True)).metadata.exit_code == 0
    costs = impatient.terminal.command(call.id).info().bill
    assert costs is not None
    assert costs.peak_memory is not None
    assert 100_000_000 <= costs.peak_memory < 200_000_000


async def test_a_shell_that_ends_ends_the_command_with_a_bill(shell: Console) -> None:
    call = await called(shell, "echo bye; exit 3")
    costs = await bill(shell, call)
    assert call.command is not None
    assert (call.command.exit_code, costs.output_bytes) == (3, len("bye\r\nexit\r\n"))
