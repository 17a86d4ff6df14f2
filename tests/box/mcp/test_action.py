"""`call_tool_mcp`: the observation is the contract's, to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.box.mcp.mcp_client import call, post, ready, scripted
from tests.box.mcp.scripted import PIXEL
from tests.support.running import RunningBox

RESULT = '{"meta": null, "content": [%s], "structuredContent": %s, "isError": %s}'
TEXT = '{"type": "text", "text": "%s", "annotations": null, "meta": null}'
IMAGE = '{"type": "image", "data": "%s", "mimeType": "image/png", "annotations": null, "meta": null}'


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("echo", {"text": "héllo"}, RESULT % (TEXT % "h\\u00e9llo", "null", "false")),
        ("image", {}, RESULT % (IMAGE % PIXEL, "null", "false")),
        ("structured", {}, RESULT % (TEXT % r"{\"sum\": 5}", '{"sum": 5}', "false")),
        ("fail", {}, RESULT % (TEXT % "it failed", "null", "true")),
        ("refuse", {}, '{"isError": true, "error": "it cannot be done", "content": []}'),
    ],
)
def test_an_observation_is_the_contracts(
    box: RunningBox, name: str, arguments: dict[str, Any], content: str
) -> None:
    post(box, scripted("one"))
    assert call(box, name, **arguments) == {
        "message": content,
        "observation": "mcp",
        "content": content,
        "extras": {"name": name, "arguments": arguments},
    }


def test_a_time_limit_is_told_and_the_call_cancelled(box: RunningBox) -> None:
    post(box, scripted("one"))
    ready(box, "one")
    content = '{"isError": true, "error": "Tool \\"silent\\" timed out after 1 seconds", "content": []}'
    assert call(box, "silent", timeout=1)["content"] == content
    assert box.client.get("/mcp/servers/one").json()["running"] == 0


def test_an_unknown_tool_is_an_error_that_names_the_next_one(box: RunningBox) -> None:
    post(box, scripted("one"))
    ready(box, "one")
    answer = box.client.post(
        "/execute_action", json={"action": {"action": "call_tool_mcp", "args": {"name": "eco"}}}
    )
    assert answer.status_code == 500
    assert answer.json()["detail"] == (
        "Internal server error: No matching MCP agent found for tool name: eco. "
        "Unknown tool: eco. Did you mean echo?"
    )
    assert answer.headers["X-Glovebox-Error"] == "unknown_tool"


def test_without_servers_the_action_is_not_supported(box: RunningBox) -> None:
    post(box)
    answer = box.client.post(
        "/execute_action", json={"action": {"action": "call_tool_mcp", "args": {"name": "echo"}}}
    )
    assert answer.status_code == 500
    assert answer.json()["detail"] == (
        "Internal server error: 'ActionExecutor' object has no attribute 'call_tool_mcp'"
    )


def test_progress_is_streamed(box: RunningBox) -> None:
    post(box, scripted("one"))
    ready(box, "one")
    action = {"action": "call_tool_mcp", "args": {"name": "progress"}}
    with box.client.stream("POST", "/execute_action_stream", json={"action": action}) as response:
        text = "".join(response.iter_text())
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    printed = "".join(event["text"] for event in events if "text" in event)
    assert printed == "step 1\nstep 2\nstep 3\n"
    assert '\\"done\\"' in text


def test_the_same_key_does_not_call_twice(box: RunningBox) -> None:
    post(box, scripted("one"))
    action = {"action": "call_tool_mcp", "args": {"name": "number", "arguments": {"number": 7}}}
    body = {"action": action, "idempotency_key": "once"}
    first = box.client.post("/execute_action", json=body)
    again = box.client.post("/execute_action", json=body)
    assert json.loads(first.json()["content"])["content"][0]["text"] == "[7, 1]"
    assert again.content == first.content
