"""Sessions by name: each a shell of its own, opened, resized, signalled and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from glovebox.box.terminal.commands import ShellEnd
from glovebox.errors import BadSession, CommandEnded, NoSuchCommand, NoSuchSession, SessionExists
from glovebox.protocol.events import SessionChanged
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.terminal import Bill
from tests.box.terminal.console import Console, console
from tests.box.terminal.test_lifetime import running
from tests.support.waiting import until


def told(shell: Console, session: str) -> list[str]:
    """What everybody was told of a session."""
    changes = [event for event in shell.events.since(0) if isinstance(event, SessionChanged)]
    return [change.what for change in changes if change.session == session]


def found(directory: Path) -> list[str]:
    """What is in a directory; nothing if there is none."""
    return os.listdir(directory) if directory.exists() else []


async def test_a_name_is_a_shell_with_a_state_of_its_own(shell: Console) -> None:
    await shell.run("X=main; mkdir sub; cd sub")
    assert await shell.output('echo "[$X]"; pwd', session="two") == f"[]\n{shell.workspace}"
    await shell.run("X=two; cd /", session="two")
    assert await shell.output('echo "[$X]"; pwd') == f"[main]\n{shell.workspace}/sub"
    assert await shell.output('echo "[$X]"; pwd', session="two") == "[two]\n/"
    assert [session.name for session in shell.terminal.sessions()] == ["main", "two"]
    assert shell.terminal.cwd == f"{shell.workspace}/sub"
    assert shell.terminal.session("two").info().cwd == "/"
    assert told(shell, "two") == ["opened", "started"]


async def test_a_command_in_one_session_does_not_delay_another(shell: Console) -> None:
    waiting = asyncio.ensure_future(shell.run("until [ -e flag ]; do sleep 0.01; done; echo waited"))
    others = [shell.run("echo quick", session=f"quick{number}") for number in range(3)]
    answers = await asyncio.gather(*others)
    assert [answer.content for answer in answers] == ["quick"] * 3
    assert not waiting.done()
    await shell.run("touch flag", session="quick0")
    assert (await waiting).content == "waited"


async def test_two_first_commands_at_once_share_one_shell(shell: Console) -> None:
    first, second = await asyncio.gather(
        shell.output("echo $$", session="new"), shell.output("echo $$", session="new")
    )
    assert first == second


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "..", "é", "x" * 65, "static-x", "a\nb", "a.b"])
async def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    async with console(tmp_path) as shell:
        answer = await shell.answer("touch ran", session=name)
        assert isinstance(answer, ErrorObservation)
        assert "cannot be the name of a session" in answer.content
        with pytest.raises(BadSession, match="cannot be the name of a session"):
            await shell.terminal.create(name)
        assert [session.name for session in shell.terminal.sessions()] == ["main"]
        assert not (shell.workspace / "ran").exists()


@pytest.mark.parametrize("cwd", ["/no/such/directory", "file", "nowhere"])
async def test_a_session_in_a_directory_that_is_not_there_is_refused(tmp_path: Path, cwd: str) -> None:
    async with console(tmp_path) as shell:
        (shell.workspace / "file").touch()
        (shell.workspace / "sub").mkdir()
        with pytest.raises(BadSession, match=f"'{cwd}' is no directory"):
            await shell.terminal.create("made", cwd=cwd)
        assert [session.name for session in shell.terminal.sessions()] == ["main"]
        info = await shell.terminal.create("made", cwd="sub")
        assert info.cwd == f"{shell.workspace}/sub"
        assert await shell.output("pwd", session="made") == f"{shell.workspace}/sub"


async def test_a_session_is_opened_as_asked_for_and_ended_with_all_it_has(shell: Console) -> None:
    (shell.workspace / "sub").mkdir()
    info = await shell.terminal.create("made", cwd=f"{shell.workspace}/sub", rows=30, columns=90)
    assert (info.name, info.cwd, info.rows, info.columns) == ("made", f"{shell.workspace}/sub", 30, 90)
    assert info.pid is not None
    assert running(info.pid)
    assert await shell.output("stty size; pwd; echo $$", session="made") == (
        f"30 90\n{shell.workspace}/sub\n{info.pid}"
    )
    job = (await shell.run("sleep 1000 & true", session="made")).metadata.pid
    command = shell.terminal.session("made").commands.of_session("made")[-1]
    log = Path(shell.terminal.session("made").shell.log_directory)
    assert found(log)

    await shell.terminal.end("made")
    await until(lambda: not running(info.pid or 0) and not running(job), "nothing runs")
    assert not found(log)
    with pytest.raises(NoSuchSession, match="made"):
        shell.terminal.session("made")
    with pytest.raises(NoSuchSession):
        await shell.terminal.end("made")
    with pytest.raises(NoSuchCommand):
        shell.terminal.command(command.id)
    assert told(shell, "made") == ["opened", "started", "closed"]
    assert await shell.output("echo $$; pwd", session="made") != f"{info.pid}\n{shell.workspace}/sub"


async def test_a_name_is_given_once(shell: Console) -> None:
    await shell.terminal.create("made")
    for name in ("main", "made"):
        with pytest.raises(SessionExists, match=name):
            await shell.terminal.create(name)


@pytest.mark.parametrize(("rows", "columns"), [(-1, 80), (24, 100_000)])
async def test_a_size_that_cannot_be_is_refused(tmp_path: Path, rows: int, columns: int) -> None:
    async with console(tmp_path) as shell:
        with pytest.raises(BadSession, match="rows and columns"):
            await shell.terminal.create("made", rows=rows, columns=columns)
        with pytest.raises(BadSession, match="rows and columns"):
            shell.terminal.session("main").shell.resize(rows, columns)
        assert await shell.output("stty size") == "1000 1000"


async def test_a_running_program_sees_another_size(shell: Console) -> None:
    session = shell.terminal.session("main")
    waiting = asyncio.ensure_future(
        shell.run("bash -c 'trap \"stty size; exit 4\" WINCH; echo ready; while :; do sleep 0.01; done'")
    )
    await until(lambda: "ready" in shell.streamed(), "it runs")
    session.shell.resize(40, 100)
    answer = await waiting
    assert (answer.content, answer.metadata.exit_code) == ("ready\n40 100", 4)
    assert (session.info().rows, session.info().columns) == (40, 100)
    assert told(shell, "main")[-1] == "resized"
    await shell.run("exit")
    assert await shell.output("stty size") == "40 100"


@pytest.mark.parametrize(
    ("name", "status"), [("SIGTERM", 143), ("kill", 137), ("INT", 130), (" 10 ", 138), ("SIGQUIT", 131)]
)
async def test_a_signal_reaches_what_runs(tmp_path: Path, name: str, status: int) -> None:
    async with console(tmp_path) as shell:
        session = shell.terminal.session("main")
        await shell.run("X=1; ulimit -c 0")
        await shell.run("sleep 1000", timeout=0.3)
        await session.shell.signal(name)
        assert (await shell.poll()).metadata.exit_code == status
        assert await shell.output("echo $X") == "1"


async def test_a_signal_reaches_a_command_by_its_id(shell: Console) -> None:
    await shell.run("sleep 1000", timeout=0.3, session="two")
    running_one = shell.terminal.session("two").info().command
    assert running_one is not None
    command = shell.terminal.command(running_one)
    await command.signal("TERM")
    assert (await shell.poll(session="two")).metadata.exit_code == 143
    with pytest.raises(CommandEnded):
        await command.signal("TERM")


async def test_a_signal_that_cannot_be_sent_says_why(shell: Console) -> None:
    session = shell.terminal.session("main")
    with pytest.raises(CommandEnded, match="Nothing runs"):
        await session.shell.signal("INT")
    for name in ("NOPE", "", "0", "-9", "99", "SIG", "²"):
        with pytest.raises(BadSession, match="There is no signal"):
            await session.shell.signal(name)
    await shell.run("cat", timeout=0.2)
    with pytest.raises(BadSession, match="There is no signal"):
        await session.shell.signal("NOPE")
    assert (await shell.type("C-d")).metadata.exit_code == 0


async def test_a_static_command_can_be_read_after_its_shell_is_gone_and_is_forgotten_in_time(
    tmp_path: Path, kind: str
) -> None:
    async with console(tmp_path, kind=kind) as shell:
        await shell.run("echo static", is_static=True)
        finished = [event.action_id for event in shell.events.since(0) if event.action_id]
        command = shell.terminal.command(finished[-1])
        assert command.session.startswith("static-")
        assert await command.read(0) == b"static\r\n"
        main = shell.terminal.session("main")
        sessions = Path(main.shell.log_directory).parent.parent
        assert (sessions / command.session).exists()
        for number in range(1_000):
            main.add_command(f"filler{number}", "").end(ShellEnd(0), Bill(wall_seconds=0))
        await until(lambda: not (sessions / command.session).exists(), "its log is removed")
        with pytest.raises(NoSuchCommand):
            shell.terminal.command(command.id)


async def test_when_the_holder_is_killed_its_commands_are_answered_and_the_next_get_another(
    shell: Console,
) -> None:
    await shell.run("mkdir sub; cd sub; X=1")
    await shell.run("cd /", session="two")
    pid = shell.terminal.session("main").info().pid or 0
    waiting = asyncio.ensure_future(shell.run("echo begun; sleep 1000", blocking=True))
    await until(lambda: "begun" in shell.streamed(), "it runs")
    os.kill(holder(), signal.SIGKILL)
    answer = await waiting
    assert (answer.content, answer.metadata.exit_code) == ("begun", -1)
    assert answer.metadata.suffix.startswith("\n[The shell itself ended, and with it everything")
    assert await shell.output('echo "[$X]"; pwd') == f"[]\n{shell.workspace}/sub"
    assert await shell.output("pwd", session="two") == "/"
    await until(lambda: not running(pid), "the old shell is gone")
    commands = shell.terminal.session("main").commands.of_session("main")
    command = next(one for one in commands if "begun" in one.text)
    assert await command.read(0) == b"begun\r\n"


def holder() -> int:
    """The process that holds the shells of the terminal of this test: a child of ours."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if parent == str(os.getpid()) and b"terminal.holder" in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
    assert len(found) == 1
    return found[0]
