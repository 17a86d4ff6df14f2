"""Finds the calls in what a model has put out, whichever format it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from glovebox.errors import NotAToolCall
from glovebox.protocol.tools.base import ToolCall, ToolResult
from glovebox.protocol.tools.formats.base import Format
from glovebox.protocol.tools.formats.gemini import GeminiFormat
from glovebox.protocol.tools.formats.providers import (
    AnthropicFormat,
    ChatFormat,
    McpFormat,
    OpenHandsFormat,
    ResponsesFormat,
)

ACCEPTED = (
    "There is no tool call in this. Send one as a model emits it, or a list, a message or a whole response "
    "that holds some: OpenAI Chat Completions (tool_calls), OpenAI Responses (function_call items), "
    "Anthropic (tool_use blocks), Gemini (functionCall parts), MCP (tools/call, or name and arguments), or "
    "OpenHands (tool_call_metadata with its model_response)."
)


class LocatedCall(NamedTuple):
    """A call, and where it was found."""

    format: Format
    item: dict[str, Any]
    call: ToolCall


_CHAT = ChatFormat()
#: The least ambiguous first.
FORMATS: tuple[Format, ...] = (
    OpenHandsFormat(_CHAT),
    _CHAT,
    ResponsesFormat(),
    AnthropicFormat(),
    GeminiFormat(),
    McpFormat(),
)


class Batch:
    """The calls of one turn, and how they are answered."""

    def __init__(self, found: Sequence[LocatedCall], shape: str) -> None:
        """`shape`: one, list or message."""
        self._found = found
        self._shape = shape

    @property
    def calls(self) -> list[ToolCall]:
        return [found.call for found in self._found]

    @property
    def contract(self) -> bool:
        """Whether the answers are observations of the contract."""
        return any(found.format.contract for found in self._found)

    @property
    def metadata(self) -> dict[str, Any]:
        """What OpenHands knows the first call by, with everything that came of this."""
        first = self._found[0]
        came = first.item.get("tool_call_metadata")
        metadata = {"function_name": first.call.name, "tool_call_id": first.call.id}
        return {**metadata, **came} if isinstance(came, dict) else metadata

    def answer(self, results: Sequence[ToolResult]) -> Any:
        """The results, in the calls' order, in the shape that the calls came in."""
        pairs = zip(self._found, results, strict=True)
        answers = [one.format.result(one.item, one.call, result) for one, result in pairs]
        if self._shape == "message":
            return self._found[0].format.append(answers)
        return answers if self._shape == "list" else answers[0]


def read_calls(body: Any) -> Batch:
    """The calls in a body.

    Raises:
        NotAToolCall: there is none.
    """
    if isinstance(body, list):
        found = [one for item in body if (one := _one(item, FORMATS))]
        if found:
            return Batch(found, "list")
    if isinstance(body, dict):
        for format_ in FORMATS:
            found = [one for item in format_.items(body) or () if (one := _one(item, (format_,)))]
            if found:
                return Batch(found, "message")
        if alone := _one(body, FORMATS):
            return Batch([alone], "one")
    raise NotAToolCall(ACCEPTED)


def _one(item: Any, formats: Sequence[Format]) -> LocatedCall | None:
    if isinstance(item, dict):
        for format_ in formats:
            if call := format_.call(item):
                return LocatedCall(format_, item, call)
    return None
