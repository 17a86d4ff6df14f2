"""A command in a shell, from the moment it is typed until the shell is ready for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from glovebox.box.terminal.output.buffer import OutputBuffer
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.protocol.base import Message

#: `printed(data, offset)`: the command printed something, at this place of the log.
Printed = Callable[[bytes, int], None]


class ShellEnd(msgspec.Struct, frozen=True):
    """The shell itself is gone; its status, if known."""

    status: int | None


class Run:
    """What a shell knows of a command."""

    def __init__(
        self,
        token: str,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[bytes], None],
        printed: Printed | None = None,
    ) -> None:
        self.token = token
        #: Type something for the command.
        self.send = send
        #: What has not been reported yet.
        self.output = OutputBuffer()
        #: What background jobs had printed before it began.
        self.before = OutputBuffer()
        self.last_output = loop.time()
        self.ended: asyncio.Future[EndReport | ShellEnd] = loop.create_future()
        #: Whether the shell has begun with it.
        self.begun = False
        #: Whether the shell has been reminded of its hooks; once is enough.
        self.repaired = False
        #: Looks at a shell that has told the end, without the mark having come.
        self.looks = 0
        #: Whether it may have taken all our hooks away, so that its end must be looked for.
        self.suspect = False
        #: Where in the log its output begins, once it does.
        self.start: int | None = None
        self.printed = printed
        self._loop = loop

    @property
    def missed(self) -> bool:
        """Whether the shell was gone before it could begin."""
        return not self.begun and self.ended.done() and isinstance(self.ended.result(), ShellEnd)

    def begin(self, offset: int) -> None:
        """The shell begins with it; output comes from this place of the log on."""
        self.begun = True
        self.start = offset

    def add(self, data: bytes, offset: int) -> None:
        self.last_output = self._loop.time()
        if self.printed is not None:
            self.printed(data, offset)
        self.output.append(data)


class Identity(Message):
    """What a server has to remember of a shell to find its way in again."""

    #: The terminal's number.
    number: int
    session_token: str
    start_token: str
    #: The directory with the command file.
    directory: str
    #: Where in the log it begins.
    position: int
    #: Whether its end marks can be told from those of other programs.
    signs: bool = True


class Typed(msgspec.Struct, frozen=True):
    """The last command that an earlier server gave to a shell."""

    token: str
    #: The number of the input that ran it.
    input_number: int
    #: Where the log was then.
    position: int
    printed: Printed | None
