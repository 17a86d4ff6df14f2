"""A command in a terminal of a window, until its end has been told."""

from __future__ import annotations

import asyncio

import msgspec

from glovebox.box.terminal.commands import Command
from glovebox.box.terminal.keys import control_key
from glovebox.box.terminal.output.buffer import OutputBuffer
from glovebox.box.terminal.output.presentation import Shown, show
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.shell.run import ShellEnd
from glovebox.box.threads import Threads
from glovebox.hub.window.output import MemoryLog
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, truncate

#: Rendering more than this takes long enough to leave the event loop.
_LARGE = 200_000


class WindowCommand:
    """A command whose end has not been reported."""

    #: How it ends; a window that refuses it or is lost makes it fail.
    ended: asyncio.Task[EndReport | ShellEnd]

    def __init__(
        self, command: Command, *, log: MemoryLog, threads: Threads, leftover: str, allowance: float
    ) -> None:
        """`leftover`: what the previous command printed after its last report.

        `allowance`: what more of silence than usual it may keep before it prints anything.
        """
        self.command = command
        self.allowance = allowance
        self.last_output = asyncio.get_running_loop().time()
        #: How much of its output has been reported.
        self.reported = False
        self.reported_size = 0
        #: What is said beside the exit code.
        self.note = ""
        self._leftover = leftover
        self._log = log
        self._threads = threads
        self._output = OutputBuffer()

    def printed(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        self.last_output, self.allowance = asyncio.get_running_loop().time(), 0.0
        self.command.printed(data, self._log.append(data))
        self._output.append(data)

    async def take(self, *, completed: bool) -> Shown:
        """What was printed since the last report, and with the first one what came before the command."""
        kept = self._output.take()
        if len(kept.data) < _LARGE:
            shown = show(kept, completed=completed)
        else:
            shown = await self._threads.run(show, kept, completed=completed)
        self.reported_size = self.command.size - len(shown.unfinished)
        if shown.unfinished:
            self._output.put_back(shown.unfinished)
        if self.reported:
            return shown
        self.reported = True
        if not self._leftover:
            return shown
        # As on a screen: what was there before, then the command, then its output.
        content = f"{self._leftover}{self.command.text}\n{shown.content}".rstrip()
        return Shown(content, shown.truncated_to, shown.ends_line)

    async def digest(self, offset: int, budget: int) -> str:
        """What was printed from `offset` on, in so many characters."""

        def make() -> str:
            from glovebox.box.terminal.output.digest import digest  # its expressions take a while to compile

            pieces = self.command.pieces(offset)
            return digest(pieces, budget=budget, command_id=self.command.id).text

        return await self._threads.run(make)


def report(exit_code: int, cwd: str) -> EndReport:
    """What is known at the end of a command: nobody tells users, hosts and interpreters."""
    return EndReport(
        exit_code=exit_code, background_pid=-1, username="", hostname="", working_dir=cwd, python=""
    )


def clipped(answer: CmdOutputObservation) -> CmdOutputObservation:
    """What the contract lets through of a long answer; one that is hidden from models is left alone."""
    content = answer.content if answer.hidden else truncate(answer.content)
    return answer if content is answer.content else msgspec.structs.replace(answer, content=content)


def typed(action: CmdRunAction, text: str) -> str:
    """The text that the terminal echoed because of this action."""
    return text if action.is_input and control_key(text) is None else ""
