"""Output of a command as text, from its log."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from glovebox.box.terminal.commands import Command
from glovebox.box.terminal.rendering import LiveText
from glovebox.protocol.streams import Output

_PIECE = 65_536


async def reread(command: Command, start: int, end: int) -> AsyncGenerator[Output, None]:
    """The text of some bytes of its output, in pieces.

    Raises:
        OutputGone: the log does not reach back so far.
    """
    live, told, at = LiveText(), start, start
    while at < end and (data := await command.read(at, min(_PIECE, end - at))):
        at += len(data)
        text, settled = live.feed(data)
        if at == end:
            rest, settled = live.flush()
            text += rest
        if text:
            yield Output(offset=told, end=start + settled, text=text, command_id=command.id)
        told = start + settled
