"""JSON that is nested more deeply than a program can follow."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from websockets.sync.client import connect

from tests.support.running import RunningBox

pytestmark = pytest.mark.attack

#: Deeper than anything follows, and about as deep as an interpreter does.
DEEP = (9_000, 985, 960, 900)
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def shapes(depth: int) -> list[str]:
    lists, objects = "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth
    return [
        lists,
        objects,
        "[" * depth,
        f'{{"unknown": {lists}}}',
        f'{{"action": {objects}}}',
        f'{{"action": 5, "more": {lists}}}',
        f'{{"action": {{"action": "run", "args": {{"command": {lists}}}}}}}',
        f'{{"path": {lists}}}',
        f'{{"mcpServers": {{"a": {{"command": "true", "env": {objects}}}}}}}',
        f'{{"name": "run", "arguments": {objects}}}',
        f'{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {objects}}}',
    ]


def endpoints(box: RunningBox) -> list[tuple[str, str]]:
    """The method and the path of all that take JSON."""
    paths = box.client.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), path.replace("{name}", "main").replace("{id}", "none"))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]


@pytest.mark.parametrize("depth", DEEP)
def test_no_endpoint_fails_on_it(full_box: RunningBox, depth: int) -> None:
    found = endpoints(full_box)
    assert {"/list_files", "/update_mcp_server", "/execute_action", "/sessions"} <= {
        path for _, path in found
    }
    for method, path in found:
        for body in shapes(depth):
            answer = full_box.client.request(method, path, content=body, headers=HEADERS)
            told = f"{method} {path} {body[:60]}: {answer.status_code} {answer.text[:200]}"
            assert answer.status_code < 500 or _is_told_as_the_contract_has_it(answer), told
            if depth == DEEP[0] and not path.startswith("/mcp"):
                assert answer.status_code in (400, 404), told
                if answer.status_code == 400:
                    assert answer.headers["X-Glovebox-Error"] == "json_too_deep", told


def _is_told_as_the_contract_has_it(answer: Any) -> bool:
    """Whether it is one of the failures that the contract answers 500: no action, or no JSON."""
    known = ("unknown_event", "unknown_action", "wrong_arguments", "request_invalid")
    return answer.headers.get("X-Glovebox-Error") in known


def test_a_hundred_thousand_levels_are_refused(full_box: RunningBox) -> None:
    for method, path in endpoints(full_box):
        answer = full_box.client.request(method, path, content="[" * 100_000, headers=HEADERS)
        assert answer.status_code in (400, 404, 413), (path, answer.text)


def test_text_with_many_brackets_is_not_nested(box: RunningBox) -> None:
    action = {"action": "run", "args": {"command": f"echo '{'[{' * 2000}' | wc -c"}}
    answer = box.client.post("/execute_action", json={"action": action})
    assert answer.json()["content"] == "4001"
    wide = {**action, "llm_metrics": [{"a": [1]}] * 500}
    assert box.client.post("/execute_action", json={"action": wide}).status_code == 200


def test_somebody_who_is_attached_is_told(box: RunningBox) -> None:
    address = f"{box.url.replace('http', 'ws')}/sessions/main/attach?session_api_key={quote(box.key)}"
    with connect(address, proxy=None) as person:
        for body in ('{"type": "take", "more": ' + "[" * 100_000, "[" * 100_000):
            person.send(body)
        codes: list[str] = []
        while len(codes) < 2:
            message = person.recv(timeout=60)
            if isinstance(message, str) and json.loads(message)["type"] == "refused":
                codes.append(json.loads(message)["code"])
        assert codes == ["json_too_deep", "request_invalid"]
