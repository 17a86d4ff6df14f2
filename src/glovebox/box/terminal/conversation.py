"""The contract's `run` action on one shell: one command at a time, polls, input, time limits."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import msgspec

from glovebox.box.executor import Call
from glovebox.box.terminal import replies
from glovebox.box.terminal.commands import Command
from glovebox.box.terminal.keys import control_key
from glovebox.box.terminal.output.buffer import OutputBuffer
from glovebox.box.terminal.output.presentation import Shown, show, without_echo
from glovebox.box.terminal.shell.bash import Bash
from glovebox.box.terminal.shell.command_splitter import needs_parsing, split_commands
from glovebox.box.terminal.shell.run import Run, ShellEnd
from glovebox.box.terminal.survival.journal import Answered, Began, Journal, Reported, Sent
from glovebox.box.terminal.time_limits import WaitOutcome, outcome_of
from glovebox.box.threads import Threads
from glovebox.errors import OutputGone
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation, truncate
from glovebox.protocol.terminal import Limits

#: Rendering more than this takes long enough to leave the event loop.
_LARGE = 200_000
#: What is shown in place of output that cannot be read again.
_LOST = b"\r\n[The rest of the output is lost: the log is damaged.]\r\n"
#: At the idle prompt these do something: a new prompt, and the end of the shell.
_KEYS_AT_PROMPT = (b"\x03", b"\x04")

Answer = CmdOutputObservation | ErrorObservation


class Pending(msgspec.Struct):
    """A command whose end has not been reported."""

    command: Command
    run: Run
    #: What the previous command printed after its last report.
    leftover: str = ""
    #: What to say about the shell in the first report.
    prefix: str = ""
    reported: bool = False
    #: How much of its output has been reported.
    reported_size: int = 0


class SessionHost(Protocol):
    """What a conversation asks of its session."""

    journal: Journal
    name: str
    cwd: str

    @property
    def shell(self) -> Bash | None:
        """The shell there is, dead or alive."""

    async def ready(self) -> Bash:
        """A living shell, started if need be.

        Raises:
            StartupError: there is none to be had.
        """

    def command(self, command_id: str, text: str) -> Command: ...

    async def watch(self, command: Command, run: Run, limits: Limits | None) -> None:
        """See to a command that is about to run: its states, its bill, its limits, and its end."""


class Past(msgspec.Struct):
    """What an earlier server had said."""

    #: Commands whose end was told, by the action that was told, with the size that was reported before.
    answered: dict[str, tuple[Command, int]] = msgspec.field(default_factory=dict)
    #: Input that had reached the shell, by the action that brought it.
    sent: set[str] = msgspec.field(default_factory=set)
    #: The action that was told of the running command last, and the size that was reported before.
    reported_to: str | None = None
    reported_before: int = 0


class Conversation:
    """Answers the actions of one session, in turn."""

    def __init__(self, host: SessionHost, *, no_change_timeout: float, threads: Threads) -> None:
        self._host = host
        self._no_change_timeout = no_change_timeout
        self._threads = threads
        self.pending: Pending | None = None
        #: What was entered after a command whose end has not been reported.
        self.following: Pending | None = None
        self.past = Past()
        self.closed = False

    async def answer(self, action: CmdRunAction, text: str, call: Call) -> Answer:
        """Carry out one action; the session sees to it that there is one at a time.

        Raises:
            StartupError: no shell could be started.
        """
        if call.resumed and (again := await self._resume(action, text, call)):
            return again
        pending = self.pending
        if pending is None and not text:
            return replies.nothing_to_retrieve()
        if pending is None and action.is_input:
            return replies.nothing_to_interact_with()
        if needs_parsing(text):
            commands = await self._threads.run(split_commands, text)
            if len(commands) > 1:
                return replies.several_commands(commands)
        if pending is None or (pending.run.ended.done() and text and not action.is_input):
            return await self._begin(action, text, call)
        if pending.run.ended.done():
            note = replies.input_not_sent(text) if text else ""
            return await self._ended(pending, action, text, call, note)
        if text and not action.is_input:
            return await self._refuse(pending, action, text, call)
        if text:
            shell = self._host.shell
            number = shell.channel.inputs + 1 if shell else 0
            self._host.journal.append(Sent(action_id=call.id, input_number=number))
            pending.run.send(control_key(text) or text.encode() + b"\r")
        return await self._follow(pending, action, text, call)

    async def _begin(self, action: CmdRunAction, text: str, call: Call, leftover: str = "") -> Answer:
        """Run a command in an idle shell, after taking what is left of the previous one."""
        host = self._host
        if self.pending is not None:
            leftover = await self._leave(self.pending)
        dead = host.shell if host.shell is not None and not host.shell.alive else None
        shell = await host.ready()
        if self.pending is not None:  # a person was faster
            self.pending.leftover = leftover or self.pending.leftover
            return await self._refuse(self.pending, action, text, call)
        key = control_key(text)
        if key is not None and key not in _KEYS_AT_PROMPT:
            assert shell.report is not None
            return replies.completed(text, leftover.rstrip(), shell.report, note=replies.key_sent(text))
        command = host.command(call.id, text)
        if key is not None:
            run = shell.press(key, command.printed)
            await host.watch(command, run, None)
        else:
            run = await shell.prepare(text.encode(), command.printed)
            await host.watch(command, run, action.limits)
            host.journal.append(
                Began(
                    id=command.id,
                    token=run.token,
                    input_number=shell.channel.inputs + 1,
                    position=shell.channel.position,
                    command=text,
                    started=time.time(),
                )
            )
            shell.run(run)
        prefix = replies.shell_was_gone(dead.exit_status) if dead else ""
        self.pending = Pending(command, run, leftover, prefix)
        return await self._follow(self.pending, action, text, call)

    async def _leave(self, pending: Pending) -> str:
        """Be done with a command that ended unreported; what it left goes before the next one's output."""
        shown = await self._take(pending, completed=True)
        self._learn(pending)
        self._go_on()
        if not shown.content or pending.command.by == "person":
            return ""
        return shown.content + ("\n\n\n" if shown.ends_line else "\n\n")

    async def _refuse(self, pending: Pending, action: CmdRunAction, text: str, call: Call) -> Answer:
        continued = pending.reported
        before = pending.reported_size
        shown = await self._take(pending, completed=False)
        self._reported(pending, call, before)
        call.command = pending.command.info()
        answer = replies.still_running(text, shown.content, continued=continued, hidden=action.hidden)
        return _clipped(answer)

    async def _follow(self, pending: Pending, action: CmdRunAction, text: str, call: Call) -> Answer:
        """Wait for whatever comes first, and report it."""
        command = pending.command
        command.follower = call.id
        if call.id != command.id:
            command.replay(pending.reported_size)
        try:
            outcome = await outcome_of(pending.run, action, lambda: self._no_change_timeout)
        finally:
            command.follower = None
        own = call.id == command.id and not call.resumed
        if outcome is WaitOutcome.ENDED and pending.run.missed and not pending.prefix and own:
            # The shell went away just before, after `exec </dev/null` say; a new one takes the command.
            self.pending = None
            return await self._begin(action, text, call, pending.leftover)
        if outcome is WaitOutcome.ENDED:
            note = replies.key_sent(text) if control_key(text) else ""
            return await self._ended(pending, action, text, call, note)
        continued = pending.reported
        before = pending.reported_size
        shown = await self._take(pending, completed=False)
        content = without_echo(shown.content, _typed(action, text))
        if action.budget is not None:
            content = await self._digest(pending.command, before, action.budget)
        self._reported(pending, call, before)
        call.command = command.info()
        if outcome is WaitOutcome.SILENT:
            seconds = self._no_change_timeout
            answer = replies.no_new_output(text, content, continued=continued, seconds=seconds)
        else:
            seconds = action.timeout or 0.0
            answer = replies.timed_out(text, content, continued=continued, seconds=seconds)
        return answer if action.budget is not None else _clipped(answer)

    async def _ended(
        self, pending: Pending, action: CmdRunAction, text: str, call: Call, note: str = ""
    ) -> Answer:
        """Report the end of a command."""
        if self.closed:
            return ErrorObservation(content="Bash session was likely interrupted...")
        prefix = "" if pending.reported else pending.prefix
        before = pending.reported_size
        shown = await self._take(pending, completed=True)
        content = without_echo(shown.content, _typed(action, text))
        if action.budget is not None:
            content = await self._digest(pending.command, before, action.budget)
        elif shown.truncated_to is not None:
            prefix += replies.output_truncated(shown.truncated_to)
        self._learn(pending)
        if self.pending is pending:
            self._go_on()
            self._host.journal.append(Answered(id=pending.command.id, action_id=call.id))
        info = call.command = pending.command.info()
        note = " ".join(part for part in (note, info.limit) if part)
        result, hidden = pending.run.ended.result(), action.hidden
        if isinstance(result, ShellEnd):
            report = self._host.shell.report if self._host.shell else None
            cwd = self._host.cwd
            answer = replies.shell_ended(
                text,
                content,
                report,
                status=result.status,
                cwd=cwd,
                prefix=prefix,
                note=info.limit or "",
                oom=info.oom,
                hidden=hidden,
            )
        else:
            answer = replies.completed(
                text, content, result, prefix=prefix, note=note, oom=info.oom, hidden=hidden
            )
        return answer if action.budget is not None else _clipped(answer)

    def _go_on(self) -> None:
        """The pending command is reported; one that was entered after it may still run."""
        self.pending, self.following = self.following, None
        if self.pending is not None and self.pending.run.ended.done():
            self.pending = None

    def _learn(self, pending: Pending) -> None:
        """The directory changes when the end of a command is known."""
        result = pending.run.ended.result()
        if not isinstance(result, ShellEnd) and result.working_dir:
            self._host.cwd = result.working_dir

    # What was printed.

    async def _take(self, pending: Pending, *, completed: bool) -> Shown:
        """What was printed since the last report, and with the first one what came before the command."""
        shown = await self._show(pending.run.output, completed=completed)
        pending.reported_size = pending.command.size - len(shown.unfinished)
        if shown.unfinished:
            pending.run.output.put_back(shown.unfinished)
        if pending.reported:
            return shown
        pending.reported = True
        before = pending.leftover
        if len(pending.run.before):
            stray = await self._show(pending.run.before, completed=True)
            before += f"{stray.content}\n" if stray.content else ""
        if not before:
            return shown
        # As on a screen: what was there before, then the command, then its output.
        content = f"{before}{pending.command.text}\n{shown.content}".rstrip()
        return Shown(content, shown.truncated_to, shown.ends_line)

    async def _show(self, output: OutputBuffer, *, completed: bool) -> Shown:
        kept = output.take()
        if len(kept.data) < _LARGE:
            return show(kept, completed=completed)
        return await self._threads.run(show, kept, completed=completed)

    async def _digest(self, command: Command, offset: int, budget: int) -> str:
        def make() -> str:
            from glovebox.box.terminal.output.digest import digest  # its expressions take a while to compile

            return digest(command.pieces(offset), budget=budget, command_id=command.id).text

        return await self._threads.run(make)

    def _reported(self, pending: Pending, call: Call, before: int) -> None:
        self._host.journal.append(
            Reported(id=pending.command.id, action_id=call.id, before=before, size=pending.reported_size)
        )

    # After a restart of the server.

    async def refill(self, pending: Pending, offset: int) -> None:
        """Have everything from `offset` on reported again."""

        def fill() -> OutputBuffer:
            output = OutputBuffer()
            try:
                for piece in pending.command.pieces(offset):
                    output.append(piece)
            except OutputGone:
                output.append(_LOST)
            return output

        pending.run.output = await self._threads.run(fill)
        pending.reported_size = offset
        pending.reported = offset > 0

    async def _resume(self, action: CmdRunAction, text: str, call: Call) -> Answer | None:
        """Answer an action that an earlier server had begun with; None if it had not come that far."""
        past, pending = self.past, self.pending
        if call.id in past.answered:
            command, before = past.answered[call.id]
            assert command.result is not None
            run = Run("", asyncio.get_running_loop(), lambda data: None)
            run.ended.set_result(command.result)
            told = Pending(command, run)
            await self.refill(told, before)
            return await self._ended(told, action, text, call)
        if pending is None:
            return None
        if past.reported_to == call.id:
            await self.refill(pending, past.reported_before)
            past.reported_to = None
            return await self._follow(pending, action, text, call)
        if pending.command.id == call.id or call.id in past.sent:
            return await self._follow(pending, action, text, call)
        return None


def _clipped(answer: CmdOutputObservation) -> CmdOutputObservation:
    """What the contract lets through of a long answer; one that is hidden from models is left alone."""
    content = answer.content if answer.hidden else truncate(answer.content)
    return answer if content is answer.content else msgspec.structs.replace(answer, content=content)


def _typed(action: CmdRunAction, text: str) -> str:
    """The text that the terminal echoed because of this action."""
    return text if action.is_input and control_key(text) is None else ""
