"""Whatever comes: calls are read or refused, definitions are written, and nothing breaks."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from glovebox.errors import NotAToolCall
from glovebox.protocol.tools.base import ImagePart, TextPart, Tool, ToolCall, ToolResult
from glovebox.protocol.tools.formats.base import make_call
from glovebox.protocol.tools.formats.calls import read_calls
from glovebox.protocol.tools.formats.definitions import COMMON, GEMINI, definitions
from tests.protocol.tools.formats import bodies

keys = st.sampled_from(
    ["id", "type", "function", "name", "arguments", "tool_calls", "function_call", "choices", "message",
     "call_id", "output", "input", "content", "role", "functionCall", "args", "parts", "candidates", "method",
     "params", "tool_call_metadata", "function_name", "tool_call_id", "model_response"]
)  # fmt: skip
words = st.sampled_from(["function", "function_call", "tool_use", "tools/call", "run", "{}", "", "["])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(), inner, max_size=4),
    max_leaves=20,
)
RESULT = ToolResult(parts=[TextPart(text="x"), ImagePart(media_type="image/png", data="AA==")])


@given(json_values)
def test_any_body_holds_calls_or_is_refused(body: Any) -> None:
    try:
        batch = read_calls(body)
    except NotAToolCall:
        return
    assert batch.calls
    assert all(isinstance(call, ToolCall) and (call.name or call.problem) for call in batch.calls)
    msgspec.json.encode(batch.answer([RESULT] * len(batch.calls)))
    msgspec.json.encode(batch.metadata)


@given(st.sampled_from(sorted(bodies.CALLS)), json_values, json_values, json_values)
def test_a_call_of_any_content_has_a_result(kind: str, call_id: Any, name: Any, arguments: Any) -> None:
    batch = read_calls(bodies.CALLS[kind](call_id, name, arguments))
    [call] = batch.calls
    assert call.problem or (call.name == name and isinstance(call.arguments, dict))
    msgspec.json.encode(batch.answer([RESULT]))


@given(st.text())
def test_arguments_of_any_text_are_an_object_or_a_problem(text: str) -> None:
    call = make_call("run", text)
    assert call.problem or isinstance(call.arguments, dict)


@given(st.lists(st.tuples(st.text(max_size=80), json_values), unique_by=lambda one: one[0], max_size=6))
def test_tools_of_any_name_and_schema_can_be_offered(given_tools: list[tuple[str, Any]]) -> None:
    tools = [
        Tool(name=name, description="", input_schema=schema if isinstance(schema, dict) else {})
        for name, schema in given_tools
    ]
    for kind, rule in (("openai", COMMON), ("anthropic", COMMON), ("gemini", GEMINI), ("mcp", None)):
        told = definitions(tools, kind)
        if kind == "openai":
            named = [one["function"]["name"] for one in told]
        elif kind == "anthropic":
            named = [one["name"] for one in told]
        elif kind == "gemini":
            named = [one["name"] for group in told for one in group["functionDeclarations"]]
        else:
            named = [one["name"] for one in told["tools"]]
        assert len(set(named)) == len(tools)
        assert rule is None or all(map(rule.fullmatch, named))
