"""Servers at an address, over streamable HTTP and over server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.box.mcp.conftest import Remote
from tests.box.mcp.mcp_client import call, connected, names, put, ready, told, wait_for, words
from tests.support.running import RunningBox
from tests.support.waiting import LIMIT

WAYS = {"http": "/mcp", "sse": "/sse"}


def entry(remote: Remote, way: str, **more: Any) -> dict[str, Any]:
    return {"url": remote.url + WAYS[way] + ("/" if way == "http" else ""), "api_key": remote.key, **more}


def content(observation: dict[str, Any]) -> Any:
    return json.loads(observation["content"])


@pytest.mark.parametrize("way", WAYS)
async def test_its_tools_are_there_and_requests_carry_the_key(
    box: RunningBox, remote: Remote, way: str
) -> None:
    put(box, far=entry(remote, way, headers={"X-Colour": "blue"}))
    info = ready(box, "far")[0]
    assert (info["transport"], info["server"], info["pid"]) == (way, "remote 2", None)
    async with connected(box, "sse") as client:
        assert await names(client) == ["echo", "headers", "silent", "block"]
        assert words(await client.call_tool("echo", {"text": "far away"})) == "far away"
        seen = json.loads(words(await client.call_tool("headers")))
    assert seen["authorization"] == f"Bearer {remote.key}"
    assert seen["s"] == seen["x-session-api-key"] == remote.key
    assert seen["x-colour"] == "blue"


def test_a_key_that_is_refused_is_told_without_the_key(box: RunningBox, remote: Remote) -> None:
    put(box, far=entry(remote, "http") | {"api_key": "wrong-key-4711"})
    info = wait_for(box, "far", lambda info: info["state"] == "waiting")
    assert info["error"] == "It answered 401 Unauthorized."
    assert "wrong-key-4711" not in box.client.get("/mcp/servers").text


def test_nobody_at_the_address_is_told(box: RunningBox) -> None:
    put(box, far={"url": "http://127.0.0.1:9/mcp"})
    info = wait_for(box, "far", lambda info: info["state"] == "waiting")
    assert info["error"]
    assert "far" in content(call(box, "echo", text="x"))["error"]


def test_a_call_that_takes_too_long_is_given_up(box: RunningBox, remote: Remote) -> None:
    put(box, far=entry(remote, "http", timeout=1))
    ready(box, "far")
    expected = {"isError": True, "error": 'Tool "silent" timed out after 1 seconds', "content": []}
    assert content(call(box, "silent")) == expected
    assert content(call(box, "echo", text="still there"))["content"][0]["text"] == "still there"


async def test_a_call_over_mcp_that_takes_too_long_is_given_up(box: RunningBox, remote: Remote) -> None:
    put(box, far=entry(remote, "sse", timeout=1))
    async with connected(box, "http") as client:
        failed = await client.call_tool("silent")
        assert failed.is_error
        assert words(failed) == 'Tool "silent" timed out after 1 seconds'


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_goes_away_is_found_again(box: RunningBox, remote: Remote, way: str) -> None:
    put(box, far=entry(remote, way))
    ready(box, "far")
    async with connected(box, "sse") as client:
        assert "echo" in await names(client)
        pending = asyncio.create_task(client.call_tool("silent"))
        await asyncio.to_thread(wait_for, box, "far", lambda info: info["running"] == 1)
        await asyncio.to_thread(remote.stop)
        try:
            ended = await asyncio.wait_for(pending, LIMIT)
            assert ended.is_error
            await asyncio.to_thread(wait_for, box, "far", lambda info: info["state"] != "ready")
        finally:
            await asyncio.to_thread(remote.start)
        await asyncio.to_thread(ready, box, "far")
        assert words(await client.call_tool("echo", {"text": "back"})) == "back"
    assert told(box, "far")["restarts"] >= 1


async def test_a_server_that_has_forgotten_the_session_is_asked_anew(box: RunningBox, remote: Remote) -> None:
    put(box, far=entry(remote, "http"))
    ready(box, "far")
    remote.stop()
    remote.start()
    found = content(call(box, "echo", text="to the new one"))
    assert found["content"][0]["text"] == "to the new one"
    assert told(box, "far")["failures"] == 0
