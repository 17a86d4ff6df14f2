"""Nothing is left behind: processes, descriptors, files, variables."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import uvloop

from glovebox.box.events import EventLog
from glovebox.box.terminal.manager import Terminal
from glovebox.errors import StartupError
from glovebox.protocol.observations import ErrorObservation
from tests.box.terminal.console import Console, console
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def descriptors() -> set[str]:
    """What is open, but for the directory that is being looked at."""
    paths = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return {f"{path.name} {os.readlink(path)}" for path in paths if path.is_symlink()}


def zombies() -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] == "Z" and fields[1] == str(os.getpid()):
                found.append(int(process.name))
    return found


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000 & echo $!",
        "nohup sleep 1000 >/dev/null 2>&1 & echo $!",
        "(trap '' HUP TERM INT; exec sleep 1000) & echo $!",
        "bash -c 'setsid sleep 1000 & echo $!; wait' & sleep 0.2; true",
        "sleep 1000 & disown; echo $!",
        "bash -c 'sleep 1000 & echo $!; wait' & sleep 0.2; true",
    ],
)
async def test_what_the_shell_started_ends_with_it(tmp_path: Path, command: str) -> None:
    async with console(tmp_path) as shell:
        pids = [int(word) for word in (await shell.output(command)).split() if word.isdigit()]
        assert all(running(pid) for pid in pids)
        shell_pid = int(await shell.output("echo $$"))
    await until(lambda: not any(running(pid) for pid in [*pids, shell_pid]), "nothing runs")


async def test_a_running_command_ends_with_the_terminal_and_is_answered(tmp_path: Path) -> None:
    async with console(tmp_path) as shell:
        waiting = asyncio.ensure_future(shell.answer("trap '' HUP; echo $$; sleep 1000"))
        queued = asyncio.ensure_future(shell.answer("echo queued"))
        await until(lambda: shell.streamed() != "", "it runs")
        await shell.terminal.close()
        assert await waiting == ErrorObservation(content="Bash session was likely interrupted...")
        assert await queued == ErrorObservation(content="Bash session is not initialized")
        assert not running(int(shell.streamed().split()[0]))


async def test_jobs_of_a_shell_that_ended_go_on_until_the_terminal_closes(tmp_path: Path) -> None:
    async with console(tmp_path) as shell:
        pid = int((await shell.output("nohup sleep 1000 >/dev/null 2>&1 & echo $!")).split()[-1])
        await shell.run("exit")
        assert await shell.output("echo fresh") == "fresh"
        assert running(pid)
    await until(lambda: not running(pid), "the job ended")


async def test_no_descriptor_file_or_zombie_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    async with console(tmp_path) as shell:
        await shell.run("echo warm up", is_static=True)
    before, others = descriptors(), zombies()
    for _ in range(3):
        async with console(tmp_path) as shell:
            await shell.run("sleep 1000 &")
            await shell.run("exit 3")
            await shell.run("echo a", is_static=True)
            await shell.run("sleep 1000", is_static=True, timeout=0.05)
            await shell.run("sleep 1000", timeout=0.05)
    assert descriptors() == before
    assert list(scratch.iterdir()) == []
    assert set(zombies()) <= set(others)


async def test_the_shared_files_belong_to_the_user_alone(shell: Console) -> None:
    assert await shell.output('stat -c %a "${__gb_file%/*}" "$__gb_file"') == "700\n600"


async def test_commands_see_the_given_environment_and_nothing_of_the_server(tmp_path: Path) -> None:
    os.environ["GLOVEBOX_TEST_SECRET"] = "secret"
    try:
        async with console(tmp_path, VISIBLE="1") as shell:
            names = set((await shell.output("compgen -e")).split())
    finally:
        del os.environ["GLOVEBOX_TEST_SECRET"]
    assert "VISIBLE" in names
    assert "GLOVEBOX_TEST_SECRET" not in names
    assert not {name for name in names if name.startswith(("__gb", "PS1", "PROMPT_COMMAND", "TMUX"))}


async def test_only_the_terminal_is_open_in_a_command(shell: Console) -> None:
    opened = await shell.output("ls -l /proc/self/fd | grep -o -- '-> .*' | grep -v '/proc/\\|pipe:'")
    assert {line.split("/")[-2] for line in opened.splitlines()} == {"pts"}


async def test_signals_that_the_server_ignores_reach_commands(tmp_path: Path) -> None:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        async with console(tmp_path) as shell:
            await shell.run("sleep 1000", timeout=0.1)
            assert (await shell.type("C-c")).metadata.exit_code == 130
    finally:
        signal.signal(signal.SIGINT, previous)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_shell_can_belong_to_another_user(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    async with console(tmp_path, username="nobody") as shell:
        answer = await shell.run('id -un; echo "$HOME $USER $LOGNAME"; stat -c %U "$(tty)"; id -G')
        home = pwd.getpwnam("nobody").pw_dir
        assert answer.content.splitlines()[:3] == ["nobody", f"{home} nobody nobody", "nobody"]
        assert "0" not in answer.content.splitlines()[3].split()
        assert answer.metadata.username == "nobody"
        refused = await shell.run('echo changed > "$__gb_file"; rm -f "$__gb_file"; head -c 12 "$__gb_file"')
        assert refused.content.count("denied") == 2
        assert refused.content.splitlines()[-1] == "echo changed"


async def test_a_caller_that_goes_away_does_not_lose_a_shell(tmp_path: Path) -> None:
    gate, others = tmp_path / "gate", zombies()
    os.mkfifo(gate)
    async with console(tmp_path) as shell:
        await shell.run("exit")
        (tmp_path / "home" / ".bashrc").write_text(f"read -r line < '{gate}'\n")
        before = shell.events.last
        impatient = asyncio.ensure_future(shell.run("echo never"))
        await until(lambda: shell.events.last > before, "it was accepted")
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        fresh = asyncio.ensure_future(shell.output("echo fresh"))
        await asyncio.to_thread(gate.write_text, "go on\n")
        assert await fresh == "fresh"
    assert set(zombies()) <= set(others)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks for a user")
async def test_a_user_that_does_not_exist_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="no user named 'no-such-user'"):
        async with console(tmp_path, username="no-such-user"):
            pass


async def test_a_missing_bash_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError):
        async with console(tmp_path, PATH="/nowhere"):
            pass


def test_it_runs_on_uvloop(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with console(tmp_path) as shell:
            codes = [
                (await shell.run(f"echo {number}; (exit {number})")).metadata.exit_code for number in range(5)
            ]
            await shell.run("sleep 1000", timeout=0.1)
            codes.append((await shell.type("C-c")).metadata.exit_code)
            codes.append((await shell.run("exit 7")).metadata.exit_code)
            codes.append((await shell.run("echo fresh", is_static=True)).metadata.exit_code)
            return codes

    assert uvloop.run(scenario()) == [0, 1, 2, 3, 4, 130, 7, 0]


async def test_a_terminal_that_was_not_started_says_so(tmp_path: Path) -> None:
    events = EventLog()
    terminal = Terminal(
        working_dir=str(tmp_path), username="x", environment={}, no_change_timeout=1, events=events
    )
    answer = await Console(terminal, tmp_path, events).answer("echo hi")
    assert answer == ErrorObservation(content="Bash session is not initialized")
    assert terminal.cwd == str(tmp_path)
    await terminal.close()
