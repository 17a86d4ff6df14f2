"""What happens in a box, in order. A stream carries these, numbered, and nothing else."""

from __future__ import annotations

from typing import ClassVar

from glovebox.protocol.base import Message
from glovebox.protocol.terminal import CommandInfo


class Event(Message):
    """Something that happened; `seq` numbers all events of a box from 1, without gaps."""

    event: ClassVar[str]

    seq: int
    time: float
    #: The action it belongs to; empty for what no action caused.
    action_id: str = ""


class ActionStarted(Event):
    """An action was accepted and its handler begins."""

    event: ClassVar[str] = "started"
    action: str


class ActionOutput(Event):
    """Text an action printed.

    `offset` and `end` say which bytes of the output it stands for, so that whoever lost the connection can go
    on at the `end` of the last one: `/commands/{command_id}/output?offset=`.
    """

    event: ClassVar[str] = "output"
    offset: int
    end: int
    text: str
    command_id: str | None = None


class ActionState(Event):
    """What a running command does now: waiting for input, say."""

    event: ClassVar[str] = "state"
    command: CommandInfo


class ActionFinished(Event):
    """An action ended: with an observation of that kind, or failed with a code."""

    event: ClassVar[str] = "finished"
    seconds: float
    observation: str | None = None
    error: str | None = None


class CommandEnded(Event):
    """A command ended, with its bill. The action that asked for it may have been answered long before."""

    event: ClassVar[str] = "command_ended"
    command: CommandInfo


class SessionChanged(Event):
    """A session was opened, closed, resized, taken over or handed back, or its shell ended or came back."""

    event: ClassVar[str] = "session"
    session: str
    what: str
