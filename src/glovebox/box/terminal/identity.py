"""What has to be known of a shell and its command to find the way in again after a restart of the server."""

from __future__ import annotations

import msgspec

from glovebox.box.terminal.run import Printed
from glovebox.protocol.base import Message


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
