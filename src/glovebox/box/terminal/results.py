"""The result of a command outside the contract: what it printed from an offset on, and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from glovebox.box.terminal.commands import RunningCommand, ShellEnd, WaitOutcome
from glovebox.box.terminal.output.presentation import plain
from glovebox.box.terminal.output.rendering import render, split_unfinished
from glovebox.box.threads import Threads
from glovebox.errors import BadInput, OutputGone
from glovebox.protocol.terminal import CommandResult

#: Of longer output, a result has the beginning and the end.
MOST_BYTES = 2 << 20
#: How much of what background jobs printed a note repeats.
_LONGEST_NOTE = 4_000


def check_text(text: str) -> None:
    """Refuse a text that no shell can be given.

    Raises:
        BadInput: it is empty, or has a character that is none.
    """
    if not text.strip():
        raise BadInput("There is no command in this.")
    if "\0" in text:
        raise BadInput("The command cannot be run: it contains a NUL character.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("The command cannot be run: it contains half of a surrogate pair.")


async def command_result(
    command: RunningCommand,
    outcome: WaitOutcome | None,
    threads: Threads,
    *,
    offset: int = 0,
    budget: int | None = None,
) -> CommandResult:
    """A command as it is now, and its output from `offset` on, in about `budget` characters if given."""
    finished, end, info = command.finished, command.size, command.info()
    note_stray(command)
    notices = ""
    if finished:
        command.end_known = True
        if command.notices_at is not None and end - command.notices_at <= len(command.tail):
            notices = plain(command.tail[len(command.tail) - (end - command.notices_at) :])
            end = command.notices_at
    else:  # a poll of the contract goes on from here
        command.unreported, command.reported = None, True
    offset = min(offset, end)
    part = await _output(command, offset, end, threads, finished=finished, budget=budget)
    command.reported_size = max(command.reported_size, part.end)
    ended = command.result
    notes = [*command.notes, notices, command.note, info.limit or "", info.oom or "", part.note]
    if isinstance(ended, ShellEnd):
        how = "ended" if ended.status is None else f"ended with exit code {ended.status}"
        notes.append(f"The shell itself {how}. The next command gets a new one.")
    return CommandResult(
        command=info,
        output=part.text,
        output_offset=offset,
        output_end=part.end,
        truncated=part.truncated,
        timed_out=outcome is WaitOutcome.LATE,
        notes=[note for note in notes if note],
    )


def note_stray(command: RunningCommand) -> None:
    """Make a note of what background jobs printed before a command began."""
    if command.before is None:
        return
    text = plain(command.before.take().data)
    command.before = None
    if text:
        cut = f"…{text[-_LONGEST_NOTE:]}" if len(text) > _LONGEST_NOTE else text
        command.notes.append(f"Before this command began, background jobs had printed:\n{cut}")


class _Part(NamedTuple):
    text: str
    end: int
    truncated: bool = False
    note: str = ""


async def _output(
    command: RunningCommand, offset: int, end: int, threads: Threads, *, finished: bool, budget: int | None
) -> _Part:
    begin = len(command.tail) - (command.size - offset)
    if budget is not None and end - offset > budget:
        return await threads.run(_digest, command, offset, end, budget)
    if begin >= 0:  # nearly all
        return _shown(command, command.tail[begin : begin + end - offset], end, finished=finished)
    return await threads.run(_read, command, offset, end, finished=finished)


def _digest(command: RunningCommand, offset: int, end: int, budget: int) -> _Part:
    from glovebox.box.terminal.output.digest import digest  # its expressions take a while to compile

    made = digest(_pieces(command, offset, end), budget=budget, command_id=command.id)
    return _Part(made.text, end, made.shortened)


def _read(command: RunningCommand, offset: int, end: int, *, finished: bool) -> _Part:
    """The text of output from the log. Blocks."""
    try:
        if end - offset <= MOST_BYTES:
            return _shown(command, _bytes(command, offset, end), end, finished=finished)
        half = MOST_BYTES // 2
        head = _bytes(command, offset, offset + half)
        tail = _bytes(command, end - half, end)
    except OutputGone:
        note = "The beginning of the output is not kept any more."
        return _shown(command, command.tail, end, finished=finished)._replace(truncated=True, note=note)
    first = _shown(command, head, offset + half, finished=True)
    last = _shown(command, tail, end, finished=finished)
    left_out = f"\n[… {end - offset - 2 * half:,} bytes are left out here …]\n"
    return _Part(first.text + left_out + last.text, last.end, truncated=True)


def _bytes(command: RunningCommand, offset: int, end: int) -> bytes:
    return b"".join(_pieces(command, offset, end))


def _pieces(command: RunningCommand, offset: int, end: int) -> Iterator[bytes]:
    """Raw output up to `end`: a command that goes on may print faster than this reads."""
    for piece in command.pieces(offset):
        yield piece[: end - offset]
        offset += len(piece)
        if offset >= end:
            return


def _shown(command: RunningCommand, data: bytes, end: int, *, finished: bool) -> _Part:
    data, rest = (data, b"") if finished else split_unfinished(data)
    return _Part("\n".join(render(data, rows=command.rows, columns=command.columns)), end - len(rest))
