"""A terminal as the holder keeps it: the shell, its log, and what is still to be typed or told."""

from __future__ import annotations

import time

from glovebox.box.terminal.holder import wire
from glovebox.box.terminal.holder.log import Log
from glovebox.box.terminal.holder.source import ShellTerminal
from glovebox.linux.processes import Process, read_file

#: How long the news of a command may wait for its end, and that of its end for the prompt: most take less,
#: and two pieces of news cost more than one.
_QUIET = 0.002
_PROMPT_QUIET = 0.001
_PROMPT_END = b"\033]1807;B;"
#: So much output is news at once.
_MUCH = 4_096
#: More than the bytes of an end mark up to the status; a mark may be torn between two reads.
_MARK_SIZE = 64
#: Ends that are remembered of one token: more than one if people use the shell as well.
_MOST_ENDS = 100


class EndMarks:
    """Tells the end marks that the shell itself printed from those of other programs.

    The kernel lets nobody but a process itself write its name (/proc/PID/comm). Before each mark the shell
    writes there the status that it is about to tell, and how many ends it has told for this token, modulo 10.
    So if there are as many new marks as ends, they are the shell's. If there are more, other programs have
    printed some, and only the newest with the right status counts.
    """

    def __init__(self, pid: int) -> None:
        self._path = f"/proc/{pid}/comm"
        self._mark = self._name = self._before = b""
        self._told = 0
        self._newest = -1
        #: Offsets of marks that may be the shell's.
        self._found: list[int] = []
        #: Offsets of the marks that are.
        self.confirmed: list[int] = []

    def expect(self, token: bytes) -> None:
        """Look for the ends of the command with this token from now on."""
        mark = b"\033]1807;D;" + token + b"\x1f" if token else b""
        if mark != self._mark:
            self._mark = mark
            self._name = b"bash:" + token[:4] + b":"
            self._told = 0
            self._found = []
            self.confirmed = []

    def find(self, data: bytes, offset: int) -> bool:
        """Look through what was printed at `offset`; whether there is another mark of the shell's."""
        before, mark = self._before, self._mark
        self._before = data[-_MARK_SIZE:] if len(data) >= _MARK_SIZE else (before + data)[-_MARK_SIZE:]
        if not mark or (mark not in data and mark not in before + data[:_MARK_SIZE]):
            return False
        data, offset = before + data, offset - len(before)
        self._collect(data, offset)
        status, _, count = (
            read_file(self._path, _MARK_SIZE).rstrip(b"\n").removeprefix(self._name).partition(b":")
        )
        ends = (int(count) - self._told) % 10 if count.isdigit() else 0
        found = self._found
        if ends <= len(found):  # else the rest is still to come, or was lost
            newest = data.rfind(mark + status + b"\x1f")
            if not ends or newest < 0:
                return False
            if ends < len(found):
                found = [offset + newest]
        self.confirmed = [*self.confirmed, *found][-_MOST_ENDS:]
        self._told = (self._told + min(ends, len(self._found))) % 10
        self._found = []
        return True

    def _collect(self, data: bytes, offset: int) -> None:
        at = data.find(self._mark)
        while at >= 0:
            if offset + at > self._newest:
                self._newest = offset + at
                self._found = [*self._found[1 - _MOST_ENDS :], self._newest]
            at = data.find(self._mark, at + 1)


class HolderTerminal:
    """One shell, its log, and what is still to be typed."""

    def __init__(
        self, number: int, name: str, source: ShellTerminal, log: Log, scratch: str, token: bytes = b""
    ) -> None:
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
        #: Until then, or until the command has ended, there is no news: most commands are over by then.
        self.quiet_until = 0.0
        self.ends = EndMarks(source.pid)
        self.ends.expect(token)

    def expect(self, token: bytes) -> None:
        """A command begins: tell of what it prints as one piece of news, if it ends soon."""
        self.quiet_until = time.monotonic() + _QUIET
        self.ends.expect(token)

    def printed(self, data: bytes) -> list[tuple[int, str]]:
        """The shell printed something; the new files that the log goes on in."""
        self.dirty = True
        ended = self.ends.find(data, self.log.end)
        if _PROMPT_END in data or len(data) >= _MUCH:
            self.quiet_until = 0.0
        elif ended:
            self.quiet_until = time.monotonic() + _PROMPT_QUIET
        return self.log.append(data)

    def describe(self) -> wire.HeldTerminal:
        """What a server has to know of it, which is to find the log as it should be."""
        self.log.check()
        return wire.HeldTerminal(
            number=self.number,
            name=self.name,
            pid=self.source.pid,
            inputs=self.inputs,
            end=self.log.end,
            ends=self.ends.confirmed,
            exited=self.exited,
            status=self.source.status(),
            segments=self.log.segments,
        )
