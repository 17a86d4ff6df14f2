"""What kernels say in the Jupyter protocol, as outputs of cells and as the text of an observation. No I/O."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from glovebox.protocol.notebook import CellOutput

#: What an observation says of a cell that gave out nothing.
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
        """Whether it says that everything the request caused has been told."""
        return self.kind == "status" and self.content.get("execution_state") == "idle"


def output_of(message: Incoming, *, late: bool) -> CellOutput | None:
    """What a message gives out; None for those that are about something else."""
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
    data = {name: _joined(value) for name, value in _mapping(content.get("data")).items()}
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
    """Whether there is more to show than its text."""
    if output.kind in ("stream", "error"):
        return False
    return output.kind in ("update_display_data", "clear_output") or output.data.keys() != {_PLAIN}


def size_of(output: CellOutput) -> int:
    """About how many bytes it takes to keep an output."""
    shown = sum(len(value) if isinstance(value, str) else len(repr(value)) for value in output.data.values())
    return 200 + shown + (0 if output.data else len(output.text))


class Gathered:
    """The text and the images of an observation, as they come."""

    def __init__(self) -> None:
        self.images: list[str] = []
        self._parts: list[str] = []
        self._failed = False

    def add(self, output: CellOutput) -> None:
        """Take an output. With the contract, nothing counts that comes after a traceback."""
        if self._failed:
            return
        if output.kind in ("stream", "display_data", "execute_result", "error") and output.text:
            self._parts.append(output.text)
        if output.kind in ("display_data", "execute_result") and output.data.get(_PNG):
            self.images.append(f"data:{_PNG};base64,{output.data[_PNG]}")
        self._failed = output.kind == "error"

    def text(self) -> str:
        """All of it, without colours. May take long if it is long."""
        text = "".join(self._parts)
        return _COLOURS.sub("", text) if "\x1b" in text else text

    @property
    def length(self) -> int:
        """How many characters the text has."""
        return sum(map(len, self._parts))


def content_of(text: str, notes: list[str], cwd: str, interpreter: str | None, *, extra: bool) -> str:
    """The content of an observation: the text, what there is to say about the kernel, and two lines."""
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


def _joined(value: Any) -> Any:
    """Text may come in lines, as in notebook files."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
