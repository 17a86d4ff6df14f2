"""Every endpoint of a box, declared in one list."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from glovebox.box.box import Box
from glovebox.box.mcp.servers import StdioServer, parse_servers
from glovebox.box.startup import StartupReport
from glovebox.box.system.stats import ServerInfo
from glovebox.errors import RequestError
from glovebox.protocol.base import Message
from glovebox.server.commands import command_endpoints
from glovebox.server.docs import docs_page
from glovebox.server.endpoints import Answer, Endpoint, Parameter
from glovebox.server.event_stream import event_endpoint
from glovebox.server.execute import ExecuteAction, Executions
from glovebox.server.openapi import openapi
from glovebox.server.responses import (
    ErrorBody,
    ValidationErrorBody,
    error_response,
    json_response,
    to_json,
    unexpected,
)
from glovebox.server.sessions import session_endpoints
from glovebox.server.sse import EVENTS, described
from glovebox.server.streaming import ExecuteActionStream
from glovebox.server.transfer import Transfer

UNEXPECTED = Answer("The request could not be understood.", ErrorBody)
INVALID = Answer("A parameter or the body is not of the right form.", ValidationErrorBody)
FAILED = Answer("It could not be done; `detail` says why.", ErrorBody)
NO_ROUTER = (
    "MCP routing is not part of this version: the list was checked and {count} server(s) were not started."
)


class Alive(Message):
    """The box serves."""

    status: str


class ConnectionToken(Message):
    """The token of the VS Code server; null without one."""

    token: str | None


class McpUpdate(Message):
    """What became of a new list of MCP servers."""

    detail: str
    router_error_log: str


def box_endpoints(box: Box, closing: asyncio.Event) -> list[Endpoint]:
    """The endpoints of an open box, those that describe them included."""
    endpoints: list[Endpoint] = [
        *_status(box),
        *_execute(box),
        *command_endpoints(box, closing),
        *session_endpoints(box),
        event_endpoint(box.executor.events, closing),
        *_transfer(box),
        *_services(),
    ]
    return endpoints + _documents(box, endpoints)


def _status(box: Box) -> list[Endpoint]:
    alive_body = to_json(Alive(status="ok"))

    async def alive(request: Request) -> Response:
        return Response(alive_body, media_type="application/json")

    async def server_info(request: Request) -> Response:
        return json_response(await box.threads.run(box.stats.look))

    async def startup(request: Request) -> Response:
        return json_response(box.startup.report())

    return [
        Endpoint(
            "GET", "/alive", alive, "Whether the box serves", {200: Answer("It does.", Alive)}, open=True
        ),
        Endpoint(
            "GET", "/server_info", server_info, "How long the box runs and what it uses",
            {200: Answer("Seconds and bytes.", ServerInfo)}, open=True,
        ),
        Endpoint(
            "GET", "/startup", startup, "What starting the box took, step by step",
            {200: Answer("Milliseconds since the process began.", StartupReport)},
        ),
    ]  # fmt: skip


def _execute(box: Box) -> list[Endpoint]:
    executions = Executions(box)
    body = {
        "type": "object",
        "required": ["action"],
        "properties": {
            "action": {"$ref": "#/components/schemas/ActionEnvelope"},
            "idempotency_key": {"type": ["string", "null"], "minLength": 1, "maxLength": 512},
            "details": {"type": "boolean", "default": False},
        },
    }
    answers = {
        400: Answer("The body is not text.", ErrorBody),
        422: INVALID,
        500: Answer("The action could not be carried out; `detail` says why.", ErrorBody),
    }
    observation = Answer("The observation.", {"$ref": "#/components/schemas/ObservationEnvelope"})
    events = Answer(
        "Server-sent events: `started`, `output`, `state`, and last `observation` or `error`.",
        described("started", "output", "state", "gap", "observation", "error"),
        EVENTS,
    )
    return [
        Endpoint(
            "POST", "/execute_action", ExecuteAction(executions).__call__, "Carry out an action",
            {200: observation, **answers},
            description="The same `idempotency_key` again gives the same answer and does not run the action "
            "again. With `details` the answer also tells the action's id, timing and command.",
            body=body,
        ),
        Endpoint(
            "POST", "/execute_action_stream", ExecuteActionStream(box, executions).__call__,
            "Carry out an action and follow it", {200: events, **answers},
            description="The last event carries what `/execute_action` would have answered. A client that "
            "goes away does not stop the action; with the same `idempotency_key` it can join again.",
            body=body,
        ),
    ]  # fmt: skip


def _transfer(box: Box) -> list[Endpoint]:
    transfer = Transfer(
        working_dir=box.settings.working_dir,
        threads=box.threads,
        max_upload_bytes=box.settings.max_upload_size,
    )
    text = {"type": "string"}
    return [
        Endpoint(
            "POST", "/list_files", transfer.list_files, "Names in a directory, directories first",
            {200: Answer("Names; directories end in a slash. Empty if there is no such directory.",
                         {"type": "array", "items": text}), 500: UNEXPECTED},
            body={"type": "object", "properties": {"path": {"type": ["string", "null"]}}},
        ),
        Endpoint(
            "POST", "/upload_file", transfer.upload, "Put a file, or a zip's content, into a directory",
            {200: Answer("Where it went.", {"type": "object", "properties": {
                "filename": text, "destination": text, "recursive": {"type": "boolean"}}}),
             400: Answer("The body is not valid multipart data.", ErrorBody),
             413: Answer("It is larger than this box takes.", ErrorBody),
             422: INVALID, 500: FAILED},
            parameters=(
                Parameter("destination", text, "Absolute directory; made if missing. Default: `/`."),
                Parameter("recursive", {"type": "boolean"}, "The file is a zip to unpack (as any .zip is)."),
            ),
            body={"type": "object", "required": ["file"],
                  "properties": {"file": {"type": "string", "format": "binary"}}},
            body_media_type="multipart/form-data",
        ),
        Endpoint(
            "GET", "/download_files", transfer.download, "A directory, or one file, as a zip",
            {200: Answer("The archive.", {"type": "string", "format": "binary"}, "application/zip"),
             422: INVALID, 500: FAILED},
            parameters=(Parameter("path", text, "Absolute path.", required=True),),
        ),
    ]  # fmt: skip


def _services() -> list[Endpoint]:
    text = {"type": "string"}

    async def connection_token(request: Request) -> Response:
        return json_response(ConnectionToken(token=None))

    return [
        Endpoint(
            "GET", "/vscode/connection_token", connection_token, "The token of the VS Code server",
            {200: Answer("Null when none runs.", ConnectionToken)},
        ),
        Endpoint(
            "POST", "/update_mcp_server", update_mcp_server, "Replace the list of MCP servers",
            {200: Answer("The list was taken.", McpUpdate), 400: Answer("Not a list.", ErrorBody),
             500: UNEXPECTED},
            body={"type": "array", "items": {
                "type": "object", "required": ["name", "command"],
                "properties": {
                    "name": text, "command": text,
                    "args": {"type": ["array", "string"]}, "env": {"type": ["object", "string"]}}}},
        ),
    ]  # fmt: skip


async def update_mcp_server(request: Request) -> Response:
    """Check a posted list of MCP servers."""
    try:
        posted = msgspec.json.decode(await request.body())
        if not isinstance(posted, list):
            return error_response(400, RequestError("Request must be a list of MCP tools to sync"))
        servers: list[StdioServer] = parse_servers(posted)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RequestError):
        return unexpected()
    told = NO_ROUTER.format(count=len(servers)) if servers else ""
    return json_response(McpUpdate(detail="MCP server updated successfully", router_error_log=told))


def _documents(box: Box, described: list[Endpoint]) -> list[Endpoint]:
    made: dict[str, Any] = {}

    async def document(request: Request) -> Response:
        if not made:  # on first use: building schemas has no place in the start
            made.update(openapi(endpoints, box.codec, needs_key=bool(box.settings.session_api_key)))
        return json_response(made)

    async def page(request: Request) -> Response:
        return HTMLResponse(await box.threads.run(docs_page))

    own = [
        Endpoint(
            "GET", "/openapi.json", document, "This API as an OpenAPI document",
            {200: Answer("OpenAPI 3.1.", {"type": "object"})},
        ),
        Endpoint(
            "GET", "/docs", page, "This API as a page",
            {200: Answer("A page that reads /openapi.json.", {"type": "string"}, "text/html")},
        ),
    ]  # fmt: skip
    endpoints = described + own
    return own
