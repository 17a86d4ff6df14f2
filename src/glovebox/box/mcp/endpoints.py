"""MCP over HTTP: the mounts of the contract, and the states of the servers."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.errors import BadMcpConfig, NotFound, RequestError, TooDeep
from glovebox.http.endpoints import UNEXPECTED, Endpoint, Parameter, Reply
from glovebox.http.requests import json_body
from glovebox.http.responses import ErrorBody, error_response, json_response, refused, unexpected
from glovebox.protocol.base import Message
from glovebox.protocol.status import McpLog, McpServerInfo, McpServers

if TYPE_CHECKING:
    from glovebox.box.mcp.http_transport import HttpServer
    from glovebox.box.mcp.plugin import McpPlugin

Answer = Callable[[Request], Awaitable[Response]]

EVENTS = "text/event-stream"
#: Where clients of server-sent events connect, and where they post.
STREAMS = {"/mcp/sse": "/mcp/messages/", "/sse": "/messages/"}
ROUTER = "/mcp"
BOX = "/mcp/box"
_LOG = 64 << 10
_UNAUTHORIZED = b'{"error": "invalid_token", "error_description": "Authentication required"}'
_CHALLENGE = 'Bearer error="invalid_token", error_description="Authentication required"'

_RPC = {"type": "object", "properties": {"jsonrpc": {"const": "2.0"}, "method": {"type": "string"}}}


class McpUpdate(Message):
    """The answer to a new list of MCP servers."""

    detail: str
    router_error_log: str


class Delegated(Response):
    """A response that another application gives."""

    def __init__(self, application: ASGIApp) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


def mcp_endpoints(plugin: McpPlugin) -> list[Endpoint]:
    """All endpoints of the plugin."""
    return [
        _update(plugin),
        *_mounts(plugin),
        *_own(plugin),
        *_servers(plugin),
        *_server(plugin),
        *_profiles(plugin),
    ]


def _update(plugin: McpPlugin) -> Endpoint:
    async def update(request: Request) -> Response:
        try:
            posted = await json_body(request)
            if not isinstance(posted, list):
                return error_response(400, RequestError("Request must be a list of MCP tools to sync"))
            await plugin.post(posted)
        except TooDeep as error:
            return refused(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RequestError):
            return unexpected()
        return json_response(McpUpdate(detail="MCP server updated successfully", router_error_log=""))

    text = {"type": "string"}
    return Endpoint(
        "POST", "/update_mcp_server", update, "Replace the list of MCP servers",
        {200: Reply("The list is in force.", McpUpdate),
         400: Reply("Not a list, or nested too deeply.", ErrorBody), 500: UNEXPECTED},
        description="Servers that are in both lists go on undisturbed. Each is started in the background; "
        "`GET /mcp/servers` tells how it is.",
        body={"type": "array", "items": {
            "type": "object", "required": ["name", "command"],
            "properties": {
                "name": text, "command": text,
                "args": {"type": ["array", "string"]}, "env": {"type": ["object", "string"]}}}},
    )  # fmt: skip


def _mounts(plugin: McpPlugin) -> list[Endpoint]:
    """The aggregated servers. Clients send the key twice here: in the header of the box, and as a bearer."""

    def mount(application: Callable[[HttpServer, str], ASGIApp], messages: str = "") -> Answer:
        async def handle(request: Request) -> Response:
            if not plugin.router.mounted:
                return error_response(404, NotFound("Not Found"))
            key = plugin.context.settings.session_api_key
            if key and not _bears(request, key):
                return Response(
                    _UNAUTHORIZED, 401, {"WWW-Authenticate": _CHALLENGE}, media_type="application/json"
                )
            return Delegated(application(await plugin.router_server.get(), messages))

        return handle

    answers = {
        401: Reply("The bearer token is missing or wrong.", {"type": "object"}),
        404: Reply("There is no MCP server, or no such session.", ErrorBody),
    }
    mounts: list[Endpoint] = []
    for path, messages in STREAMS.items():
        events = mount(lambda server, path: server.events(path), messages)
        posts = mount(lambda server, path: server.posts(path), messages)
        mounts += [
            Endpoint(
                "GET", path, events, "The tools of all MCP servers, over SSE",
                {200: Reply("Server-sent events of MCP's older transport.", {"type": "string"}, EVENTS),
                 **answers},
            ),
            Endpoint(
                "POST", messages, posts, "A message of a client over SSE",
                {202: Reply("Accepted; the answer comes as an event.", {"type": "string"}, "text/plain"),
                 400: Reply("No session is named, or not properly.", {"type": "string"}, "text/plain"),
                 **answers},
                parameters=(Parameter("session_id", {"type": "string"}, "As the first event gave it."),),
                body=_RPC,
            ),
        ]  # fmt: skip
    streamable = mount(lambda server, _: server.streamable)
    return [*mounts, *_streamable(ROUTER, streamable, "The tools of all MCP servers", answers)]


def _own(plugin: McpPlugin) -> list[Endpoint]:
    async def own(request: Request) -> Response:
        return Delegated((await plugin.box_server.get()).streamable)

    return _streamable(BOX, own, "The box itself as an MCP server", {})


def _streamable(path: str, handle: Answer, summary: str, answers: dict[int, Reply]) -> list[Endpoint]:
    """The three methods of streamable HTTP."""
    message = Reply("An MCP message, or a stream of them.", {"type": "object"})
    wrong = Reply("Not what the protocol asks for.", {"type": "object"})
    odd = {400: wrong, 404: wrong, 405: wrong, 406: wrong, 409: wrong, 415: wrong}
    return [
        Endpoint(
            "POST", path, handle, f"{summary}, over streamable HTTP",
            {200: message, 202: Reply("Accepted.", None), **odd, 413: wrong, **answers}, body=_RPC,
            bearer=path == BOX,
        ),
        Endpoint(
            "GET", path, handle, f"{summary}: what they have to say by themselves",
            {200: Reply("Server-sent events.", {"type": "string"}, EVENTS), **odd, **answers},
            bearer=path == BOX,
        ),
        Endpoint(
            "DELETE", path, handle, f"{summary}: end a session",
            {200: Reply("It has ended.", None), **odd, **answers},
            bearer=path == BOX,
        ),
    ]  # fmt: skip


def _servers(plugin: McpPlugin) -> list[Endpoint]:
    async def every(request: Request) -> Response:
        return json_response(plugin.report())

    async def replace(request: Request) -> Response:
        try:
            given = await json_body(request)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return refused(BadMcpConfig(f"The body is not JSON: {error}"))
        await plugin.put(given)
        return json_response(plugin.report())

    return [
        Endpoint(
            "GET", "/mcp/servers", every, "The MCP servers of the box and how they are",
            {200: Reply("All of them, in their order.", McpServers)},
        ),
        Endpoint(
            "PUT", "/mcp/servers", replace, "Replace the posted MCP servers, addresses included",
            {200: Reply("The list is in force.", McpServers),
             422: Reply("A rule is broken.", ErrorBody)},
            body={"type": "object", "required": ["mcpServers"],
                  "properties": {"mcpServers": {"type": "object"}}},
        ),
    ]  # fmt: skip


def _server(plugin: McpPlugin) -> list[Endpoint]:
    async def one(request: Request) -> Response:
        return json_response(plugin.router.upstream(request.path_params["name"]).info())

    async def restart(request: Request) -> Response:
        upstream = plugin.router.upstream(request.path_params["name"])
        upstream.restart()
        return json_response(upstream.info())

    async def log(request: Request) -> Response:
        upstream = plugin.router.upstream(request.path_params["name"])
        return json_response(McpLog(name=upstream.name, text=await upstream.printed(_LOG)))

    path = (Parameter("name", {"type": "string"}, "The name of the server."),)
    info = Reply("The server.", McpServerInfo)
    unknown = Reply("No server has that name.", ErrorBody)
    return [
        Endpoint(
            "GET", "/mcp/servers/{name}", one, "An MCP server and how it is",
            {200: info, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/mcp/servers/{name}/restart", restart, "End an MCP server and start it anew",
            {200: info, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "GET", "/mcp/servers/{name}/log", log, "What an MCP server printed besides messages",
            {200: Reply("The end of it, without secrets.", McpLog), 404: unknown}, path_parameters=path,
        ),
    ]  # fmt: skip


def _profiles(plugin: McpPlugin) -> list[Endpoint]:
    async def use(request: Request) -> Response:
        await plugin.use(request.path_params["name"])
        return json_response(plugin.report())

    async def all_of_them(request: Request) -> Response:
        await plugin.use("")
        return json_response(plugin.report())

    path = (Parameter("name", {"type": "string"}, "The name of the profile."),)
    servers = Reply("The servers that are in force now.", McpServers)
    return [
        Endpoint(
            "PUT", "/mcp/profiles/{name}", use, "Use the MCP servers of a profile",
            {200: servers, 404: Reply("No profile has that name.", ErrorBody)}, path_parameters=path,
        ),
        Endpoint(
            "DELETE", "/mcp/profiles", all_of_them, "Use all MCP servers of the configuration",
            {200: servers},
        ),
    ]  # fmt: skip


def _bears(request: Request, key: str) -> bool:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(token.strip().encode("latin-1"), key.encode())
    return scheme.lower() == "bearer" and right
