"""Calls as each provider's models write them, and results as it takes them."""

from __future__ import annotations

from typing import Any

import pytest

from glovebox.errors import NotAToolCall
from glovebox.protocol.observations import ErrorObservation, FileReadObservation
from glovebox.protocol.tools.base import ImagePart, TextPart, ToolCall, ToolResult
from glovebox.protocol.tools.formats.calls import Batch, read_calls
from tests.protocol.tools.formats import bodies

ARGUMENTS = {"command": "ls ä"}
CALL = ToolCall(name="run", arguments=ARGUMENTS, id="c1")
PIXEL = "iVBORw0KGgo="
OUTPUT = ToolResult(parts=[TextPart(text="two\nlines")])
FAILURE = ToolResult(parts=[TextPart(text="No such file.")], is_error=True)
EMPTY = ToolResult(parts=[TextPart(text="")])
PICTURE = ToolResult(parts=[TextPart(text="A page."), ImagePart(media_type="image/png", data=PIXEL)])
ODD_PICTURE = ToolResult(parts=[ImagePart(media_type="image/svg+xml", data="PHN2Zz4=")])


def answered(body: Any, *results: ToolResult) -> Any:
    return read_calls(body).answer(results)


def chat(text: str, call_id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@pytest.mark.parametrize("kind", bodies.CALLS)
def test_one_call_is_read_in_every_format(kind: str) -> None:
    assert read_calls(bodies.CALLS[kind]("c1", "run", ARGUMENTS)).calls == [CALL]


@pytest.mark.parametrize(
    "body",
    [
        bodies.chat_message(bodies.chat_call("c1", "run", ARGUMENTS)),
        bodies.chat_response(bodies.chat_call("c1", "run", ARGUMENTS)),
        [bodies.chat_call("c1", "run", ARGUMENTS)],
        {"id": "c1", "function": {"name": "run", "arguments": ARGUMENTS}},
        bodies.responses_response(bodies.responses_call("c1", "run", ARGUMENTS)),
        bodies.responses_response(bodies.responses_call("c1", "run", ARGUMENTS))["output"],
        bodies.anthropic_message(bodies.anthropic_call("c1", "run", ARGUMENTS)),
        bodies.anthropic_response(bodies.anthropic_call("c1", "run", ARGUMENTS)),
        bodies.anthropic_message(bodies.anthropic_call("c1", "run", ARGUMENTS))["content"],
        bodies.gemini_content(bodies.gemini_call("c1", "run", ARGUMENTS)),
        bodies.gemini_response(bodies.gemini_call("c1", "run", ARGUMENTS)),
        bodies.gemini_response(bodies.gemini_call("c1", "run", ARGUMENTS))["candidates"][0],
        bodies.gemini_content(bodies.gemini_call("c1", "run", ARGUMENTS))["parts"],
        {"function_call": {"id": "c1", "name": "run", "args": ARGUMENTS}},
        {"id": "c1", "name": "run", "args": ARGUMENTS},
    ],
)
def test_calls_are_found_wherever_models_put_them(body: Any) -> None:
    assert read_calls(body).calls == [CALL]


def test_calls_without_an_id_have_none() -> None:
    bare = ToolCall(name="run", arguments=ARGUMENTS)
    legacy = {"name": "run", "arguments": '{"command": "ls ä"}'}
    for body in (
        {"name": "run", "arguments": ARGUMENTS},
        legacy,
        {"method": "tools/call", "params": {"name": "run", "arguments": ARGUMENTS}},
        {"functionCall": {"name": "run", "args": ARGUMENTS}},
        {"role": "assistant", "content": None, "function_call": legacy},
    ):
        assert read_calls(body).calls == [bare]


def test_chat_completions_are_answered_with_messages_of_tools() -> None:
    one, two = (bodies.chat_call(name, "run", ARGUMENTS) for name in ("c1", "c2"))
    assert answered(one, OUTPUT) == chat("two\nlines")
    assert answered([one, two], OUTPUT, FAILURE) == [chat("two\nlines"), chat("No such file.", "c2")]
    expected = [chat("two\nlines"), chat("No such file.", "c2")]
    assert answered(bodies.chat_message(one, two), OUTPUT, FAILURE) == expected
    assert answered(bodies.chat_response(one, two), OUTPUT, FAILURE) == expected
    assert answered(one, EMPTY) == chat("(no output)")
    legacy = {"role": "assistant", "function_call": {"name": "run", "arguments": "{}"}}
    assert answered(legacy, OUTPUT) == [{"role": "function", "name": "run", "content": "two\nlines"}]


def test_a_message_of_a_tool_holds_no_picture_and_says_so() -> None:
    told = answered(bodies.chat_call("c1", "read", {"path": "a.png"}), PICTURE)["content"]
    assert told.startswith("A page.\n[A picture (image/png) ")
    assert PIXEL not in told


def test_responses_are_answered_with_outputs() -> None:
    call = bodies.responses_call("c1", "run", ARGUMENTS)
    output = {"type": "function_call_output", "call_id": "c1", "output": "two\nlines"}
    assert answered(call, OUTPUT) == output
    assert answered(bodies.responses_response(call), OUTPUT) == [output]
    assert answered(call, EMPTY)["output"] == "(no output)"
    assert answered(call, PICTURE)["output"] == [
        {"type": "input_text", "text": "A page."},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
    ]
    assert "image/svg+xml" in answered(call, ODD_PICTURE)["output"]


def test_anthropic_is_answered_with_blocks_in_a_users_message() -> None:
    one, two = (bodies.anthropic_call(name, "run", ARGUMENTS) for name in ("c1", "c2"))
    first = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "two\nlines"}]}
    second = {
        "type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "No such file."}],
        "is_error": True,
    }  # fmt: skip
    assert answered(one, OUTPUT) == first
    assert answered([one, two], OUTPUT, FAILURE) == [first, second]
    for body in (bodies.anthropic_message(one, two), bodies.anthropic_response(one, two)):
        assert answered(body, OUTPUT, FAILURE) == {"role": "user", "content": [first, second]}
    assert answered(one, EMPTY)["content"] == [{"type": "text", "text": "(no output)"}]
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert answered(one, PICTURE)["content"] == [
        {"type": "text", "text": "A page."}, {"type": "image", "source": source},
    ]  # fmt: skip
    [told] = answered(one, ODD_PICTURE)["content"]
    assert "image/svg+xml" in told["text"]


def test_gemini_is_answered_with_parts_in_a_users_content() -> None:
    one, two = bodies.gemini_call("", "run", ARGUMENTS), bodies.gemini_call("c2", "read", {})
    first = {"functionResponse": {"name": "run", "response": {"output": "two\nlines"}}}
    second = {"functionResponse": {"id": "c2", "name": "read", "response": {"error": "No such file."}}}
    assert answered(one, OUTPUT) == first
    assert answered([one, two], OUTPUT, FAILURE) == [first, second]
    assert answered(bodies.gemini_response(one, two), OUTPUT, FAILURE) == {
        "role": "user", "parts": [first, second],
    }  # fmt: skip
    picture = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    shown = {"name": "run", "response": {"output": "A page."}}
    assert answered(one, PICTURE) == {"functionResponse": {**shown, "parts": [picture]}}
    parts = answered(bodies.gemini_content(one, two), PICTURE, OUTPUT)["parts"]
    assert parts[:2] == [{"functionResponse": shown}, picture]
    assert parts[2]["functionResponse"]["id"] == "c2"


def test_mcp_is_answered_with_the_result_of_a_call() -> None:
    bare, request = {"name": "run", "arguments": {}}, bodies.mcp_call(5, "run", ARGUMENTS)
    text = {"content": [{"type": "text", "text": "two\nlines"}], "isError": False}
    assert answered(bare, OUTPUT) == text
    assert answered(request, OUTPUT) == {"jsonrpc": "2.0", "id": 5, "result": text}
    assert answered([request], OUTPUT) == [{"jsonrpc": "2.0", "id": 5, "result": text}]
    assert answered(bodies.mcp_call(None, "run", {}), FAILURE)["isError"] is True
    assert answered(bare, ODD_PICTURE)["content"] == [
        {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"}
    ]
    structured = ToolResult(parts=[], structured={"a": 1})
    assert answered(bare, structured) == {"content": [], "structuredContent": {"a": 1}, "isError": False}


def test_openhands_is_answered_with_the_observation_and_its_metadata() -> None:
    event = bodies.openhands_event("c1", "run", ARGUMENTS, bodies.chat_call("c2", "read", {"path": "a"}))
    seen = FileReadObservation(content="text", path="/a")
    told = answered(event, ToolResult(parts=[TextPart(text="text")], observation=seen))
    assert told["observation"] == "read"
    assert told["extras"]["path"] == "/a"
    assert told["tool_call_metadata"] == event["tool_call_metadata"]
    assert answered(event, FAILURE)["observation"] == ErrorObservation.observation
    assert answered(event, FAILURE)["content"] == "No such file."
    assert answered(event, OUTPUT)["observation"] == "success"


def test_an_event_of_openhands_whose_call_is_missing_is_a_call_with_a_problem() -> None:
    event = bodies.openhands_event("c1", "run", ARGUMENTS)
    event["tool_call_metadata"]["tool_call_id"] = "other"
    [call] = read_calls(event).calls
    assert (call.name, call.id) == ("run", "other")
    assert "no call of run with the id 'other'" in call.problem


def test_a_call_that_cannot_be_read_keeps_its_place_among_the_others() -> None:
    good, bad = bodies.chat_call("c1", "run", ARGUMENTS), bodies.chat_call("c2", "run", '{"command": "l')
    nameless = {"id": "c3", "type": "function", "function": None}
    calls = read_calls(bodies.chat_message(good, bad, nameless, good)).calls
    assert [bool(call.problem) for call in calls] == [False, True, True, False]
    assert [call.id for call in calls] == ["c1", "c2", "c3", "c1"]


def test_calls_of_several_formats_in_one_list_are_answered_in_their_own() -> None:
    told = answered([make("c1", "run", ARGUMENTS) for make in bodies.CALLS.values()], *[OUTPUT] * 6)
    assert [sorted(one)[0] for one in told] == [
        "content", "call_id", "content", "functionResponse", "id", "content"
    ]  # fmt: skip


def test_what_is_no_call_of_a_function_is_left_to_whoever_knows_it() -> None:
    custom = {"id": "x", "type": "custom", "custom": {"name": "code_exec", "input": "1"}}
    assert len(read_calls(bodies.chat_message(custom, bodies.chat_call("c1", "run", {}))).calls) == 1
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    assert len(read_calls([search, bodies.responses_call("c1", "run", {})]).calls) == 1
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    assert (
        len(read_calls(bodies.anthropic_message(server, bodies.anthropic_call("c1", "run", {}))).calls) == 1
    )


@pytest.mark.parametrize(
    "body",
    [
        None, 5, "run", [], {}, [1, None, "x"], {"name": "run"}, {"choices": []}, {"choices": [None]},
        {"tool_calls": None}, {"role": "assistant", "content": "Done."}, {"candidates": [None]},
        bodies.chat_response(), bodies.anthropic_message(), bodies.gemini_response(),
        bodies.responses_response(), {"method": "tools/list", "params": {"name": "x"}},
        {"type": "function", "function": {"name": "run", "description": "d", "parameters": {}}},
        {"name": "run", "description": "d", "input_schema": {}},
        # A history: its calls were answered.
        [bodies.chat_message(bodies.chat_call("c1", "run", {})), chat("done")],
    ],
)  # fmt: skip
def test_a_body_without_a_call_is_refused_with_what_is_accepted(body: Any) -> None:
    with pytest.raises(NotAToolCall, match=r"Anthropic \(tool_use blocks\)"):
        read_calls(body)


def test_a_call_is_known_to_openhands_by_its_metadata() -> None:
    def metadata(batch: Batch) -> dict[str, Any]:
        return batch.metadata

    assert metadata(read_calls(bodies.chat_call("c1", "run", {}))) == {
        "function_name": "run", "tool_call_id": "c1",
    }  # fmt: skip
    event = bodies.openhands_event("c1", "run", {})
    assert metadata(read_calls(event)) == event["tool_call_metadata"]
