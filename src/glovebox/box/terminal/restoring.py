"""Sessions of an earlier server, found again in their journals, their logs and the holder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from glovebox.box.terminal.bash import Bash
from glovebox.box.terminal.channel import Channel, Receiver
from glovebox.box.terminal.commands import KEEP, Command
from glovebox.box.terminal.conversation import Past, Pending
from glovebox.box.terminal.delivery import Delivery
from glovebox.box.terminal.holder.wire import Held
from glovebox.box.terminal.identity import Identity, Typed
from glovebox.box.terminal.integration import Mark, MarkParser, Report
from glovebox.box.terminal.journal import (
    Answered,
    Began,
    Ended,
    Entry,
    Opened,
    Reported,
    Resized,
    Sent,
    ShellStarted,
)
from glovebox.box.terminal.log import LogFiles
from glovebox.box.terminal.run import Run, ShellEnd
from glovebox.box.terminal.session import Session, ended_entry
from glovebox.box.threads import Threads
from glovebox.protocol.terminal import Bill


@dataclass(slots=True)
class Story:
    """What a journal amounts to."""

    opened: Opened
    identity: Identity | None = None
    began: dict[str, Began] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    #: By command, the action that was told of its end.
    answered: dict[str, str] = field(default_factory=dict)
    #: By command, the last partial report.
    reported: dict[str, Reported] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    #: The last command that the present shell was given.
    last: Began | None = None

    @property
    def cwd(self) -> str:
        """The last directory that is known."""
        reports = [entry.report for entry in self.ended.values() if entry.report]
        return next(
            (report.working_dir for report in reversed(reports) if report.working_dir), self.opened.cwd
        )

    def entries(self, keep: int) -> list[Entry]:
        """The same in as few lines as possible, with the newest commands only."""
        entries: list[Entry] = [self.opened]
        if self.identity is not None:
            entries.append(ShellStarted(identity=self.identity))
        for began in list(self.began.values())[-keep:]:
            entries.append(began)
            if began.id in self.reported:
                entries.append(self.reported[began.id])
            if began.id in self.ended:
                entries.append(self.ended[began.id])
            if began.id in self.answered:
                entries.append(Answered(id=began.id, action_id=self.answered[began.id]))
        return entries + list(self.sent)


def read_story(entries: list[Entry]) -> Story | None:
    """What happened to a session; None if the journal does not even say that it was opened."""
    if not entries or not isinstance(entries[0], Opened):
        return None
    story = Story(entries[0])
    for entry in entries[1:]:
        match entry:
            case ShellStarted():
                story.identity, story.last = entry.identity, None
            case Began():
                story.began[entry.id] = story.last = entry
                story.sent.clear()
            case Sent():
                story.sent.append(entry)
            case Reported():
                story.reported[entry.id] = entry
            case Ended():
                story.ended[entry.id] = entry
            case Answered():
                story.answered[entry.id] = entry.action_id
            case Resized():
                story.opened = msgspec.structs.replace(story.opened, rows=entry.rows, columns=entry.columns)
            case Opened():
                story.opened = entry
    return story


def summarize(entries: list[Entry]) -> list[Entry]:
    """A journal without what is forgotten."""
    story = read_story(entries)
    return story.entries(KEEP) if story else entries


def restore_commands(session: Session, story: Story) -> None:
    """Have the commands again that had ended, and what was said of them."""
    past = Past()
    for began in story.began.values():
        ended = story.ended.get(began.id)
        if ended is None:
            continue
        command = session.command(began.id, began.command, started=began.started)
        command.restore_output(ended.extents)
        result = ended.report or ShellEnd(ended.status)
        command.end(result, ended.bill, limit=ended.limit, ended=ended.ended)
        reported = story.reported.get(began.id)
        if began.id in story.answered:
            past.answered[story.answered[began.id]] = (command, reported.size if reported else 0)
    session.cwd = story.cwd
    session.conversation.past = past


async def restore_shell(
    session: Session,
    story: Story,
    held: Held,
    adopt: Callable[[Receiver, int], Channel],
    *,
    group: int | None,
    threads: Threads,
) -> None:
    """Have the shell again, and the command that runs in it or that nobody was told of.

    What it printed is gone through again, so that every byte is known when this returns.
    """
    assert story.identity is not None
    last = story.last
    delivery = await threads.run(
        Delivery,
        session=story.identity.session_token,
        token=story.identity.start_token,
        group=group,
        path=story.identity.directory,
    )
    command = _last_command(session, story)
    ended = last is not None and last.id in story.ended
    typed: Typed | None = None
    if last is not None and command is not None:
        typed = Typed(
            token=last.token,
            input_number=last.input_number,
            position=last.position,
            printed=None if ended else command.printed,
        )
    shell, run = Bash.restore(story.identity, delivery, adopt, end=held.end, typed=typed, threads=threads)
    session.use(shell)
    if command is not None and not ended:
        session.see_to(command, run)
    if command is None or command.id in story.answered:
        await shell.replayed.wait()
        return
    pending = Pending(command, run, restored=True)
    session.conversation.pending = pending
    _remember_talk(session, story, held)
    await shell.replayed.wait()
    if reported := story.reported.get(command.id):
        await session.conversation.refill(pending, reported.size)


def _last_command(session: Session, story: Story) -> Command | None:
    last = story.last
    if last is None:
        return None
    if last.id in story.ended:
        return session.commands.get(last.id)
    return session.command(last.id, last.command, started=last.started)


def _remember_talk(session: Session, story: Story, held: Held) -> None:
    past, last = session.conversation.past, story.last
    past.sent = {sent.action_id for sent in story.sent if sent.input_number <= held.inputs}
    if last is not None and (reported := story.reported.get(last.id)):
        past.reported_to, past.reported_before = reported.action_id, reported.before


async def restore_without_shell(session: Session, story: Story, threads: Threads) -> None:
    """The shell went away with its holder; how the command ended may be in the log."""
    began = story.last
    if began is None or began.id in story.answered:
        return
    run = Run(began.token, asyncio.get_running_loop(), lambda data: None)
    pending = Pending(session.command(began.id, began.command, started=began.started), run, restored=True)
    command = pending.command
    if began.id in story.ended:
        command = pending.command = session.commands.get(began.id)
        assert command.result is not None
        run.ended.set_result(command.result)
    else:
        extents, report = await threads.run(_search_log, session.log_directory, began)
        command.restore_output(extents)
        result = report or ShellEnd(None)
        run.ended.set_result(result)
        bill = Bill(wall_seconds=0.0, output_bytes=command.size)
        command.end(result, bill)
        session.journal.append(ended_entry(command, bill, None))
    reported = story.reported.get(began.id)
    await session.conversation.refill(pending, reported.size if reported else 0)
    session.conversation.pending = pending


def _search_log(directory: str, began: Began) -> tuple[list[tuple[int, int]], Report | None]:
    """Where the output of a command is in the log of a shell that is gone, and its report. Blocks."""
    files = LogFiles.found(directory)
    parser = MarkParser()
    extents: list[tuple[int, int]] = []
    begun = False
    offset = max(began.position, files.begin)
    while data := files.fetch(offset):
        for item, at in parser.feed(data, offset):
            if not isinstance(item, Mark):
                if begun:
                    extents.append((at, len(item)))
            elif item.token == began.token and item.kind == "C":
                begun = True
            elif item.token == began.token and item.kind == "D" and (report := Report.parse(item)):
                return extents, report
        offset += len(data)
    return extents, None
