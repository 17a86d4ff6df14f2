"""A thousand tool calls at once: each has its own result, none is lost, and none is made twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import mcp_types
import pytest

from tests.box.mcp.mcp_client import Transport, connected, names, post, ready, scripted, told, words
from tests.support.running import RunningBox, running_box

CALLS = 1_000


@pytest.fixture(scope="module")
def quick_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    with running_box(tmp_path_factory.mktemp("calls") / "workspace", "--no-enable-browser") as box:
        yield box


@pytest.fixture
def box(quick_box: RunningBox) -> Iterator[RunningBox]:
    """A box with a fresh server, which numbers calls in the order of their arrival."""
    post(quick_box, scripted("one"))
    ready(quick_box, "one")
    yield quick_box
    post(quick_box)


async def numbered(box: RunningBox, transport: Transport) -> list[int]:
    """The places that calls had at the server, in the order in which they were sent."""
    async with connected(box, transport) as client:
        assert "number" in await names(client)

        async def one(number: int) -> mcp_types.CallToolResult:
            return await client.call_tool("number", {"number": number})

        results = await asyncio.gather(*map(one, range(CALLS)))
    told = [json.loads(words(result)) for result in results]
    assert [number for number, _ in told] == list(range(CALLS))
    return [place for _, place in told]


async def test_over_server_sent_events_they_arrive_in_the_order_they_were_sent(box: RunningBox) -> None:
    assert await numbered(box, "sse") == list(range(1, CALLS + 1))
    assert (told(box, "one")["calls"], told(box, "one")["failures"]) == (CALLS, 0)


async def test_over_streamable_http_none_is_lost_and_none_made_twice(box: RunningBox) -> None:
    assert sorted(await numbered(box, "http")) == list(range(1, CALLS + 1))


async def test_as_actions_none_is_lost_and_none_made_twice(box: RunningBox) -> None:
    parts = urlsplit(box.url)

    async def one(number: int) -> list[int]:
        """Over a connection of its own: clients with a pool would let most of the calls wait."""
        args = {"name": "number", "arguments": {"number": number}}
        body = json.dumps({"action": {"action": "call_tool_mcp", "args": args}})
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(
            f"POST /execute_action HTTP/1.1\r\nHost: {parts.netloc}\r\nX-Session-API-Key: {box.key}\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        answer = await reader.read()
        writer.close()
        content = json.loads(answer.partition(b"\r\n\r\n")[2])["content"]
        found: list[int] = json.loads(json.loads(content)["content"][0]["text"])
        return found

    results = await asyncio.gather(*map(one, range(CALLS)))
    assert [number for number, _ in results] == list(range(CALLS))
    assert sorted(place for _, place in results) == list(range(1, CALLS + 1))
