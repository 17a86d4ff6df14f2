"""Limits on a command: it is ended, the answer says why, and the shell lives on."""

from __future__ import annotations

import sys

import pytest

from glovebox.errors import BadSession
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import Limits
from tests.box.terminal.console import Console
from tests.box.terminal.test_lifetime import running
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

HUNGRY = f"{sys.executable} -c 'data = bytearray(300_000_000); input()'"


async def limited(
    shell: Console, command: str, limits: Limits, *, session: str = "main"
) -> CmdOutputObservation:
    """Run a command that goes beyond its limits in a shell with a state, which must survive."""
    pid = await shell.output("mkdir -p sub; cd sub; kept=yes; echo $$", session=session)
    answer = await shell.run(command, limits=limits, session=session, blocking=True)
    assert "rest" not in answer.content.split()
    assert answer.metadata.exit_code > 0
    after = await shell.run('echo "$$ $kept ${PWD##*/}"', session=session)
    # Bash may tell of a job that was killed before or after this.
    assert f"{pid} yes sub" in after.content.splitlines()
    return answer


async def test_a_command_that_takes_too_much_memory_is_ended(shell: Console) -> None:
    answer = await limited(shell, f"{HUNGRY}; echo rest", Limits(memory=100_000_000))
    assert "The command was ended because it used " in answer.metadata.suffix
    assert answer.metadata.suffix.endswith("of memory; its limit is 95.4 MiB.]")
    command = shell.terminal.session("main").commands.of_session("main")[1]
    assert "its limit is 95.4 MiB" in (command.info().limit or "")


async def test_a_command_that_takes_too_much_time_of_the_processor_is_ended(shell: Console) -> None:
    for command in ("while :; do :; done; echo rest", "bash -c 'while :; do :; done'; echo rest"):
        answer = await limited(shell, command, Limits(cpu_seconds=0.3))
        assert answer.metadata.suffix.endswith("s of CPU time; its limit is 0.3 s.]")


async def test_a_command_with_too_many_processes_is_ended(shell: Console) -> None:
    answer = await limited(
        shell, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait; echo rest", Limits(processes=4)
    )
    assert "processes; its limit is 4.]" in answer.metadata.suffix
    started = [int(line.split()[1]) for line in answer.content.splitlines() if line.startswith("[")]
    assert len(started) > 4
    await until(lambda: not any(running(pid) for pid in started), "the end of all of them")


async def test_a_command_that_writes_too_large_a_file_is_ended(shell: Console) -> None:
    limits = Limits(file_size=10_000)
    answer = await limited(shell, "dd if=/dev/zero of=file bs=1000 count=1000 2>/dev/null", limits)
    assert answer.metadata.exit_code == 153
    assert answer.metadata.suffix.endswith("it wrote a file larger than its limit of 9.8 KiB.]")
    assert (shell.workspace / "sub" / "file").stat().st_size == 10_000
    assert (
        await shell.output("dd if=/dev/zero of=file bs=1000 count=20 2>/dev/null; stat -c %s file") == "20000"
    )


async def test_limits_that_are_kept_change_nothing(shell: Console) -> None:
    generous = Limits(memory=1 << 40, cpu_seconds=1000, processes=1000, file_size=1 << 40)
    answer = await shell.run("echo fine; (exit 5)", limits=generous)
    assert (answer.content, answer.metadata.exit_code) == ("fine", 5)
    assert answer.metadata.suffix == "\n[The command completed with exit code 5.]"


async def test_a_session_may_have_limits_for_all_its_commands(shell: Console) -> None:
    limits = Limits(cpu_seconds=0.3, memory=100_000_000)
    created = await shell.terminal.create("small", limits=limits)
    assert created.limits == limits
    answer = await shell.run("while :; do :; done", session="small", blocking=True)
    assert "its limit is 0.3 s" in answer.metadata.suffix
    answer = await shell.run(HUNGRY, session="small", blocking=True)
    assert "its limit is 95.4 MiB" in answer.metadata.suffix
    # bash may say at any time now that the last one was killed
    assert "fine" in (await shell.output("echo fine", session="small")).splitlines()
    more = await shell.run(
        f"{sys.executable} -c 'data = bytearray(150_000_000)'; echo $?",
        session="small",
        limits=Limits(memory=1 << 40),
    )
    assert "0" in more.content.splitlines()


async def test_limits_that_cannot_be_are_refused(shell: Console) -> None:
    for limits in (
        Limits(memory=0),
        Limits(memory=-1),
        Limits(cpu_seconds=0.0),
        Limits(cpu_seconds=float("nan")),
        Limits(cpu_seconds=float("inf")),
        Limits(processes=-5),
        Limits(file_size=2**63),
    ):
        for static in (False, True):
            answer = await shell.answer("touch ran", limits=limits, is_static=static)
            assert isinstance(answer, ErrorObservation)
            assert answer.content.startswith("ERROR: The limit ")
        with pytest.raises(BadSession, match="The limit "):
            await shell.terminal.create("other", limits=limits)
    assert [session.name for session in shell.terminal.sessions()] == ["main"]
    assert await shell.output("ls") == ""
