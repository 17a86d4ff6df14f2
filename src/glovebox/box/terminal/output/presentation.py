"""From a command's raw output to the text of an answer. Pure."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.output.buffer import COLUMNS, ROWS, RetainedOutput, surviving
from glovebox.box.terminal.output.rendering import LiveText, render, split_unfinished
from glovebox.protocol.events import Output


class Shown(msgspec.Struct, frozen=True):
    """Output ready to be shown."""

    content: str
    #: How many lines are left, if the beginning is cut.
    truncated_to: int | None = None
    #: Whether it ended with a line end.
    ends_line: bool = True
    #: The end of the bytes, to be shown again together with what follows.
    unfinished: bytes = b""


def show(kept: RetainedOutput, *, completed: bool) -> Shown:
    """Render output as the contract's terminal would have it."""
    data, rest = (kept.data, b"") if completed else split_unfinished(kept.data)
    lines = render(data, rows=ROWS, columns=COLUMNS)
    rows_before = max(kept.dropped_lines, kept.dropped_bytes // COLUMNS)
    left = surviving(lines, rows_before, completed=completed)
    truncated = left is not None
    if left is None and kept.dropped_bytes:
        # The terminal would have everything; we have the beginning and the end of such long lines.
        head = render(kept.head, rows=ROWS, columns=COLUMNS)
        missing = kept.dropped_bytes - len(kept.head)
        left = [*head, f"[... {missing} bytes of output are not kept ...]", *lines]
    shown = lines if left is None else left
    return Shown(
        content="\n".join(shown).strip(),
        truncated_to=len(shown) if truncated else None,
        ends_line=not lines[-1],
        unfinished=rest,
    )


def without_echo(content: str, typed: str) -> str:
    """Output without the input that the terminal echoed in front of it."""
    return content.removeprefix(typed).lstrip() if typed else content


def plain(data: bytes) -> str:
    """A few lines as rendered text."""
    return "\n".join(render(data, rows=ROWS, columns=COLUMNS)).strip()


_PIECE = 65_536


async def reread(command: RunningCommand, start: int, end: int) -> AsyncGenerator[Output, None]:
    """The text of some bytes of a command's output, in pieces.

    Raises:
        OutputGone: the log does not reach back so far.
    """
    live, shown, at = LiveText(), start, start
    while at < end and (data := await command.read(at, min(_PIECE, end - at))):
        at += len(data)
        text, settled = live.feed(data)
        if at == end:
            rest, settled = live.flush()
            text += rest
        if text:
            yield Output(offset=shown, end=start + settled, text=text, command_id=command.id)
        shown = start + settled
