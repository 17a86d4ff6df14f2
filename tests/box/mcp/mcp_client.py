"""Speaks to a box as its clients do: lists of servers, how they are, and MCP over each transport."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import mcp_types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.running import RunningBox
from tests.support.waiting import until as until
from tests.support.waiting import wait_until

SCRIPT = Path(__file__).parent / "scripted.py"
#: `new` speaks the newest version of the protocol, the others the one with a handshake.
Transport = Literal["sse", "http", "new"]
TRANSPORTS: tuple[Transport, ...] = ("sse", "http", "new")


def scripted(name: str, *args: str, **env: str) -> dict[str, Any]:
    """The entry of a scripted server."""
    return {"name": name, "command": sys.executable, "args": ["-I", "-S", str(SCRIPT), *args], "env": env}


def post(box: RunningBox, *entries: dict[str, Any]) -> None:
    """Replace the list as the contract's clients do."""
    answer = box.client.post("/update_mcp_server", json=list(entries))
    assert answer.json() == {"detail": "MCP server updated successfully", "router_error_log": ""}


def put(box: RunningBox, **servers: dict[str, Any]) -> None:
    """Replace it with one that also has addresses."""
    answer = box.client.put("/mcp/servers", json={"mcpServers": servers})
    assert answer.status_code == 200, answer.text


def told(box: RunningBox, name: str) -> dict[str, Any]:
    """What the box tells of a server."""
    answer = box.client.get(f"/mcp/servers/{name}")
    assert answer.status_code == 200, answer.text
    info: dict[str, Any] = answer.json()
    return info


def wait_for(
    box: RunningBox, name: str, condition: Callable[[dict[str, Any]], bool], what: str = "a state"
) -> dict[str, Any]:
    """Wait until what is told of a server fulfils a condition."""
    wait_until(lambda: condition(told(box, name)), what=f"{what} of {name}")
    return told(box, name)


def ready(box: RunningBox, *names: str) -> list[dict[str, Any]]:
    """Wait until servers can be asked."""
    return [wait_for(box, name, lambda info: info["state"] == "ready", "readiness") for name in names]


def running(box: RunningBox, name: str, count: int = 1) -> None:
    """Wait until so many calls of a server are under way."""
    wait_for(box, name, lambda info: info["running"] == count, f"{count} running calls")


def call(box: RunningBox, name: str, /, *, timeout: float | None = None, **arguments: Any) -> dict[str, Any]:
    """The observation of an action that calls a tool."""
    return box.execute("call_tool_mcp", name=name, arguments=arguments, timeout=timeout)


def keys(box: RunningBox) -> dict[str, str]:
    """What clients of the contract show."""
    return {"X-Session-API-Key": box.key, "Authorization": f"Bearer {box.key}"} if box.key else {}


@contextlib.asynccontextmanager
async def connected(
    box: RunningBox, transport: Transport, heard: list[str] | None = None, *, path: str = ""
) -> AsyncIterator[Client]:
    """A client of the SDK; `heard` collects the methods of notifications."""

    async def hear(message: object) -> None:
        if heard is not None and isinstance(message, mcp_types.Notification):
            heard.append(str(message.method))

    mode = "2026-07-28" if transport == "new" else "legacy"
    try:
        async with contextlib.AsyncExitStack() as stack:
            if transport == "sse":
                way: Any = sse_client(f"{box.url}{path or '/mcp/sse'}", keys(box), timeout=30)
            else:
                limits = httpx2.Limits(max_connections=None)
                http = await stack.enter_async_context(
                    httpx2.AsyncClient(headers=keys(box), timeout=60, limits=limits, trust_env=False)
                )
                way = streamable_http_client(f"{box.url}{path or '/mcp'}", http_client=http)
            yield await stack.enter_async_context(Client(way, message_handler=hear, mode=mode))
    except* anyio.BrokenResourceError:
        pass  # a message came while the client was leaving


async def names(client: Client) -> list[str]:
    """The names of all tools."""
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


def words(result: mcp_types.CallToolResult) -> str:
    """The text of a result."""
    return "".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))
