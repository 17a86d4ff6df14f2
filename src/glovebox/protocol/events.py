"""What happens in a box, in order and numbered; and the messages that streams of events carry."""

from __future__ import annotations

from typing import Any, ClassVar

from glovebox.protocol.base import Message
from glovebox.protocol.notebook import CellInfo
from glovebox.protocol.processes import ProcessInfo
from glovebox.protocol.status import PluginState
from glovebox.protocol.terminal import CommandInfo


class Event(Message):
    """Something that happened; `seq` numbers all events of a box from 1, without gaps."""

    event: ClassVar[str]

    seq: int
    time: float
    #: The action it belongs to; empty for what no action caused.
    action_id: str = ""

    @property
    def weight(self) -> int:
        """How many characters it holds, if these may be many."""
        return 0


class ActionStarted(Event):
    """An action was accepted and its handler begins."""

    event: ClassVar[str] = "started"
    action: str


class ActionOutput(Event):
    """Text an action printed.

    `offset` and `end` say which bytes of the output it stands for, so that a client can continue at
    the `end` of the last one after a lost connection: `/commands/{command_id}/output?offset=`.
    """

    event: ClassVar[str] = "output"
    offset: int
    end: int
    text: str
    command_id: str | None = None

    @property
    def weight(self) -> int:
        return len(self.text)


class ActionDisplay(Event):
    """Something an action shows: HTML, an image, JSON. `data` has it by media type, binary as base64."""

    event: ClassVar[str] = "display"
    #: `display_data`, `update_display_data`, `execute_result` or `clear_output`, as in the Jupyter protocol.
    kind: str
    data: dict[str, Any]
    metadata: dict[str, Any] = {}
    display_id: str | None = None

    @property
    def weight(self) -> int:
        return sum(len(value) if isinstance(value, str) else 1000 for value in self.data.values())


class ActionState(Event):
    """What a running command does now: waiting for input, say."""

    event: ClassVar[str] = "state"
    command: CommandInfo


class ActionWaiting(Event):
    """An action waits until the user of its VS Code window has decided; an empty question: the user has."""

    event: ClassVar[str] = "waiting"
    question: str


class CellState(Event):
    """What a cell does now: waiting, running, ended."""

    event: ClassVar[str] = "state"
    cell: CellInfo


class ActionFinished(Event):
    """An action ended: with an observation of that kind, or failed with a code."""

    event: ClassVar[str] = "finished"
    seconds: float
    observation: str | None = None
    error: str | None = None


class CommandFinished(Event):
    """A command ended, with its bill. Its action may have been answered long before."""

    event: ClassVar[str] = "command_ended"
    command: CommandInfo


class ProcessFinished(Event):
    """A process without a session ended, with its bill."""

    event: ClassVar[str] = "process_ended"
    process: ProcessInfo


class SessionChanged(Event):
    """A session was opened, closed, resized, taken over or handed back, or its shell ended or came back."""

    event: ClassVar[str] = "session"
    session: str
    what: str


class KernelChanged(Event):
    """A kernel was started, restarted, interrupted, ended or died."""

    event: ClassVar[str] = "kernel"
    kernel: str
    what: str
    reason: str = ""


class BrowserChanged(Event):
    """The browser was started, has crashed, or ended; or a page asked something, and was answered."""

    event: ClassVar[str] = "browser"
    what: str
    reason: str = ""


class PluginChanged(Event):
    """A plugin started, failed, crashed or stopped."""

    event: ClassVar[str] = "plugin"
    plugin: str
    state: PluginState
    reason: str = ""


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
    """The box was restarted: events begin anew, and some may never have been sent."""

    boot: str
