"""What `run` promises over every shell: a bash on a pty or in tmux, and a terminal of a VS Code window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.session import Session
from glovebox.errors import BadSession, CommandEnded
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from tests.box.terminal.console import console
from tests.hub.window.window_box import acting
from tests.support.waiting import LIMIT, until


class Actions(Protocol):
    """Carries out actions."""

    async def execute(self, action: CmdRunAction) -> CmdOutputObservation | ErrorObservation: ...


class Sessions(Protocol):
    """Knows sessions and commands."""

    def session(self, name: str) -> Session[Any]: ...

    def command(self, command_id: str) -> RunningCommand: ...

    async def end(self, name: str) -> None: ...


class Agent:
    """What an agent would send."""

    def __init__(self, actions: Actions, sessions: Sessions, workspace: Path) -> None:
        self.sessions = sessions
        self.workspace = workspace
        self._actions = actions

    @property
    def main(self) -> Session[Any]:
        return self.sessions.session("main")

    async def answer(self, command: str, **fields: Any) -> CmdOutputObservation | ErrorObservation:
        action = CmdRunAction(command=command, **fields)
        return await asyncio.wait_for(self._actions.execute(action), LIMIT)

    async def run(self, command: str, **fields: Any) -> CmdOutputObservation:
        answer = await self.answer(command, **fields)
        assert isinstance(answer, CmdOutputObservation), answer
        return answer

    async def begin(self, command: str) -> CmdOutputObservation:
        """Start a command that goes on."""
        await self.run("true")
        return await self.run(command, timeout=0.3, blocking=True)

    async def wait(self, text: str = "", **fields: Any) -> CmdOutputObservation:
        """Poll the running command until it ends, perhaps after giving it input."""
        return await self.run(text, timeout=LIMIT, blocking=True, is_input=bool(text), **fields)


@pytest.fixture(params=["pty", "tmux", "window"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Agent]:
    if request.param != "window":
        async with console(tmp_path, kind=request.param, no_change_timeout=1) as box:
            yield Agent(box.executor, box.terminal, box.workspace)
        return
    async with acting(tmp_path, silence=1) as window:
        terminal = window.box.services.shell
        assert isinstance(terminal, WindowTerminal)
        yield Agent(window.box.executor, terminal, tmp_path)


async def test_output_status_directory_and_state(agent: Agent) -> None:
    ran = await agent.run("echo hello; mkdir -p sub && cd sub && X=kept && (exit 3)")
    assert (ran.content, ran.metadata.exit_code) == ("hello", 3)
    assert ran.metadata.working_dir == str(agent.workspace / "sub") == agent.main.cwd
    assert ran.metadata.suffix == "\n[The command completed with exit code 3.]"
    assert (await agent.run("echo $X; pwd")).content == f"kept\n{agent.workspace}/sub"


async def test_silence_polls_and_refusals(agent: Agent) -> None:
    await agent.run("true")
    silent = await agent.run("echo begun; until [ -e go ]; do sleep 0.05; done; echo ended")
    assert (silent.content, silent.metadata.exit_code) == ("begun", -1)
    assert silent.metadata.suffix.startswith("\n[The command has no new output after 1 seconds. You may")
    refused = await agent.run("echo other")
    assert refused.metadata.suffix.startswith('\n[Your command "echo other" is NOT executed.')
    assert refused.metadata.prefix == "[Below is the output of the previous command.]\n"
    (agent.workspace / "go").touch()
    ended = await agent.wait()
    assert (ended.content, ended.metadata.exit_code) == ("ended", 0)
    assert (await agent.run("")).content == "ERROR: No previous running command to retrieve logs from."
    typed = await agent.run("x", is_input=True)
    assert typed.content == "ERROR: No previous running command to interact with."


async def test_time_limits_and_keys(agent: Agent) -> None:
    late = await agent.begin("sleep 1000")
    assert late.metadata.suffix.startswith("\n[The command timed out after 0.3 seconds.")
    ended = await agent.wait("C-c")
    assert ended.metadata.exit_code == 130
    assert ended.metadata.suffix == "\n[The command completed with exit code 130. CTRL+C was sent.]"


async def test_input_without_its_echo(agent: Agent) -> None:
    asked = await agent.begin('stty echo; read -p "name? " name; echo "hello $name"')
    assert asked.content == "name?"
    answered = await agent.wait("you")
    assert (answered.content, answered.metadata.exit_code) == ("hello you", 0)


async def test_output_that_was_not_reported_precedes_the_next_command(agent: Agent) -> None:
    await agent.begin("until [ -e go ]; do sleep 0.02; done; echo late")
    (agent.workspace / "go").touch()
    await until(lambda: agent.main.info().command is None, "the end of the command")
    assert (await agent.run("echo next")).content.split() == ["late", "echo", "next", "next"]


async def test_the_end_of_the_shell_and_the_next_one(agent: Agent) -> None:
    await agent.run("mkdir sub; cd sub; X=1")
    ended = await agent.run("echo bye; exit 5")
    assert ended.metadata.exit_code == 5
    assert "bye" in ended.content
    assert "The shell itself ended with exit code 5" in ended.metadata.suffix
    assert (await agent.run("pwd; echo [$X]")).content == f"{agent.workspace}/sub\n[]"


async def test_keys_at_the_idle_prompt(agent: Agent) -> None:
    await agent.run("true")
    pressed = await agent.run("C-z")
    assert pressed.metadata.suffix == "\n[The command completed with exit code 0. CTRL+Z was sent.]"
    interrupted = await agent.run("C-c")
    assert interrupted.metadata.suffix == "\n[The command completed with exit code 130. CTRL+C was sent.]"
    ended = await agent.run("C-d")
    assert "The shell itself ended" in ended.metadata.suffix


async def test_a_command_is_known_by_its_id_while_it_runs_and_after(agent: Agent) -> None:
    await agent.begin("echo begun; until [ -e go ]; do sleep 0.02; done; seq 3; (exit 4)")
    command = agent.sessions.command(agent.main.info().command or "")
    running = command.info()
    assert (running.exit_code, running.bill, running.output_bytes) == (None, None, len("begun\r\n"))
    (agent.workspace / "go").touch()
    ended = await asyncio.wait_for(command.ended, LIMIT)
    assert (ended.state, ended.exit_code, ended.limit) == ("ended", 4, None)
    assert ended.bill is not None
    assert (ended.bill.output_bytes, ended.bill.wall_seconds > 0) == (command.size, True)
    assert await command.read(0) == b"begun\r\n1\r\n2\r\n3\r\n"
    assert (await agent.wait()).metadata.exit_code == 4
    assert command.info() == ended


async def test_a_budget_digests_long_output(agent: Agent) -> None:
    ran = await agent.run("seq 20000", budget=500)
    assert len(ran.content) <= 500
    assert "20,000 lines" in ran.content


async def test_signals(agent: Agent) -> None:
    await agent.begin("sleep 1000")
    with pytest.raises(BadSession):
        await agent.main.shell.signal("NOPE")
    await agent.sessions.command(agent.main.info().command or "").signal("INT")
    assert (await agent.wait()).metadata.exit_code == 130
    with pytest.raises(CommandEnded):
        await agent.main.shell.signal("INT")


async def test_several_commands_and_what_no_shell_takes(agent: Agent) -> None:
    refused = await agent.answer("echo a\necho b")
    assert refused.content.startswith("ERROR: Cannot execute multiple commands at once.")
    assert "NUL" in (await agent.answer("a\0b")).content


async def test_a_session_that_is_ended_answers_the_command_that_waits(agent: Agent) -> None:
    await agent.run("true", session="other")
    waiting = asyncio.create_task(agent.answer("sleep 1000", timeout=600, blocking=True, session="other"))
    other = agent.sessions.session("other")
    await until(lambda: other.info().command is not None, "the command")
    await agent.sessions.end("other")
    assert (await waiting).content == "Bash session was likely interrupted..."
    assert (await agent.run("echo new", session="other")).content == "new"
