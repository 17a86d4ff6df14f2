"""Three real servers as one: from npm, from PyPI, and at an address."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.box.mcp.conftest import Remote
from tests.box.mcp.mcp_client import connected, names, put, ready, running, told, until, wait_for, words
from tests.support.node import MODULES, needs_npm, node
from tests.support.running import RunningBox
from tests.support.waiting import LIMIT

CHANGED = "notifications/tools/list_changed"
LONG = "everything_trigger-long-running-operation"

EVERYTHING = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"

pytestmark = needs_npm


@pytest.fixture(scope="module")
def servers(remote: Remote) -> dict[str, dict[str, Any]]:
    return {
        "everything": {"command": node(), "args": [str(EVERYTHING)]},
        "time": {
            "command": sys.executable,
            "args": ["-m", "mcp_server_time", "--local-timezone", "Europe/Berlin"],
        },
        "own": {"url": f"{remote.url}/mcp/", "api_key": remote.key},
    }


@pytest.fixture
def three(box: RunningBox, servers: dict[str, dict[str, Any]]) -> RunningBox:
    """A box that routes to all three."""
    put(box, **servers)
    ready(box, *servers)
    return box


@pytest.mark.parametrize("transport", ["sse", "http"])
async def test_each_is_called_by_its_name(three: RunningBox, transport: Any) -> None:
    async with connected(three, transport) as client:
        listed = await names(client)
        assert {"everything_echo", "time_get_current_time", "own_echo"} <= set(listed)
        assert {name.partition("_")[0] for name in listed} == {"everything", "time", "own"}
        assert words(await client.call_tool("everything_echo", {"message": "npm"})) == "Echo: npm"
        assert words(await client.call_tool("own_echo", {"text": "HTTP"})) == "HTTP"
        clock = await client.call_tool("time_get_current_time", {"timezone": "Asia/Tokyo"})
        assert clock.structured_content is not None
        assert clock.structured_content["timezone"] == "Asia/Tokyo"
        wrong = await client.call_tool("time_get_current_time", {"timezone": "Nowhere"})
        assert wrong.is_error
        image = await client.call_tool("everything_get-tiny-image")
        assert [block.type for block in image.content] == ["text", "image", "text"]


async def test_progress_of_a_server_reaches_the_client(three: RunningBox) -> None:
    steps: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with connected(three, "http") as client:
        result = await client.call_tool(LONG, {"duration": 0.2, "steps": 4}, progress_callback=hear)
        assert not result.is_error
        await until(lambda: len(steps) >= 4, "all steps")
    assert steps[:4] == [1, 2, 3, 4]


async def test_one_that_is_killed_costs_its_own_call_and_comes_back(
    three: RunningBox, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    before = {name: told(three, name) for name in ("everything", "time")}
    async with connected(three, "sse") as client, connected(three, "http") as other:
        assert len(await names(client)) == len(await names(other))
        blocked = asyncio.create_task(other.call_tool("own_block", {"until": str(gate)}))
        doomed = asyncio.create_task(client.call_tool(LONG, {"duration": 60, "steps": 2}))
        await asyncio.to_thread(running, three, "everything")
        await asyncio.to_thread(running, three, "own")
        os.kill(before["everything"]["pid"], signal.SIGKILL)
        ended = await asyncio.wait_for(doomed, LIMIT)
        assert ended.is_error
        assert words(ended) == (
            f"Error calling tool '{LONG}': The MCP server 'everything' ended during the call."
        )
        assert words(await client.call_tool("own_echo", {"text": "there"})) == "there"
        assert not blocked.done()
        gate.touch()
        assert words(await asyncio.wait_for(blocked, LIMIT)) == "unblocked"
        restarts = before["everything"]["restarts"] + 1

        def again(info: dict[str, Any]) -> bool:
            return bool(info["state"] == "ready" and info["restarts"] == restarts)

        after = await asyncio.to_thread(wait_for, three, "everything", again, "a new process")
        assert after["pid"] != before["everything"]["pid"]
        assert words(await client.call_tool("everything_echo", {"message": "again"})) == "Echo: again"
    assert told(three, "time")["pid"] == before["time"]["pid"]


async def test_lists_that_follow_each_other_are_in_force_at_once(
    three: RunningBox, servers: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    pid = told(three, "everything")["pid"]
    sse_heard: list[str] = []
    http_heard: list[str] = []
    async with connected(three, "sse", sse_heard) as sse, connected(three, "http", http_heard) as http:
        assert "time_convert_time" in await names(sse)
        assert "time_convert_time" in await names(http)
        blocked = asyncio.create_task(sse.call_tool("own_block", {"until": str(gate)}))
        slow = asyncio.create_task(http.call_tool(LONG, {"duration": 3, "steps": 3}))
        await asyncio.to_thread(running, three, "everything")
        await asyncio.to_thread(running, three, "own")

        put(three, everything=servers["everything"], own=servers["own"])
        for client, heard in ((sse, sse_heard), (http, http_heard)):
            await until(lambda heard=heard: CHANGED in heard, "being told")  # type: ignore[misc]
            heard.clear()
            listed = await names(client)
            assert {name.partition("_")[0] for name in listed} == {"everything", "own"}
        assert told(three, "everything")["pid"] == pid
        assert not (await asyncio.wait_for(slow, LIMIT)).is_error

        put(three, own=servers["own"])
        for client, heard in ((sse, sse_heard), (http, http_heard)):
            await until(lambda heard=heard: CHANGED in heard, "being told")  # type: ignore[misc]
            assert await names(client) == ["echo", "headers", "silent", "block"]
            assert words(await client.call_tool("echo", {"text": "alone"})) == "alone"
        assert not blocked.done()

        put(three, **servers)
        assert "time_convert_time" in await names(http)
        converted = await http.call_tool(
            "time_convert_time",
            {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        )
        assert "+09:00" in json.dumps(converted.structured_content)
        gate.touch()
        assert words(await asyncio.wait_for(blocked, LIMIT)) == "unblocked"


async def test_prompts_and_resources_are_under_the_same_roof(
    three: RunningBox, servers: dict[str, dict[str, Any]]
) -> None:
    async with connected(three, "http") as client:
        prompts = [one.name for one in (await client.list_prompts(cache_mode="bypass")).prompts]
        assert "everything_simple-prompt" in prompts
        assert (await client.get_prompt("everything_simple-prompt")).messages
        resources = (await client.list_resources(cache_mode="bypass")).resources
        found = next(one for one in resources if "everything/" in one.uri)
        assert (await client.read_resource(found.uri)).contents
        put(three, everything=servers["everything"])
        alone = (await client.list_prompts(cache_mode="bypass")).prompts
        assert "simple-prompt" in [one.name for one in alone]
