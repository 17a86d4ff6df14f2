"""What models put out, as their makers' documentation shows it: each asks for `run` with the same command."""

from __future__ import annotations

import json
from typing import Any


def chat_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def chat_message(*calls: dict[str, Any]) -> dict[str, Any]:
    return {
        "role": "assistant", "content": None, "refusal": None, "annotations": [], "audio": None,
        "function_call": None, "tool_calls": list(calls),
    }  # fmt: skip


def chat_response(*calls: dict[str, Any]) -> dict[str, Any]:
    choice = {
        "index": 0, "message": chat_message(*calls), "logprobs": None, "finish_reason": "tool_calls"
    }  # fmt: skip
    usage = {"prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99}
    return {
        "id": "chatcmpl-abc123", "object": "chat.completion", "created": 1699896916, "model": "gpt-4.1",
        "choices": [choice], "usage": usage,
    }  # fmt: skip


def responses_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": text,
        "status": "completed",
    }  # fmt: skip


def responses_response(*calls: dict[str, Any]) -> dict[str, Any]:
    message = {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
    }  # fmt: skip
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    return {
        "id": "resp_1", "object": "response", "created_at": 1741476542, "status": "completed", "error": None,
        "model": "gpt-5", "output": [reasoning, message, *calls], "tools": [], "usage": {"total_tokens": 123},
    }  # fmt: skip


def anthropic_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def anthropic_message(*calls: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "text", "text": "I'll run it."}
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "EqQBCgIYAhIM"}
    return {"role": "assistant", "content": [thinking, text, *calls]}


def anthropic_response(*calls: dict[str, Any]) -> dict[str, Any]:
    return {
        **anthropic_message(*calls), "id": "msg_01Aq9w938a90dw8q", "type": "message",
        "model": "claude-sonnet-4-5", "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 472, "output_tokens": 89},
    }  # fmt: skip


def gemini_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    call = {"name": name, "args": arguments}
    return {"functionCall": {"id": call_id, **call} if call_id else call}


def gemini_content(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": [{"text": "I'll run it.", "thoughtSignature": "Cg=="}, *calls]}


def gemini_response(*calls: dict[str, Any]) -> dict[str, Any]:
    candidate = {"content": gemini_content(*calls), "finishReason": "STOP", "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": {"totalTokenCount": 70},
        "modelVersion": "gemini-2.5-pro",
    }


def mcp_call(call_id: Any, name: str, arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": call_id, "method": "tools/call", "params": params}


def openhands_event(call_id: str, name: str, arguments: Any, *others: dict[str, Any]) -> dict[str, Any]:
    response = chat_response(chat_call(call_id, name, arguments), *others)
    metadata = {
        "function_name": name, "tool_call_id": call_id, "model_response": response,
        "total_calls_in_response": 1 + len(others),
    }  # fmt: skip
    return {"id": 7, "source": "agent", "tool_call_metadata": metadata}


#: One call, in each format that has one.
CALLS = {
    "chat": chat_call, "responses": responses_call, "anthropic": anthropic_call, "gemini": gemini_call,
    "mcp": mcp_call, "openhands": openhands_event,
}  # fmt: skip
