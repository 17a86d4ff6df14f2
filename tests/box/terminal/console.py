"""A terminal with a real bash, and short words to use it with."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from glovebox.box.events import EventLog
from glovebox.box.executor import Executor
from glovebox.box.services import Launched
from glovebox.box.terminal.manager import Terminal
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import ActionOutput
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from tests.support.waiting import LIMIT


class Console:
    """What an agent would send, one method per kind of action."""

    def __init__(self, terminal: Terminal, workspace: Path, events: EventLog) -> None:
        self.terminal = terminal
        self.workspace = workspace
        self.events = events
        self.executor = Executor(terminal.handlers(), self.events)

    async def answer(self, command: str, **args: Any) -> CmdOutputObservation | ErrorObservation:
        """Whatever a command is answered with, within a limit."""
        action = CmdRunAction(command=command, **args)
        return await asyncio.wait_for(self.executor.execute(action), LIMIT)

    async def run(self, command: str, **args: Any) -> CmdOutputObservation:
        """The answer to a command that the shell takes."""
        answer = await self.answer(command, **args)
        assert isinstance(answer, CmdOutputObservation), answer
        return answer

    async def output(self, command: str, **args: Any) -> str:
        """The output of a command that must succeed."""
        answer = await self.run(command, **args)
        assert answer.metadata.exit_code == 0, answer
        return answer.content

    async def poll(self, **args: Any) -> CmdOutputObservation:
        """Ask for what the running command printed since."""
        return await self.run("", **args)

    async def type(self, text: str, **args: Any) -> CmdOutputObservation:
        """Give input, or a key, to the running command."""
        return await self.run(text, is_input=True, **args)

    def streamed(self) -> str:
        """Everything that was passed on while it happened."""
        return "".join(event.text for event in self.events.since(0) if isinstance(event, ActionOutput))


@contextlib.asynccontextmanager
async def console(
    directory: Path,
    *,
    kind: str = "pty",
    no_change_timeout: float = 10.0,
    log_size: int = 1 << 30,
    username: str | None = None,
    launched: Launched | None = None,
    **environment: str,
) -> AsyncIterator[Console]:
    """A terminal in a workspace of its own, with a home of its own."""
    workspace, home = directory / "workspace", directory / "home"
    workspace.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    events = EventLog()
    terminal = Terminal(
        events=events,
        working_dir=str(workspace),
        username=username or getpass.getuser(),
        environment={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            **environment,
        },
        no_change_timeout=no_change_timeout,
        kind=kind,
        log_size=log_size,
        launched=launched,
    )
    try:
        await terminal.start()
        yield Console(terminal, workspace, events)
    finally:
        await terminal.close()
