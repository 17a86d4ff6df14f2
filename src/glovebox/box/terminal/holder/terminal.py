"""A terminal as the holder keeps it: the shell, its log, and what is still to be typed or told."""

from __future__ import annotations

import time

from glovebox.box.terminal.holder import wire
from glovebox.box.terminal.holder.log import Log
from glovebox.box.terminal.holder.source import Source
from glovebox.box.terminal.processes import Process

#: How long the news of a command may wait for its end, and how much output is news at once.
_QUIET = 0.002
_MUCH = 4_096


class Terminal:
    """One shell, its log, and what is still to be typed."""

    def __init__(self, number: int, name: str, source: Source, log: Log, scratch: str) -> None:
        self.number = number
        self.name = name
        self.source = source
        self.log = log
        #: The directory of the shell's files, which goes when it does.
        self.scratch = scratch
        self.inputs = 0
        self.unsent = bytearray()
        #: The server has not heard of the newest output.
        self.dirty = False
        self.exited = False
        #: When to give up waiting: for the status of a shell that left its terminal, or for one to end.
        self.deadline: float | None = None
        self.closing = False
        #: Readable when a shell that is not our child has ended, while it is being closed.
        self.leave = -1
        self.relatives: list[Process] = []
        #: Until then, or until these bytes are printed, there is no news: most commands are over by then.
        self.quiet_until = 0.0
        self._awaited = b""

    def hush(self, awaited: bytes) -> None:
        """Tell of what comes now as one piece of news, if it comes soon."""
        self.quiet_until = time.monotonic() + _QUIET
        self._awaited = awaited

    def printed(self, data: bytes) -> list[tuple[int, str]]:
        """The shell printed something; the new files that the log goes on in."""
        self.dirty = True
        if self.quiet_until and (len(data) >= _MUCH or self._awaited in data):
            self.quiet_until = 0.0
        return self.log.append(data)

    def describe(self) -> wire.Held:
        """What a server has to know of it, which is to find the log as it should be."""
        self.log.check()
        return wire.Held(
            number=self.number,
            name=self.name,
            pid=self.source.pid,
            inputs=self.inputs,
            end=self.log.end,
            exited=self.exited,
            status=self.source.status(),
            segments=self.log.segments,
        )
