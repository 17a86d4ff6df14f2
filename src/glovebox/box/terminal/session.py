"""A session: a persistent shell with a name, the contract's `run` action and the action `command` on it."""

from __future__ import annotations

import asyncio
import uuid
from typing import Generic, Literal, TypeVar

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.machine import Shell, ShellRefused
from glovebox.box.terminal import replies
from glovebox.box.terminal.commands import Commands, RunningCommand, ShellEnd, WaitOutcome
from glovebox.box.terminal.keys import control_key
from glovebox.box.terminal.output.buffer import OutputBuffer
from glovebox.box.terminal.output.presentation import Shown, plain, show, without_echo
from glovebox.box.terminal.results import check_text, command_result, note_stray
from glovebox.box.terminal.shell.command_splitter import needs_parsing, split_commands
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.survival.journal import Answered, Journal, Reported
from glovebox.box.threads import Threads
from glovebox.errors import (
    CommandDenied,
    CommandEnded,
    SessionBusy,
    SessionTaken,
    StartupError,
    TerminalError,
)
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import SessionChanged
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation, truncate
from glovebox.protocol.terminal import CommandAction, CommandInputAction, CommandResult, Limits, SessionInfo

#: Rendering more than this takes long enough to leave the event loop.
_LARGE = 200_000
#: At the idle prompt these do something: a new prompt, and the end of the shell.
_KEYS_AT_PROMPT = (b"\x03", b"\x04")

_NOTHING = Shown("")

Answer = CmdOutputObservation | ErrorObservation
ShellT = TypeVar("ShellT", bound=Shell)


class Past(msgspec.Struct):
    """What an earlier server answered."""

    #: By action, the command whose end answered it, and the size that was reported before.
    answered: dict[str, tuple[RunningCommand, int]] = msgspec.field(default_factory=dict)
    #: The actions whose input had reached the shell.
    sent: set[str] = msgspec.field(default_factory=set)
    #: The action that got the last report of the running command, and the size that was reported before.
    reported_to: str | None = None
    reported_before: int = 0


class Session(Generic[ShellT]):
    """A shell with a queue: actions are carried out in the order of their arrival."""

    def __init__(
        self,
        name: str,
        shell: ShellT,
        *,
        cwd: str,
        created: float,
        no_change_timeout: float,
        threads: Threads,
        commands: Commands,
        events: EventLog,
        journal: Journal,
    ) -> None:
        self.name = name
        self.shell = shell
        self.cwd = cwd
        self.commands = commands
        self.journal = journal
        self.closed = False
        #: The command whose end has not been reported.
        self.pending: RunningCommand | None = None
        self.past = Past()
        #: What a person entered after a command whose end has not been reported.
        self._following: RunningCommand | None = None
        #: The newest command that has ended, whose end may not have been reported.
        self._former: RunningCommand | None = None
        self._created = created
        self._no_change_timeout = no_change_timeout
        self._threads = threads
        self._events = events
        self._lock = asyncio.Lock()
        self._turns: set[asyncio.Future[None]] = set()
        self._owner: object | None = None

    def info(self) -> SessionInfo:
        pending, terminal = self.pending, self.shell.terminal
        return SessionInfo(
            name=self.name,
            pid=terminal.pid,
            cwd=self.cwd,
            rows=terminal.rows,
            columns=terminal.columns,
            created=self._created,
            command=pending.id if pending is not None and not pending.finished else None,
            taken=self._owner is not None,
            limits=terminal.limits or Limits(),
            attach=terminal.attach,
        )

    # Its life.

    async def start(self) -> None:
        """Start the shell now instead of with the first command.

        Raises:
            StartupError: it could not be started.
        """
        async with self._lock:
            await self.shell.ready(self.cwd)

    async def close(self) -> None:
        """Let go of the shell, and answer the actions that wait."""
        self.closed = True
        await self.shell.close()
        await self.settled()
        self.journal.close()
        self._tell("closed")

    async def settled(self) -> None:
        """Wait until every action that was accepted before now has been answered."""
        if self._turns:
            await asyncio.wait(set(self._turns))

    def add_command(
        self,
        command_id: str,
        text: str,
        *,
        by: Literal["agent", "person"] = "agent",
        started: float | None = None,
    ) -> RunningCommand:
        command = RunningCommand(
            command_id=command_id,
            session=self.name,
            text=text,
            log=self.shell.log,
            events=self._events,
            threads=self._threads,
            by=by,
            started=started,
        )
        self.commands.add(command)
        return command

    # People.

    def take(self, owner: object) -> None:
        """Let a person have it: agents' commands are refused meanwhile.

        Raises:
            SessionTaken: another person has it.
        """
        if self._owner is not None and self._owner is not owner:
            raise SessionTaken(f"Somebody else has taken over the session {self.name!r}.")
        self._owner = owner
        self._tell("taken")

    def release(self, owner: object) -> None:
        if self._owner is owner:
            self._owner = None
            self._tell("released")

    def taken_by(self, owner: object) -> bool:
        return self._owner is owner

    def entered(self, typed: bytes) -> RunningCommand:
        """The command for a line that a person entered at the prompt."""
        command = self.add_command(uuid.uuid4().hex, plain(typed), by="person")
        command.shell = self.shell
        pending = self.pending
        if pending is None or (pending.finished and pending.by == "person"):
            self.pending = command
        elif pending.finished:
            self._following = command
        return command

    # The action `command`.

    async def execute(self, action: CommandAction, call: Call) -> CommandResult:
        """Run a text as one command, and wait for it as the action says.

        Raises:
            BadInput: no shell can be given this text.
            SessionBusy: another command runs.
            SessionTaken: a person has the session.
            StartupError: the shell could not be started.
        """
        command = await self._begun(action, call)
        outcome = None
        for_input = action.on_wait == "return"
        while action.wait:
            outcome = await command.wait(timeout=action.timeout, for_input=for_input)
            missed = not command.begun and isinstance(command.result, ShellEnd) and not command.notes
            if not missed or call.resumed:
                break
            # The shell went away just before, after `exec </dev/null` say; a new one takes the command.
            self._complete(command)
            command = await self._begun(action, call)
        return await self._result(command, outcome, call, budget=action.budget)

    async def give_input(self, action: CommandInputAction, call: Call) -> CommandResult:
        """Give input to the running command, if any is given, and wait for it.

        Raises:
            BadInput: there is no such key.
            CommandEnded: no command runs, and the end of the last one is known.
            SessionTaken: a person has the session.
        """
        command = self.pending or self._former
        if self._owner is not None:
            raise SessionTaken(f"A person has taken over the session {self.name!r}.")
        if command is None or (command.finished and command.end_known):
            raise CommandEnded(f"No command runs in the session {self.name!r}.")
        given = bool(action.text or action.keys)
        if given and command.finished:
            command.notes.append("The input was not sent: the command had already ended.")
        elif given:
            await command.send(action.text, action.keys)
        command.follower = call.id
        command.replay(command.reported_size)
        try:
            outcome = await command.wait(timeout=action.timeout, for_input=action.on_wait == "return")
        finally:
            command.follower = None
        return await self._result(command, outcome, call, budget=action.budget, offset=command.reported_size)

    async def _result(
        self,
        command: RunningCommand,
        outcome: WaitOutcome | None,
        call: Call,
        *,
        budget: int | None,
        offset: int = 0,
    ) -> CommandResult:
        call.command = command.info()
        if command.finished:
            self._complete(command)
        if command.error is not None:
            denied = isinstance(command.error, ShellRefused) and command.error.code == "denied"
            raise (CommandDenied if denied else TerminalError)(str(command.error)) from command.error
        return await command_result(command, outcome, self._threads, offset=offset, budget=budget)

    async def _begun(self, action: CommandAction, call: Call) -> RunningCommand:
        if call.resumed and (known := self.commands.find(call.id)) is not None:
            return known
        check_text(action.command)
        self._check_free()
        async with self._lock:
            self._check_free()
            if self.pending is not None:
                self._complete(self.pending)
            gone = await self.shell.ready(self.cwd)
            self._check_free()  # a person may have been faster
            command = self.pending = self.add_command(call.id, action.command)
            command.shell, command.contract = self.shell, False
            former, self._former = self._former, None
            if former is not None and not former.end_known:
                command.notes.append(f"The command {former.id}, which ran before, has ended meanwhile.")
            if gone is not None:
                command.notes.append(replies.shell_was_gone(gone.status).strip("[]\n"))
            try:
                await self.shell.run(command, action.command, action.limits)
            except ShellRefused as refused:
                self.pending = None
                raise TerminalError(str(refused)) from refused
        command.ended.add_done_callback(lambda _: self._complete(command))
        return command

    def _check_free(self) -> None:
        if self._owner is not None:
            raise SessionTaken(f"A person has taken over the session {self.name!r}.")
        running = self.pending
        if running is not None and not running.finished:
            raise SessionBusy(
                f"The session {self.name!r} is busy: the command {running.id} ({running.text[:80]!r}) still "
                "runs. Wait for it, give it input, or interrupt it; or use another session."
            )

    def _complete(self, command: RunningCommand) -> None:
        """Release a command whose result is fetched by its id."""
        if self.closed:
            return
        note_stray(command)
        if self.pending is command:
            self.journal.append(Answered(id=command.id, action_id=command.id))
            self._former = command if command.by == "agent" else None
        self._move_on(command)

    # The action `run` of the contract.

    async def run(self, action: CmdRunAction, call: Call) -> Answer:
        """Run a command, or poll the running one or give it input."""
        text = action.command.strip()
        if "\0" in text:
            return replies.unreadable("it contains a NUL character")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            return replies.unreadable("it contains half of a surrogate pair, which is no character")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.add(turn)
        try:
            async with self._lock:
                if self._owner is not None and text:
                    return replies.taken_over(self.name)
                return await self._answer(action, text, call)
        except StartupError as error:
            return ErrorObservation(content=str(error))
        except ShellRefused as refused:
            return ErrorObservation(content=str(refused), error_id=refused.code)
        finally:
            self._turns.discard(turn)
            turn.set_result(None)

    async def _answer(self, action: CmdRunAction, text: str, call: Call) -> Answer:
        if call.resumed and (again := await self._resume(action, text, call)):
            return again
        pending = self.pending
        if pending is None and not text:
            return replies.nothing_to_retrieve()
        if pending is None and action.is_input and not (self.shell.unattended and control_key(text)):
            return replies.nothing_to_interact_with()
        if needs_parsing(text):
            commands = await self._threads.run(split_commands, text)
            if len(commands) > 1:
                return replies.several_commands(commands)
        if pending is None or (pending.finished and text and not action.is_input):
            return await self._begin(action, text, call)
        if pending.finished:
            note = replies.input_not_sent(text) if text else ""
            return await self._report_end(pending, action, text, call, note)
        if text and not action.is_input:
            return await self._refuse(pending, action, text, call)
        if text:
            await self.shell.send(control_key(text) or text.encode() + b"\r", call.id)
        return await self._follow(pending, action, text, call)

    async def _begin(self, action: CmdRunAction, text: str, call: Call, leftover: str = "") -> Answer:
        """Run a command in an idle shell, after taking what is left of the previous one."""
        if self.pending is not None:
            leftover = await self._leave(self.pending)
        gone = await self.shell.ready(self.cwd)
        if self.pending is not None:  # a person was faster
            self.pending.leftover = leftover or self.pending.leftover
            return await self._refuse(self.pending, action, text, call)
        key = control_key(text)
        if key is not None and key not in _KEYS_AT_PROMPT:
            report = self.shell.report or EndReport(exit_code=0, working_dir=self.cwd)
            return replies.completed(text, leftover.rstrip(), report, note=replies.key_sent(text))
        command = self.add_command(call.id, text)
        command.shell, command.leftover = self.shell, leftover
        if gone is not None:
            command.prefix = replies.shell_was_gone(gone.status)
        if key is None:
            await self.shell.run(command, text, action.limits)
        else:
            await self.shell.press(command, key)
        self.pending = command
        return await self._follow(command, action, text, call)

    async def _leave(self, command: RunningCommand) -> str:
        """Be done with a command that ended unreported; the rest of its output precedes the next one's."""
        shown = await self._take(command, completed=True)
        self._move_on(command)
        if not shown.content or command.by == "person":
            return ""
        return shown.content + ("\n\n\n" if shown.ends_line else "\n\n")

    async def _refuse(self, command: RunningCommand, action: CmdRunAction, text: str, call: Call) -> Answer:
        continued, before = command.reported, command.reported_size
        shown = await self._take(command, completed=False)
        self._journal_report(command, call, before)
        answer = replies.still_running(text, shown.content, continued=continued, hidden=action.hidden)
        if command.awaits_approval:
            question = command.info().prompt
            answer = replies.awaits_approval(text, shown.content, question, continued=continued, refused=True)
        return _clip(answer)

    async def _follow(self, command: RunningCommand, action: CmdRunAction, text: str, call: Call) -> Answer:
        """Wait until a command ends, is silent or the time is over, and report it."""
        command.follower = call.id
        if call.id != command.id:
            command.replay(command.reported_size)
        try:
            silence = None if action.blocking else self._no_change_timeout
            outcome = await command.wait(timeout=action.timeout, silence=silence)
        finally:
            command.follower = None
        own = call.id == command.id and not call.resumed
        missed = not command.begun and isinstance(command.result, ShellEnd)
        if outcome is WaitOutcome.ENDED and missed and not command.prefix and own:
            # The shell went away just before, after `exec </dev/null` say; a new one takes the command.
            self.pending = None
            return await self._begin(action, text, call, command.leftover)
        if outcome is WaitOutcome.ENDED:
            note = replies.key_sent(text) if control_key(text) else ""
            return await self._report_end(command, action, text, call, note)
        continued, before = command.reported, command.reported_size
        content, _ = await self._content(command, action, text, completed=False)
        self._journal_report(command, call, before)
        if command.awaits_approval:
            answer = replies.awaits_approval(text, content, command.info().prompt, continued=continued)
        elif outcome is WaitOutcome.SILENT:
            seconds = self._no_change_timeout
            answer = replies.no_new_output(text, content, continued=continued, seconds=seconds)
        else:
            seconds = action.timeout or 0.0
            answer = replies.timed_out(text, content, continued=continued, seconds=seconds)
        return answer if action.budget is not None else _clip(answer)

    async def _report_end(
        self, command: RunningCommand, action: CmdRunAction, text: str, call: Call, note: str = ""
    ) -> Answer:
        if self.closed:
            return ErrorObservation(content="Bash session was likely interrupted...")
        prefix = "" if command.reported else command.prefix
        content, truncated_to = await self._content(command, action, text, completed=True)
        if truncated_to is not None:
            prefix += replies.output_truncated(truncated_to)
        if self.pending is command:
            self.journal.append(Answered(id=command.id, action_id=call.id))
        self._move_on(command)
        info = call.command = command.ended.result()
        if command.error is not None:
            raise command.error
        result, hidden = command.result, action.hidden
        if isinstance(result, EndReport):
            note = " ".join(filter(None, (note, info.limit, command.note)))
            answer = replies.completed(
                text, content, result, prefix=prefix, note=note, oom=info.oom, hidden=hidden
            )
        else:
            answer = replies.shell_ended(
                text,
                content,
                self.shell.report,
                status=result.status if result else None,
                cwd=self.cwd,
                prefix=prefix,
                note=info.limit or "",
                oom=info.oom,
                hidden=hidden,
            )
        return answer if action.budget is not None else _clip(answer)

    def _move_on(self, command: RunningCommand) -> None:
        """Be done with a command that has ended; one that was entered after it may still run."""
        command.drop_unreported()
        if isinstance(command.result, EndReport) and command.result.working_dir:
            self.cwd = command.result.working_dir
        if self.pending is command:
            self.pending, self._following = self._following, None
            if self.pending is not None and self.pending.finished:
                self.pending = None

    def _journal_report(self, command: RunningCommand, call: Call, before: int) -> None:
        self.journal.append(
            Reported(id=command.id, action_id=call.id, before=before, size=command.reported_size)
        )
        call.command = command.info()

    # What a command printed.

    async def _content(
        self, command: RunningCommand, action: CmdRunAction, text: str, *, completed: bool
    ) -> tuple[str, int | None]:
        """The text of a report, and how many lines are left of output whose beginning is gone."""
        before = command.reported_size
        shown = await self._take(command, completed=completed)
        if action.budget is not None:
            return await self._digest(command, before, action.budget), None
        typed = text if action.is_input and control_key(text) is None else ""
        return without_echo(shown.content, typed), shown.truncated_to

    async def _take(self, command: RunningCommand, *, completed: bool) -> Shown:
        """What was printed since the last report; in the first report, after what came before the command."""
        shown = await self._show(command.unreported, completed=completed)
        command.reported_size = command.size - len(shown.unfinished)
        if shown.unfinished and command.unreported is not None:
            command.unreported.put_back(shown.unfinished)
        if command.reported:
            return shown
        command.reported = True
        before = command.leftover
        if command.before is not None:
            stray = await self._show(command.before, completed=True)
            before += f"{stray.content}\n" if stray.content else ""
        if not before:
            return shown
        # As on a screen: what was there before, then the command, then its output.
        content = f"{before}{command.text}\n{shown.content}".rstrip()
        return Shown(content, shown.truncated_to, shown.ends_line)

    async def _show(self, output: OutputBuffer | None, *, completed: bool) -> Shown:
        if output is None:
            return _NOTHING
        kept = output.take()
        if len(kept.data) < _LARGE:
            return show(kept, completed=completed)
        return await self._threads.run(show, kept, completed=completed)

    async def _digest(self, command: RunningCommand, offset: int, budget: int) -> str:
        def make() -> str:
            from glovebox.box.terminal.output.digest import digest  # its expressions take a while to compile

            return digest(command.pieces(offset), budget=budget, command_id=command.id).text

        return await self._threads.run(make)

    async def _resume(self, action: CmdRunAction, text: str, call: Call) -> Answer | None:
        """Answer an action that an earlier server had begun with; None if it had not come that far."""
        past, pending = self.past, self.pending
        if call.id in past.answered:
            command, before = past.answered[call.id]
            await command.report_from(before)
            return await self._report_end(command, action, text, call)
        if pending is None:
            return None
        if past.reported_to == call.id:
            await pending.report_from(past.reported_before)
            past.reported_to = None
            return await self._follow(pending, action, text, call)
        if pending.id == call.id or call.id in past.sent:
            return await self._follow(pending, action, text, call)
        return None

    def _tell(self, what: str) -> None:
        self._events.append(SessionChanged, session=self.name, what=what)


def _clip(answer: CmdOutputObservation) -> CmdOutputObservation:
    """Shorten an answer as the contract does; one that is hidden from models stays as it is."""
    content = answer.content if answer.hidden else truncate(answer.content)
    return answer if content is answer.content else msgspec.structs.replace(answer, content=content)
