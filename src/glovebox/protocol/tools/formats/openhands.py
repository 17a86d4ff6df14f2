"""OpenHands: a call is named by an event's metadata, and is in the model's response that came with it."""

from __future__ import annotations

from typing import Any

from glovebox.protocol.base import Observation
from glovebox.protocol.observations import ErrorObservation, SuccessObservation
from glovebox.protocol.openhands import Codec
from glovebox.protocol.tools.base import ToolCall, ToolResult
from glovebox.protocol.tools.formats import chat
from glovebox.protocol.tools.formats.arguments import make_call

_CODEC = Codec()


def items(body: dict[str, Any]) -> list[Any] | None:
    """An event names one call only."""
    return None


def call(item: dict[str, Any]) -> ToolCall | None:
    """The call that an event's `tool_call_metadata` names."""
    metadata = item.get("tool_call_metadata")
    if not isinstance(metadata, dict):
        return None
    name, call_id = metadata.get("function_name"), metadata.get("tool_call_id")
    for one in _calls(metadata.get("model_response")):
        if one.id == call_id and name in (None, one.name):
            return one
    named = make_call(name, None, call_id)
    problem = (
        f"The model_response holds no call of {name} with the id {call_id!r}, so its arguments are unknown."
    )
    return ToolCall(name=named.name, id=named.id, problem=named.problem or problem)


def _calls(response: Any) -> list[ToolCall]:
    choices = response.get("choices") if isinstance(response, dict) else None
    found: list[ToolCall] = []
    for choice in choices if isinstance(choices, list) else ():
        message = choice.get("message") if isinstance(choice, dict) else None
        calls = chat.items(message) if isinstance(message, dict) else None
        found += [one for item in calls or () if isinstance(item, dict) and (one := chat.call(item))]
    return found


def result(item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The event that answers: what was observed, and the metadata that came."""
    observation = result.observation or _observed(result)
    return {**_CODEC.encode_observation(observation), "tool_call_metadata": item["tool_call_metadata"]}


def _observed(result: ToolResult) -> Observation:
    """What is said of a call that never became an action."""
    return (ErrorObservation if result.is_error else SuccessObservation)(content=result.text)


def appended(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All results."""
    return results
