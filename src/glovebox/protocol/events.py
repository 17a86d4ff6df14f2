"""What happens in a box, in order. A stream carries these, numbered, and nothing else."""

from __future__ import annotations

from typing import ClassVar

from glovebox.protocol.base import Message


class Event(Message):
    """Something that happened; `seq` numbers all events of a box from 1, without gaps."""

    event: ClassVar[str]

    seq: int
    time: float
    action_id: str


class ActionStarted(Event):
    """An action was accepted and its handler begins."""

    event: ClassVar[str] = "started"
    action: str


class ActionOutput(Event):
    """Text an action printed; `offset` counts the characters it printed before."""

    event: ClassVar[str] = "output"
    offset: int
    text: str


class ActionFinished(Event):
    """An action ended: with an observation of that kind, or failed with a code."""

    event: ClassVar[str] = "finished"
    seconds: float
    observation: str | None = None
    error: str | None = None
