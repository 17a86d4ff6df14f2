"""Kernels and cells, as events and the box's own endpoints tell of them."""

from __future__ import annotations

from typing import Any, Literal

from glovebox.protocol.base import Message

CellStateName = Literal["waiting", "running", "ended"]
#: How a cell ended: `interrupted` by its time limit or a request, `died` with its kernel.
CellStatus = Literal["ok", "error", "interrupted", "died"]


class CellInfo(Message):
    """A cell, while it runs and after."""

    #: Also the id of its action.
    id: str
    kernel: str
    #: `waiting` for other cells, or for the kernel to start.
    state: CellStateName
    status: CellStatus | None = None
    #: The name of the exception it ended with, or why it was interrupted or died.
    error: str | None = None
    #: What that exception says.
    message: str | None = None
    #: Seconds since 1970.
    accepted: float
    started: float | None = None
    ended: float | None = None
    #: Bytes of text so far.
    output_bytes: int = 0


class CellOutput(Message):
    """Something a cell gave out, in the words of the Jupyter protocol."""

    kind: Literal["stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"]
    #: `stdout` or `stderr`, for a stream.
    name: str = ""
    text: str = ""
    #: Media types and what there is of each: text, or JSON; binary data as base64.
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    display_id: str | None = None
    #: It came after the cell had been answered.
    late: bool = False


class CellRecord(Message):
    """A cell with everything it gave out, late output included."""

    cell: CellInfo
    outputs: list[CellOutput]
    #: Bytes of output that were too much to be kept.
    dropped_bytes: int = 0


class KernelInfo(Message):
    """A kernel."""

    name: str
    #: The kernelspec it was started from, and its language.
    spec: str
    language: str
    state: Literal["starting", "idle", "busy", "dead"]
    pid: int | None = None
    #: Where its interpreter is, if it is Python.
    interpreter: str | None = None
    #: Seconds since 1970.
    created: float
    #: The cell that runs.
    cell: str | None = None
    #: How often it was started again.
    restarts: int = 0
    #: Why the last one ended.
    reason: str | None = None


class KernelSpec(Message):
    """A kind of kernel that is installed."""

    name: str
    display_name: str
    language: str
