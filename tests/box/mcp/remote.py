"""An MCP server on loopback, over streamable HTTP at `/mcp` and over server-sent events at `/sse`.

    remote.py PORT

It prints its port when it listens. Each request it gets must be authorised if `KEY` is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import mcp_types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

LIMIT = 60.0
NAMES = ("echo", "headers", "silent", "block")


async def tools(context: Any, params: Any) -> mcp_types.ListToolsResult:
    schema = {"type": "object"}
    return mcp_types.ListToolsResult(
        tools=[mcp_types.Tool(name=name, description=f"does {name}", input_schema=schema) for name in NAMES]
    )


async def call(context: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
    given = params.arguments or {}
    text = given.get("text", "")
    if params.name == "headers":
        text = json.dumps({**dict(context.request.headers), "query": context.request.url.query})
    if params.name == "silent":
        await asyncio.Event().wait()
    if params.name == "block":
        text = await asyncio.to_thread(block, given["until"])
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=text)])


def block(path: str) -> str:
    deadline = time.monotonic() + LIMIT
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.005)
    return "unblocked"


def application() -> Starlette:
    server = Server("remote", version="2", on_list_tools=tools, on_call_tool=call)
    manager = StreamableHTTPSessionManager(server)
    events = SseServerTransport("/messages/")
    key = os.environ.get("KEY", "")

    async def follow(request: Request) -> Response:
        if key and request.headers.get("authorization") != f"Bearer {key}":
            return Response("no", 401)
        async with events.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    async def streamable(scope: Any, receive: Any, send: Any) -> None:
        if key and Request(scope).headers.get("authorization") != f"Bearer {key}":
            await Response("no", 401)(scope, receive, send)
            return
        await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    routes = [
        Route("/sse", follow), Mount("/messages/", events.handle_post_message), Mount("/mcp", streamable),
    ]  # fmt: skip
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(application(), log_level="error", timeout_graceful_shutdown=0, ws="none")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
