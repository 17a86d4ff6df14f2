"""Who may use the mount: the key in the header of the box, and once more as a bearer token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.box.mcp.mcp_client import connected, keys, names, post, scripted
from tests.support.running import KEY, RunningBox, running_box
from tests.support.waiting import LIMIT

PATHS = [
    ("GET", "/mcp/sse"), ("GET", "/sse"), ("POST", "/mcp/messages/"), ("POST", "/messages/"),
    ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"),
]  # fmt: skip
UNAUTHORIZED = '{"error": "invalid_token", "error_description": "Authentication required"}'


@pytest.fixture(scope="module")
def box(routing_box: RunningBox) -> Iterator[RunningBox]:
    """A box with a server, which all tests here leave as it is."""
    post(routing_box, scripted("one"))
    yield routing_box
    post(routing_box)


@pytest.fixture
def stranger(box: RunningBox) -> Iterator[httpx.Client]:
    """Whoever shows only what a test gives them."""
    with httpx.Client(base_url=box.url, trust_env=False, timeout=LIMIT) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("key", ["", "wrong"])
def test_without_the_key_nothing_is_answered(
    stranger: httpx.Client, method: str, path: str, key: str
) -> None:
    headers = {"Authorization": f"Bearer {KEY}", **({"X-Session-API-Key": key} if key else {})}
    answer = stranger.request(method, path, headers=headers)
    assert (answer.status_code, answer.json()) == (403, {"detail": "Invalid API Key"})


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("shown", ["", "Bearer wrong", "Basic " + KEY, "Bearer", KEY])
def test_the_bearer_token_is_needed_too(stranger: httpx.Client, method: str, path: str, shown: str) -> None:
    headers = {"X-Session-API-Key": KEY, **({"Authorization": shown} if shown else {})}
    answer = stranger.request(method, path, headers=headers)
    assert (answer.status_code, answer.text) == (401, UNAUTHORIZED)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("path", ["/mcp/sse", "/sse"])
def test_with_both_a_stream_begins_as_the_contract_has_it(
    box: RunningBox, stranger: httpx.Client, path: str
) -> None:
    with stranger.stream("GET", path, headers=keys(box)) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["connection"] == "keep-alive"
        assert answer.headers["x-accel-buffering"] == "no"
        lines = answer.iter_lines()
        assert next(lines) == "event: endpoint"
        messages = path.replace("sse", "messages/")
        assert re.fullmatch(rf"data: {messages}\?session_id=[0-9a-f]{{32}}", next(lines))


@pytest.mark.parametrize("path", ["/mcp/messages/", "/messages/"])
@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 400, "session_id is required"),
        ("?session_id=nonsense", 400, "Invalid session ID"),
        (f"?session_id={'0' * 32}", 404, "Could not find session"),
    ],
)
def test_messages_for_no_session_are_refused_in_the_contracts_words(
    box: RunningBox, stranger: httpx.Client, path: str, query: str, status: int, text: str
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = stranger.post(path + query, json=message, headers=keys(box))
    assert (answer.status_code, answer.text) == (status, text)


async def test_the_mount_at_the_root_works_too(box: RunningBox) -> None:
    async with connected(box, "sse", path="/sse") as client:
        assert "echo" in await names(client)


async def test_a_box_without_a_key_asks_for_none(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--no-enable-browser", key="") as box:
        post(box, scripted("one"))
        async with connected(box, "sse") as client:
            assert "echo" in await names(client)
        async with connected(box, "http") as client:
            assert "echo" in await names(client)
        rebound = box.client.get("/mcp/sse", headers={"Host": "evil.example.org"})
        assert rebound.status_code == 403
