"""MCP servers as a plugin: their list is checked and not routed yet."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.mcp.servers import StdioServer, parse_servers
from glovebox.box.plugin import Plugin
from glovebox.errors import RequestError
from glovebox.http.endpoints import UNEXPECTED, Answer, Endpoint
from glovebox.http.responses import ErrorBody, error_response, json_response, unexpected
from glovebox.protocol.base import Message

_NO_ROUTER = (
    "MCP routing is not part of this version: the list was checked and {count} server(s) were not started."
)


class McpUpdate(Message):
    """What became of a new list of MCP servers."""

    detail: str
    router_error_log: str


class McpPlugin(Plugin):
    """Takes lists of MCP servers."""

    name = "mcp"
    starts = "first"

    def endpoints(self) -> Iterable[Endpoint]:
        """`/update_mcp_server`."""
        text = {"type": "string"}
        return [
            Endpoint(
                "POST", "/update_mcp_server", _update, "Replace the list of MCP servers",
                {200: Answer("The list was taken.", McpUpdate), 400: Answer("Not a list.", ErrorBody),
                 500: UNEXPECTED},
                body={"type": "array", "items": {
                    "type": "object", "required": ["name", "command"],
                    "properties": {
                        "name": text, "command": text,
                        "args": {"type": ["array", "string"]}, "env": {"type": ["object", "string"]}}}},
            ),
        ]  # fmt: skip


async def _update(request: Request) -> Response:
    """Check a posted list of MCP servers."""
    try:
        posted = msgspec.json.decode(await request.body())
        if not isinstance(posted, list):
            return error_response(400, RequestError("Request must be a list of MCP tools to sync"))
        servers: list[StdioServer] = parse_servers(posted)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RequestError):
        return unexpected()
    told = _NO_ROUTER.format(count=len(servers)) if servers else ""
    return json_response(McpUpdate(detail="MCP server updated successfully", router_error_log=told))
