"""The formats of OpenAI, Anthropic, the Model Context Protocol and OpenHands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glovebox.protocol.observations import ErrorObservation, SuccessObservation
from glovebox.protocol.openhands import encode_observation
from glovebox.protocol.tools.base import TextPart, Tool, ToolCall, ToolResult
from glovebox.protocol.tools.formats.base import (
    COMMON_IMAGES,
    NOTHING,
    Format,
    NamedTool,
    left_out,
    make_call,
    object_schema,
    split,
)


class ChatFormat(Format):
    """OpenAI's Chat Completions, which many other providers use too."""

    def define(self, tools: Sequence[NamedTool]) -> list[dict[str, Any]]:
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": tool.description,
                    "parameters": object_schema(tool.input_schema),
                },
            }
            for name, tool in tools
        ]

    def items(self, body: dict[str, Any]) -> list[Any] | None:
        choices = body.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            message = choices[0].get("message")
            return self.items(message) if isinstance(message, dict) else None
        calls = body.get("tool_calls")
        if isinstance(calls, list):
            return calls
        return [{"function_call": body["function_call"]}] if _is_legacy(body) else None

    def call(self, item: dict[str, Any]) -> ToolCall | None:
        if _is_legacy(item):
            legacy = item["function_call"]
            return make_call(legacy.get("name"), legacy["arguments"])
        if item.get("type", "function") not in ("function", None) or "function" not in item:
            return None
        function = item["function"]
        if not isinstance(function, dict):
            return make_call(None, None, item.get("id"))
        if "arguments" not in function and "parameters" in function:
            return None  # the definition of a tool
        return make_call(function.get("name"), function.get("arguments"), item.get("id"))

    def result(self, item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
        """A message, which holds text only."""
        text, _ = split(result, ())
        if _is_legacy(item):
            return {"role": "function", "name": call.name, "content": text}
        return {"role": "tool", "tool_call_id": call.id, "content": text}


def _is_legacy(item: dict[str, Any]) -> bool:
    legacy = item.get("function_call")
    return isinstance(legacy, dict) and "arguments" in legacy


class ResponsesFormat(Format):
    """OpenAI's Responses."""

    def define(self, tools: Sequence[NamedTool]) -> list[dict[str, Any]]:
        return [
            {
                "type": "function",
                "name": name,
                "description": tool.description,
                "parameters": object_schema(tool.input_schema),
                "strict": False,  # else optional arguments would be made required ones
            }
            for name, tool in tools
        ]

    def items(self, body: dict[str, Any]) -> list[Any] | None:
        output = body.get("output")
        return output if isinstance(output, list) else None

    def call(self, item: dict[str, Any]) -> ToolCall | None:
        if item.get("type") != "function_call":  # reasoning, for example
            return None
        return make_call(item.get("name"), item.get("arguments"), item.get("call_id"))

    def result(self, item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
        """Text, or parts if there are pictures."""
        text, images = split(result, COMMON_IMAGES)
        parts: list[dict[str, Any]] = [{"type": "input_text", "text": text}] if text.strip() else []
        for image in images:
            url = f"data:{image.media_type};base64,{image.data}"
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
        return {"type": "function_call_output", "call_id": call.id, "output": parts if images else text}


#: Tools that Anthropic's models were trained with, by the tool of the box that each replaces.
BUILT_IN = {
    "run": {"type": "bash_20250124", "name": "bash"},
    "edit": {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
}


class AnthropicFormat(Format):
    """Anthropic's Messages."""

    def define(self, tools: Sequence[NamedTool], *, builtin: bool = False) -> list[dict[str, Any]]:
        return [
            dict(BUILT_IN[tool.name])
            if builtin and tool.name in BUILT_IN
            else {
                "name": name,
                "description": tool.description,
                "input_schema": object_schema(tool.input_schema),
            }
            for name, tool in tools
        ]

    def items(self, body: dict[str, Any]) -> list[Any] | None:
        content = body.get("content")
        return content if isinstance(content, list) else None

    def call(self, item: dict[str, Any]) -> ToolCall | None:
        if item.get("type") != "tool_use":  # text, for example
            return None
        return make_call(item.get("name"), item.get("input"), item.get("id"))

    def result(self, item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        for part in result.parts:
            if isinstance(part, TextPart):
                content.append({"type": "text", "text": part.text})
            elif part.media_type in COMMON_IMAGES:
                source = {"type": "base64", "media_type": part.media_type, "data": part.data}
                content.append({"type": "image", "source": source})
            else:
                content.append({"type": "text", "text": left_out(part)})
        # The API refuses text blocks without text.
        content = [block for block in content if block["type"] != "text" or block["text"].strip()]
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": content or [{"type": "text", "text": NOTHING}],
        }
        if result.is_error:
            block["is_error"] = True
        return block

    def append(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        return {"role": "user", "content": results}


class McpFormat(Format):
    """The Model Context Protocol, with or without the envelope of JSON-RPC."""

    def define(self, tools: Sequence[NamedTool]) -> dict[str, Any]:
        return {"tools": [_mcp_tool(name, tool) for name, tool in tools]}

    def call(self, item: dict[str, Any]) -> ToolCall | None:
        """The request `tools/call`, or its parameters alone."""
        if item.get("method") == "tools/call":
            params = item.get("params")
            params = params if isinstance(params, dict) else {}
            return make_call(params.get("name"), params.get("arguments"), item.get("id"))
        if isinstance(item.get("name"), str) and "arguments" in item:
            return make_call(item["name"], item["arguments"])
        return None

    def result(self, item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
        """A `CallToolResult`; a request of JSON-RPC with an id gets its response."""
        answer: dict[str, Any] = {
            "content": [
                {"type": "text", "text": part.text}
                if isinstance(part, TextPart)
                else {"type": "image", "data": part.data, "mimeType": part.media_type}
                for part in result.parts
            ]
        }
        if result.structured is not None:
            answer["structuredContent"] = result.structured
        answer["isError"] = result.is_error
        if "method" in item and item.get("id") is not None:
            return {"jsonrpc": "2.0", "id": item["id"], "result": answer}
        return answer


def _mcp_tool(name: str, tool: Tool) -> dict[str, Any]:
    defined: dict[str, Any] = {"name": name}
    if tool.title:
        defined["title"] = tool.title
    defined["description"] = tool.description
    defined["inputSchema"] = tool.input_schema
    defined["annotations"] = {
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent,
        "openWorldHint": tool.open_world,
    }
    return defined


class OpenHandsFormat(Format):
    """An event of OpenHands, whose metadata names a call in the model's response that comes with it."""

    contract = True

    def __init__(self, chat: ChatFormat) -> None:
        self._chat = chat

    def call(self, item: dict[str, Any]) -> ToolCall | None:
        metadata = item.get("tool_call_metadata")
        if not isinstance(metadata, dict):
            return None
        name, call_id = metadata.get("function_name"), metadata.get("tool_call_id")
        for one in self._calls(metadata.get("model_response")):
            if one.id == call_id and name in (None, one.name):
                return one
        named = make_call(name, None, call_id)
        problem = (
            f"The model_response holds no call of {name} with the id {call_id!r}, "
            "so its arguments are unknown."
        )
        return ToolCall(name=named.name, id=named.id, problem=named.problem or problem)

    def _calls(self, response: Any) -> list[ToolCall]:
        choices = response.get("choices") if isinstance(response, dict) else None
        found: list[ToolCall] = []
        for choice in choices if isinstance(choices, list) else ():
            message = choice.get("message") if isinstance(choice, dict) else None
            calls = self._chat.items(message) if isinstance(message, dict) else None
            found += [
                one for item in calls or () if isinstance(item, dict) and (one := self._chat.call(item))
            ]
        return found

    def result(self, item: dict[str, Any], call: ToolCall, result: ToolResult) -> dict[str, Any]:
        """The observation as an event, with the metadata of the call."""
        kind = ErrorObservation if result.is_error else SuccessObservation
        observation = result.observation or kind(content=result.text)
        envelope = encode_observation(observation)
        return {**envelope, "tool_call_metadata": item["tool_call_metadata"]}
