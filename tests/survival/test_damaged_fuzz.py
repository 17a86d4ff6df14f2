"""A thousand damaged state directories: each is opened, and nothing in it is believed that is not so."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glovebox.box.events import EventLog
from glovebox.box.mcp import config
from glovebox.box.notebook.supervisor import KernelState
from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.manager import Terminal
from glovebox.box.threads import Threads
from glovebox.errors import NoSuchCommand, OutputGone
from glovebox.server.replays import Replays
from glovebox.settings import current_user
from tests.support.running import wait_until
from tests.survival.damage import damage
from tests.survival.mortal import MortalBox
from tests.survival.test_restart import holder_of
from tests.survival.test_survival import alive

pytestmark = pytest.mark.attack

#: Directories that are opened in this process, those of them in one test, and those that are served.
OPENED, AT_ONCE = 1000, 50
SERVED = 24
LIVING = 12
COMMANDS = {
    "main": ["cd /tmp", "seq 1000", "echo $((6*7))", "false", "printf 'no line end'", "echo ä", "(exit 3)"],
    "other": ["true", "seq 20000", "echo other"],
}


class Known(msgspec.Struct):
    """What is true of a state directory."""

    state: Path
    workspace: Path
    #: By session and id: text, exit code, output.
    commands: dict[str, dict[str, tuple[str, int, bytes]]]
    #: By key.
    results: dict[str, bytes]
    kernels: list[Any]
    servers: list[Any]


def filled(box: MortalBox) -> dict[str, dict[str, tuple[str, int, bytes]]]:
    """Have a box do something worth remembering."""
    known: dict[str, dict[str, tuple[str, int, bytes]]] = {name: {} for name in COMMANDS}
    for name, commands in COMMANDS.items():
        for command in commands:
            answer = box.execute("run", command=command, session=name)
            told = answer["details"]["command"]
            raw = box.get(f"/commands/{told['id']}/output", format="raw").content
            known[name][told["id"]] = (command, told["exit_code"], raw)
    return known


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    """The state of a real box that was killed, with everything it had."""
    box = MortalBox(tmp_path_factory.mktemp("known"), "--plugins", "jupyter")
    box.start()
    with box.client() as client:
        server = {"name": "good", "command": "cat", "args": [], "env": {"A": "b"}}
        assert client.post("/update_mcp_server", json=[server]).status_code == 200
    box.execute("run_ipython", code="1 + 1")
    box.execute("run_ipython", code="2", kernel="second")
    commands = filled(box)
    box.execute("run", command="sleep 1000", session="busy", timeout=0.1)
    holder = holder_of(box.get("/sessions/main").json()["pid"])
    box.kill()
    os.kill(holder, signal.SIGKILL)
    wait_until(lambda: not alive(holder), what="the end of the holder")
    state = box.state
    assert {path.name for path in state.iterdir()} >= {"answers", "kernels.json", "mcp-servers", "kept"}
    intact = state.with_name("intact")
    shutil.copytree(state, intact, ignore=shutil.ignore_patterns("*.sock"))
    results = told_results(state)
    servers = config.read(str(state / "mcp-servers"))
    kernels = asyncio.run(saved_kernels(state))
    assert (len(servers), len(kernels)) == (1, 2)
    assert len(results) == sum(map(len, COMMANDS.values())) + 3
    return Known(intact, box.workspace, commands, results, kernels, servers)


async def saved_kernels(state: Path) -> list[Any]:
    threads = Threads("kernels", workers=1)
    try:
        return await KernelState(threads).open(str(state / "kernels.json"))
    finally:
        threads.close()


def told_results(state: Path) -> dict[str, bytes]:
    """The answers that a server would give again, by key."""
    replays = Replays(str(state / "answers"))
    try:
        return {key: bytes(entry.answer.body) for key, entry in replays._kept.items() if entry.answer}
    finally:
        replays.close()


def terminal_of(known: Known, state: Path) -> Terminal:
    return Terminal(
        working_dir=str(known.workspace),
        username=current_user(),
        environment={"PATH": os.environ["PATH"]},
        no_change_timeout=10,
        events=EventLog(),
        state_dir=str(state),
    )


def found(terminal: Terminal, command_id: str) -> RunningCommand | None:
    try:
        return terminal.command(command_id)
    except NoSuchCommand:
        return None


def check_commands(terminal: Terminal, known: Known, done: list[str]) -> None:
    """What is told of commands is true, and of sessions that were not damaged everything is told."""
    for name, commands in known.commands.items():
        hurt = [one for one in done if f"sessions/{name}" in one or one.endswith(" sessions")]
        for command_id, (text, status, raw) in commands.items():
            command = found(terminal, command_id)
            assert command is not None or hurt
            if command is None or (hurt and command.info().exit_code == -1):  # its end is lost
                continue
            assert (command.text, command.info().exit_code) == (text, status)
            assert command.size == len(raw) or any("/log" in one for one in hurt)
            try:
                told = b"".join(command.pieces())
            except OutputGone:
                assert hurt
                continue
            # What is printed has no checksum: bytes that were changed there are shown as they are.
            assert told == raw or any("/log" in one for one in hurt)


async def check(known: Known, state: Path, done: list[str]) -> None:
    terminal = terminal_of(known, state)
    await terminal.open()
    try:
        assert "main" in {session.name for session in terminal.sessions()}
        check_commands(terminal, known, done)
    finally:
        await terminal.close()
    results = told_results(state)
    assert results.items() <= known.results.items()
    assert len(results) == len(known.results) or any("answers" in one for one in done)
    assert await saved_kernels(state) in (known.kernels, [])
    assert config.read(str(state / "mcp-servers")) in (known.servers, [])


@pytest.mark.parametrize("first", range(0, OPENED, AT_ONCE))
async def test_a_damaged_directory_is_opened_and_only_the_truth_is_told(
    known: Known, first: int, tmp_path: Path
) -> None:
    for seed in range(first, first + AT_ONCE):
        state = tmp_path / str(seed)
        shutil.copytree(known.state, state)
        done = damage(seed, state)
        try:
            await asyncio.wait_for(check(known, state, done), 60)
        except BaseException:
            print(f"seed {seed}: {done}")
            raise
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[MortalBox]:
    box = MortalBox(tmp_path)
    yield box
    if box.process is not None:
        box.stop()


@pytest.mark.parametrize("seed", range(OPENED, OPENED + SERVED))
def test_a_box_with_a_damaged_directory_serves(known: Known, seed: int, box: MortalBox) -> None:
    shutil.copytree(known.state, box.state)
    print(f"seed {seed}: {damage(seed, box.state)}")
    box.start()
    assert box.execute("run", command="echo served")["content"].splitlines()[-1:] == ["served"]
    assert box.execute("run", command="echo other", session="other")["content"].splitlines()[-1:] == ["other"]
    box.get("/startup")
    shells = [one["pid"] for one in box.get("/sessions").json() if one["pid"]]
    assert box.process is not None
    process = box.process
    box.stop()
    assert process.returncode == 0
    wait_until(lambda: not any(map(alive, shells)), what="the end of the shells")


@pytest.mark.parametrize("seed", range(OPENED + SERVED, OPENED + SERVED + LIVING))
def test_shells_that_live_are_found_again_or_ended(seed: int, box: MortalBox) -> None:
    box.start()
    filled(box)
    before = {one["name"]: one["pid"] for one in box.get("/sessions").json()}
    box.kill()
    print(f"seed {seed}: {damage(seed, box.state)}")
    box.start()
    for name in before:
        answer = box.execute("run", command="echo served", session=name)
        assert answer["content"].splitlines()[-1:] == ["served"], answer
    after = {one["pid"] for one in box.get("/sessions").json()}
    wait_until(lambda: not any(map(alive, {*before.values()} - after)), what="the end of what is not used")
    box.stop()
    wait_until(lambda: not any(map(alive, {*before.values(), *after})), what="the end of the shells")
