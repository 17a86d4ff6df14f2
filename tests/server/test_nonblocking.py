"""No call of ours blocks the event loop: a blocking one raises, and the answer would not be as expected."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from blockbuster import blockbuster_ctx

from glovebox import settings
from glovebox.box.box import Box
from glovebox.box.startup import Startup
from glovebox.server.app import create_app

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "echoed"}]},
    }.get(message["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    chosen = settings.load({"working_dir": str(tmp_path)}, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    async with Box(chosen, Startup()) as box:
        transport = httpx.ASGITransport(create_app(box))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


async def test_no_action_or_endpoint_blocks_the_loop(client: httpx.AsyncClient, tmp_path: Path) -> None:
    async def execute(action: str, **args: Any) -> dict[str, Any]:
        answer = await client.post("/execute_action", json={"action": {"action": action, "args": args}})
        assert answer.status_code == 200, answer.text
        observation: dict[str, Any] = answer.json()
        assert observation["observation"] != "error", observation
        return observation

    file = str(tmp_path / "a.txt")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("in.txt", "x")
    with blockbuster_ctx("glovebox"):
        assert (await execute("run", command="echo hi"))["content"] == "hi"
        await execute("run", command="echo static", is_static=True)
        await execute("write", path=file, content="one\ntwo")
        assert (await execute("read", path=file))["content"] == "one\ntwo\n"
        await execute("read", path=file, impl_source="oh_aci")
        await execute("read", path=str(tmp_path), impl_source="oh_aci")
        edited = await execute("edit", path=file, command="str_replace", old_str="one", new_str="ONE")
        assert "has been edited" in edited["content"]
        undone = await execute("edit", path=file, command="undo_edit")
        assert "undone successfully" in undone["content"]
        assert (await execute("glob", pattern="*.txt"))["extras"]["total"] == 1
        assert (await execute("grep", pattern="two"))["extras"]["total"] == 1
        await execute("stat", path=file)
        await execute("mkdir", path="d/e")
        await execute("move", source="d/e", destination="d/f")
        await execute("delete", path="d", recursive=True)
        assert (await client.post("/list_files", json={})).json() == ["a.txt"]
        for name, data in (("up.txt", b"x"), ("up.zip", packed.getvalue())):
            up = await client.post(
                "/upload_file", params={"destination": str(tmp_path)}, files={"file": (name, data)}
            )
            assert up.status_code == 200, up.text
        assert (await client.get("/download_files", params={"path": str(tmp_path)})).status_code == 200
        keyed = {"action": {"action": "run", "args": {"command": "echo hi"}}, "idempotency_key": "k"}
        streamed = await client.post("/execute_action_stream", json={**keyed, "details": True})
        command = streamed.text.partition('"action_id":"')[2].partition('"')[0]
        assert (await client.post("/execute_action", json=keyed)).json()["content"] == "hi"
        for query in (
            "",
            "?format=raw",
            "?format=rendered",
            "?search=hi",
            "?follow=1",
            "?follow=1&format=raw",
        ):
            output = await client.get(f"/commands/{command}/output{query}")
            assert "hi" in output.text, query
        assert (await client.post("/sessions", json={"name": "two"})).status_code == 201
        assert (await client.post("/sessions/two/resize", json={"rows": 9, "columns": 9})).status_code == 200
        assert (await client.post("/sessions/two/signal", json={"signal": "INT"})).status_code == 409
        assert (await client.delete("/sessions/two")).status_code == 204
        for path in (
            "/alive",
            "/server_info",
            f"/commands/{command}",
            "/sessions",
            "/sessions/main",
            "/startup",
            "/docs",
            "/openapi.json",
        ):
            assert (await client.get(path)).status_code == 200


async def test_neither_tools_nor_mcp_servers_block_the_loop(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    entry = {"name": "one", "command": sys.executable, "args": ["-I", "-S", str(script)]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with blockbuster_ctx("glovebox"):
        assert (await client.post("/update_mcp_server", json=[entry])).status_code == 200
        called = {"name": "echo", "arguments": {}}
        answer = await client.post(
            "/execute_action", json={"action": {"action": "call_tool_mcp", "args": called}}
        )
        assert "echoed" in answer.json()["content"], answer.text
        for kind in ("openai", "anthropic", "gemini", "mcp"):
            assert "echo" in (await client.get("/tools", params={"format": kind})).text
        run = {"name": "run", "arguments": {"command": "echo hi"}}
        assert "hi" in (await client.post("/tools/call", json=run)).text
        assert "echoed" in (await client.post("/tools/call", json=called)).text
        for path in ("/mcp/servers", "/mcp/servers/one", "/mcp/servers/one/log"):
            assert (await client.get(path)).status_code == 200
        assert (await client.put("/mcp/servers", json={"mcpServers": {}})).json()["servers"] == []
        opened = await client.post(
            "/mcp/box",
            json={
                **message,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            },
            headers=headers,
        )
        session = {**headers, "Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        assert "run" in (await client.post("/mcp/box", json=message, headers=session)).text
        listed = {**message, "method": "resources/list"}
        assert "server.py" in (await client.post("/mcp/box", json=listed, headers=session)).text
