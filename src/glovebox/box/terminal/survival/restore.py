"""Restores the sessions of an earlier server from their journals, their logs and the holder."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable

from glovebox.box.terminal.account import Account
from glovebox.box.terminal.commands import KEEP, RunningCommand, ShellEnd
from glovebox.box.terminal.holder.launch import end_unreachable
from glovebox.box.terminal.holder.wire import HeldTerminal
from glovebox.box.terminal.holder_client import HeldChannel, HolderClient, Receiver
from glovebox.box.terminal.output.log import LogFiles
from glovebox.box.terminal.services import PREFIX, ProcessKeeper
from glovebox.box.terminal.session import Session
from glovebox.box.terminal.shell.bash_shell import BashShell, ended_entry
from glovebox.box.terminal.shell.command_file import Delivery
from glovebox.box.terminal.shell.integration import EndReport, MarkParser, ShellMark
from glovebox.box.terminal.survival import journal
from glovebox.box.terminal.survival.journal import Began, Opened, Story, read_story
from glovebox.box.terminal.survival.state_directory import StateDirectory
from glovebox.box.threads import Threads
from glovebox.protocol.terminal import Bill

log = logging.getLogger(__name__)

#: How much of a log is searched for the end of a command.
_MOST_SEARCHED = 1 << 30


async def restore_sessions(
    state: StateDirectory,
    holder: HolderClient,
    keeper: ProcessKeeper,
    *,
    make: Callable[[Opened], Awaitable[Session[BashShell]]],
    account: Account | None,
    threads: Threads,
) -> AsyncIterator[tuple[Session[BashShell], str | None]]:
    """Restore every session with a journal; yields it with the name of its shell in the holder, if any.

    Shells without a journal are ended; processes of other plugins go to the keeper.

    Raises:
        StartupError: the holder is of another version.
    """
    held = {one.number: one for one in await holder.find()}
    stories = await threads.run(_read_stories, state)
    if not holder.connected:
        await threads.run(_end_unreachable, state, stories)
    group = account.gid if account and account.switch else None
    for story in stories:
        session = await make(story.opened)
        await threads.run(session.journal.rewrite, story.entries(KEEP))
        mine = held.get(story.identity.number) if story.identity else None
        delivery = await _delivery(story, group, threads) if mine is not None else None
        known = story.log_end if delivery is None else 0  # the holder knows the end of a live log
        session.shell.log = await threads.run(LogFiles.find, session.shell.log_directory, known)
        restore_commands(session, story)
        if mine is not None and delivery is not None:
            del held[mine.number]
            adopt = functools.partial(holder.adopt, mine, session.shell.log_directory)
            await restore_shell(session, story, mine, delivery, adopt)
            yield session, mine.name
        elif not story.opened.static:
            await restore_without_shell(session, story, threads)
            yield session, None
        elif not story.began:  # a spare one, or one that did not come to its command
            await threads.run(state.forget, story.opened.name)
    for other in held.values():
        if other.name.startswith(PREFIX):
            await keeper.adopt(other)
        else:
            holder.end(other)


def _read_stories(state: StateDirectory) -> list[Story]:
    """Read the journals; a session with an unusable one is moved to the damaged files. Blocks."""
    stories: list[Story] = []
    for name in state.sessions():
        story = read_story(journal.load(os.path.join(state.session(name), "journal"), state.path))
        if story is None or story.opened.name != name:
            state.discard(name, "its journal does not say what it was")
        else:
            stories.append(story)
    return stories


def _end_unreachable(state: StateDirectory, stories: list[Story]) -> None:
    """End an unreachable holder, if there may be one. Blocks."""
    if state.damaged or any(story.identity for story in stories):
        end_unreachable(state.path)


async def _delivery(story: Story, group: int | None, threads: Threads) -> Delivery | None:
    """The files of a shell that still runs; None if they are gone."""
    assert story.identity is not None
    try:
        return await threads.run(
            Delivery,
            session=story.identity.session_token,
            token=story.identity.start_token,
            group=group,
            path=story.identity.directory,
        )
    except OSError as error:
        log.error("the shell of %s cannot be used any more, and is ended: %s", story.opened.name, error)
        return None


def restore_commands(session: Session[BashShell], story: Story) -> None:
    """Restore the commands that had ended, and which actions were answered with them."""
    for began in story.began.values():
        ended = story.ended.get(began.id)
        if ended is None:
            continue
        command = session.add_command(began.id, began.command, started=began.started)
        command.restore_output(ended.extents)
        result = ended.report or ShellEnd(ended.status)
        command.end(result, ended.bill, limit=ended.limit, oom=ended.oom, ended=ended.ended)
        _was_answered(session, story, command)
    session.cwd = story.cwd


def _was_answered(session: Session[BashShell], story: Story, command: RunningCommand) -> bool:
    """Whether an action was answered with the end of a command; if so, the answer can be repeated."""
    action = story.answered.get(command.id)
    if action is not None and command.finished:
        session.past.answered[action] = (command, _reported_size(story, command))
    return action is not None


def _reported_size(story: Story, command: RunningCommand) -> int:
    reported = story.reported.get(command.id)
    return reported.size if reported else 0


async def restore_shell(
    session: Session[BashShell],
    story: Story,
    held: HeldTerminal,
    delivery: Delivery,
    adopt: Callable[[Receiver, int], HeldChannel],
) -> None:
    """Use the shell again, and the command that runs in it or whose end no action was answered with.

    The log is read again, so that every byte of output is known when this returns.
    """
    assert story.identity is not None
    command = _last_command(session, story)
    pending = command is not None and command.id not in story.answered
    if pending:
        session.pending = command
        _remember_talk(session, story, held)
    await session.shell.restore(
        story.identity, delivery, adopt, end=held.end, last=story.last, command=command
    )
    if command is None:
        return
    if not pending:
        command.drop_unreported()
        _was_answered(session, story, command)
    elif size := _reported_size(story, command):
        await command.report_from(size)


def _last_command(session: Session[BashShell], story: Story) -> RunningCommand | None:
    last = story.last
    if last is None:
        return None
    if last.id in story.ended:
        return session.commands.get(last.id)
    return session.add_command(last.id, last.command, started=last.started)


def _remember_talk(session: Session[BashShell], story: Story, held: HeldTerminal) -> None:
    past, last = session.past, story.last
    past.sent = {sent.action_id for sent in story.sent if sent.input_number <= held.inputs}
    if last is not None and (reported := story.reported.get(last.id)):
        past.reported_to, past.reported_before = reported.action_id, reported.before


async def restore_without_shell(session: Session[BashShell], story: Story, threads: Threads) -> None:
    """The shell ended with its holder; the end of the last command may be in the log."""
    began, command = story.last, _last_command(session, story)
    if began is None or command is None:
        return
    if not command.finished:
        extents, report = await threads.run(_search_log, session.shell.log_directory, began)
        command.restore_output(extents)
        bill = Bill(wall_seconds=0.0, output_bytes=command.size)
        command.end(report or ShellEnd(None), bill)
        session.journal.append(ended_entry(command))
    if not _was_answered(session, story, command):
        await command.report_from(_reported_size(story, command))
        session.pending = command


def _search_log(directory: str, began: Began) -> tuple[list[tuple[int, int]], EndReport | None]:
    """The extents of a command's output in the log of a shell that has ended, and its report. Blocks."""
    files = LogFiles.find(directory)
    parser = MarkParser()
    extents: list[tuple[int, int]] = []
    begun = False
    for data, offset in files.pieces(began.position):
        if offset - began.position > _MOST_SEARCHED:  # no log of ours
            break
        for item, at in parser.feed(data, offset):
            if not isinstance(item, ShellMark):
                if begun:
                    extents.append((at, len(item)))
            elif item.token == began.token and item.kind == "C":
                begun = True
            elif item.token == began.token and item.kind == "D" and (report := EndReport.parse(item)):
                return extents, report
    return extents, None
