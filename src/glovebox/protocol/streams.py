"""What the events of a stream carry."""

from __future__ import annotations

from typing import Any

from glovebox.protocol.base import Message


class Started(Message):
    """An action begins."""

    id: str
    action: str


class Output(Message):
    """Text that was printed; `offset` and `end` say which bytes of the command's output it stands for."""

    offset: int
    end: int
    text: str
    command_id: str | None = None


class Gap(Message):
    """Output that is not kept any more."""

    offset: int
    end: int
    command_id: str | None = None


class Display(Message):
    """Something that is shown: by media type, binary data as base64."""

    kind: str
    data: dict[str, Any]
    metadata: dict[str, Any]
    display_id: str | None = None


class Failure(Message):
    """An action that failed, with what `/execute_action` would have answered."""

    status: int
    code: str
    detail: str
    request_id: str | None = None


class Missed(Message):
    """So many events were dropped before this reader got them."""

    missed: int


class Reset(Message):
    """The box was restarted: events begin anew, and some may never have been told."""

    boot: str
