"""A tool, a call of it and its result, in no provider's format."""

from __future__ import annotations

from typing import Any

from glovebox.protocol.base import Message, Observation


class Tool(Message):
    """Something that a model can call."""

    name: str
    description: str
    #: A JSON schema of an object.
    input_schema: dict[str, Any]
    #: A few words for people.
    title: str = ""
    #: It changes nothing.
    read_only: bool = False
    #: It may remove or overwrite something.
    destructive: bool = True
    #: Calling it again with the same arguments changes nothing more.
    idempotent: bool = False
    #: It reaches beyond the box.
    open_world: bool = False


class ToolCall(Message):
    """A call, as a model made it."""

    name: str
    arguments: dict[str, Any] = {}
    #: What its result has to name; empty if the format has none.
    id: str = ""
    #: Why the arguments could not be read: the result of the call says so.
    problem: str = ""


class TextPart(Message, tag="text"):
    """A piece of text."""

    text: str


class ImagePart(Message, tag="image"):
    """A picture, in base64."""

    media_type: str
    data: str


Part = TextPart | ImagePart


class ToolResult(Message):
    """What a call came to."""

    parts: list[Part]
    is_error: bool = False
    #: What the box observed; None if the call never became an action.
    observation: Observation | None = None
    #: What a tool of an MCP server gave besides text.
    structured: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))
