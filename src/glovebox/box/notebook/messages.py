"""Messages of the Jupyter protocol as outputs of cells and as the text of an observation. No I/O."""

from __future__ import annotations

import re
import signal
from typing import Any, Literal, NamedTuple

from glovebox.protocol.notebook import CellOutput

#: The content of the observation of a cell without output.
NO_OUTPUT = "[Code executed successfully with no output]"
#: Colours and the like, of up to three numbers, are for terminals; the contract removes no other sequences.
_COLOURS = re.compile(r"\x1b\[\d+(?:;\d+){0,2}m")
_PNG = "image/png"
_PLAIN = "text/plain"


class Incoming(NamedTuple):
    """A message of a kernel."""

    kind: str
    #: The id of the request that caused it.
    parent: str
    content: dict[str, Any]

    @property
    def idle(self) -> bool:
        """Whether it says that all other messages of its request were sent."""
        return self.kind == "status" and self.content.get("execution_state") == "idle"


def output_of(message: Incoming, *, late: bool) -> CellOutput | None:
    """The output in a message; None for messages without one."""
    content = message.content
    match message.kind:
        case "stream":
            return CellOutput(
                kind="stream",
                name=_text(content.get("name")),
                text=_text(content.get("text")),
                late=late,
            )
        case "display_data" | "update_display_data" | "execute_result":
            return _display(message.kind, content, late)
        case "error":
            traceback = "\n".join(map(_text, content.get("traceback") or ()))
            return CellOutput(kind="error", name=_text(content.get("ename")), text=traceback, late=late)
        case "clear_output":
            return CellOutput(kind="clear_output", metadata={"wait": bool(content.get("wait"))}, late=late)
        case _:
            return None


def _display(
    kind: Literal["display_data", "update_display_data", "execute_result"],
    content: dict[str, Any],
    late: bool,
) -> CellOutput:
    data = {name: _join_lines(value) for name, value in _mapping(content.get("data")).items()}
    identity = _mapping(content.get("transient")).get("display_id")
    return CellOutput(
        kind=kind,
        text=_text(data.get(_PLAIN)) if kind != "update_display_data" else "",
        data=data,
        metadata=_mapping(content.get("metadata")),
        display_id=identity if isinstance(identity, str) else None,
        late=late,
    )


def is_rich(output: CellOutput) -> bool:
    """Whether it has more than text."""
    if output.kind in ("stream", "error"):
        return False
    return output.kind in ("update_display_data", "clear_output") or output.data.keys() != {_PLAIN}


def size_of(output: CellOutput) -> int:
    """About how many bytes an output takes in memory."""
    shown = sum(len(value) if isinstance(value, str) else len(repr(value)) for value in output.data.values())
    return 200 + shown + (0 if output.data else len(output.text))


class ObservedOutput:
    """The text and the images of a cell, for its observation."""

    def __init__(self) -> None:
        self.images: list[str] = []
        self._parts: list[str] = []
        self._failed = False

    def add(self, output: CellOutput) -> None:
        """Add an output. In the contract, nothing counts that comes after a traceback."""
        if self._failed:
            return
        if output.kind in ("stream", "display_data", "execute_result", "error") and output.text:
            self._parts.append(output.text)
        if output.kind in ("display_data", "execute_result") and output.data.get(_PNG):
            self.images.append(f"data:{_PNG};base64,{output.data[_PNG]}")
        self._failed = output.kind == "error"

    def text(self) -> str:
        """All text, without colours. Slow if it is long."""
        text = "".join(self._parts)
        return _COLOURS.sub("", text) if "\x1b" in text else text

    @property
    def length(self) -> int:
        return sum(map(len, self._parts))


def content_of(text: str, notes: list[str], cwd: str, interpreter: str | None, *, extra: bool) -> str:
    """The content of an observation: the text, notes about the kernel, and two lines of `extra`."""
    content = text.rstrip()
    for note in notes:
        content = f"{content}\n{note}" if content else note
    if extra:
        content += f"\n[Jupyter current working directory: {cwd}]"
        if interpreter is not None:
            content += f"\n[Jupyter Python interpreter: {interpreter}]"
    return content


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _join_lines(value: Any) -> Any:
    """Text may come in lines, as in notebook files."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_STATUSES = {126: "not executable", 127: "not found"}


def describe_status(status: int | None, out_of_memory: str | None = None) -> str:
    """An exit status for people: 128 + signal means killed, and `out_of_memory` says why."""
    if status is None:
        return "it is not known how"
    if status > 128:
        number = status - 128
        try:
            name = f" ({signal.Signals(number).name})"
        except ValueError:
            name = ""
        if number == signal.SIGKILL:
            name += f". {out_of_memory.rstrip('.')}" if out_of_memory else ", possibly for lack of memory"
        return f"killed by signal {number}{name}"
    meaning = f" ({_STATUSES[status]})" if status in _STATUSES else ""
    return f"exit status {status}{meaning}"


def died_in_cell(reason: str) -> str:
    """For the cell that a kernel died with."""
    return (
        f"[The kernel died while it ran this cell: {reason}. "
        "The next cell starts a new kernel; its variables are gone.]"
    )


def stopped_in_cell(what: str) -> str:
    """For the cell that ran when the kernel was ended or restarted over the API."""
    return f"[The kernel was {what} while it ran this cell; its variables are gone.]"


def ended_before_cell(reason: str) -> str:
    """For the first cell after an end that no earlier cell has mentioned."""
    return (
        f"[The kernel had ended before this cell: {reason}. "
        "This cell ran in a new kernel; earlier variables are gone.]"
    )


def timed_out(seconds: float) -> str:
    """For a cell that took too long, in the words of the contract."""
    return f"[Execution timed out ({float(seconds)} seconds).]"


ENDED_BY_CELL = "[The cell ended the kernel. The next cell starts a new kernel; its variables are gone.]"
STILL_BUSY = "[The kernel was busy with another cell all the time, and this one was not run.]"
NOT_STARTED = "[The kernel was still starting, and this cell was not run.]"
STILL_RUNNING = "[The cell does not stop, though it was interrupted; the next one waits for it.]"
