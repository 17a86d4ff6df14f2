"""The box as an ASGI application: endpoints, the guard around them, and errors in the contract's form."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.box.box import Box
from glovebox.box.plugins import Plugins
from glovebox.box.services import Activity
from glovebox.box.startup import StartupReport
from glovebox.http.endpoints import INVALID, Endpoint, Handle, Parameter, Reply, Socket
from glovebox.http.requests import HANDLERS, limited
from glovebox.http.response_headers import POLICY, REQUEST_ID_HEADER, RequestIds
from glovebox.http.responses import ERROR_HEADER, NEXT_HEADER, ErrorBody, json_response, to_json
from glovebox.http.sse import EVENTS, described
from glovebox.protocol.base import Message
from glovebox.protocol.status import PluginInfo
from glovebox.server.commands import run_command_endpoint
from glovebox.server.execute import Executions
from glovebox.server.guard import KEY_HEADER, Guard
from glovebox.server.logins import Logins
from glovebox.server.openapi import docs_page, openapi
from glovebox.server.streaming import ExecuteActionStream, event_endpoint
from glovebox.server.tools import tool_endpoints


def create_app(box: Box, logins: Logins | None = None) -> ASGIApp:
    """The application for an open box."""
    settings = box.settings
    logins = logins or Logins()
    endpoints = [_bounded(endpoint, settings.max_body_size) for endpoint in box_endpoints(box, logins)]
    middleware = []
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["*"],
                allow_headers=["Content-Type", "Authorization", KEY_HEADER, REQUEST_ID_HEADER, "traceparent"],
                expose_headers=[ERROR_HEADER, NEXT_HEADER, REQUEST_ID_HEADER],
            )
        )
    middleware.append(
        Middleware(
            Guard,
            key=settings.session_api_key,
            open_paths=[one.path for one in endpoints if isinstance(one, Endpoint) and one.open],
            bearer_paths=[one.path for one in endpoints if isinstance(one, Endpoint) and one.bearer],
            socket_paths=[one.path for one in endpoints if isinstance(one, Socket)],
            allowed_hosts=settings.allowed_hosts,
            origins=settings.cors_origins,
            logins=logins,
        )
    )
    application = Starlette(
        routes=[_route(endpoint, box.services.activity) for endpoint in endpoints],
        middleware=middleware,
        exception_handlers=HANDLERS,
    )
    return RequestIds(application)


class EndpointApp:
    """An endpoint as an ASGI application: Starlette's wrapper for functions handles exceptions once more."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._handle(Request(scope, receive))
        await response(scope, receive, send)


class ActiveApp:
    """An application whose requests are activity when they begin and when they end."""

    def __init__(self, app: ASGIApp, activity: Activity) -> None:
        self._app = app
        self._activity = activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._activity.touch()
        try:
            await self._app(scope, receive, send)
        finally:
            self._activity.touch()


def _bounded(endpoint: Endpoint | Socket, most_bytes: int) -> Endpoint | Socket:
    """The endpoint with a limit for its body, unless it has one of its own, or no body."""
    if isinstance(endpoint, Socket) or endpoint.method in ("GET", "HEAD") or endpoint.streamed:
        return endpoint
    return msgspec.structs.replace(endpoint, handle=limited(endpoint.handle, most_bytes))


def _route(endpoint: Endpoint | Socket, activity: Activity) -> Route | WebSocketRoute:
    route: Route | WebSocketRoute
    if isinstance(endpoint, Socket):
        route = WebSocketRoute(endpoint.path, endpoint.handle)
    else:
        route = Route(endpoint.path, EndpointApp(endpoint.handle), methods=[endpoint.method])
        route.methods = {endpoint.method}  # Starlette adds HEAD to GET; the contract answers 405
    if endpoint.active:
        route.app = ActiveApp(route.app, activity)
    return route


class Alive(Message):
    """The box serves."""

    status: str


def box_endpoints(box: Box, logins: Logins) -> list[Endpoint | Socket]:
    """The endpoints of an open box, those of its plugins and those that describe them all included."""
    brought = box.endpoints()
    endpoints: list[Endpoint] = [
        *_execute(box),  # first: the router tries one after the other
        *_status(box),
        *tool_endpoints(box),
        event_endpoint(box.executor.events, box.closing),
        *plugin_endpoints(box.plugins),
        *logins.endpoints(),
        *(endpoint for endpoint in brought if isinstance(endpoint, Endpoint)),
    ]
    sockets = [endpoint for endpoint in brought if isinstance(endpoint, Socket)]
    return [*endpoints, *_documents(box, endpoints), *sockets]


def _status(box: Box) -> list[Endpoint]:
    alive_body = to_json(Alive(status="ok"))

    async def alive(request: Request) -> Response:
        return Response(alive_body, media_type="application/json")

    async def startup(request: Request) -> Response:
        return json_response(box.startup.report(await box.threads.run(box.damaged_files)))

    return [
        Endpoint(
            "GET", "/alive", alive, "Whether the box serves", {200: Reply("It does.", Alive)}, open=True
        ),
        Endpoint(
            "GET", "/startup", startup, "What starting the box took, step by step",
            {200: Reply("Milliseconds since the process began.", StartupReport)},
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
        400: Reply("The body is not text, or is nested too deeply.", ErrorBody),
        422: INVALID,
        500: Reply("The action could not be carried out; `detail` says why.", ErrorBody),
    }
    observation = Reply("The observation.", {"$ref": "#/components/schemas/ObservationEnvelope"})
    events = Reply(
        "Server-sent events: `started`, `output`, `display`, `state`, and last `observation` or `error`.",
        described("started", "output", "display", "state", "gap", "observation", "error"),
        EVENTS,
    )
    return [
        Endpoint(
            "POST", "/execute_action", executions.respond, "Carry out an action",
            {200: observation, **answers},
            description="The same `idempotency_key` again gives the same answer and does not run the action "
            "again. With `details` the answer also has the action's id, timing and command. In place of an "
            "action there may be a tool call as `/tools/call` takes it.",
            body=body,
        ),
        Endpoint(
            "POST", "/execute_action_stream", ExecuteActionStream(box, executions).__call__,
            "Carry out an action and follow it", {200: events, **answers},
            description="The last event carries what `/execute_action` would have answered. A client that "
            "goes away does not stop the action; with the same `idempotency_key` it can join again.",
            body=body,
        ),
        run_command_endpoint(box, executions),
    ]  # fmt: skip


def _documents(box: Box, described: list[Endpoint]) -> list[Endpoint]:
    made: dict[str, Any] = {}

    async def document(request: Request) -> Response:
        if not made:  # on first use: building schemas has no place in the start
            made.update(openapi(endpoints, box.codec, needs_key=bool(box.settings.session_api_key)))
            if request.scope.get("root_path"):
                made["servers"] = [{"url": request.scope["root_path"]}]
        return json_response(made)

    async def page(request: Request) -> Response:
        html, policy = await box.threads.run(docs_page)
        return HTMLResponse(html, headers={POLICY: policy})

    own = [
        Endpoint(
            "GET", "/openapi.json", document, "This API as an OpenAPI document",
            {200: Reply("OpenAPI 3.1.", {"type": "object"})},
        ),
        Endpoint(
            "GET", "/docs", page, "This API as a page",
            {200: Reply("A page that reads /openapi.json.", {"type": "string"}, "text/html")},
        ),
    ]  # fmt: skip
    endpoints = described + own
    return own


def plugin_endpoints(plugins: Plugins) -> list[Endpoint]:
    """What is served of plugins."""

    async def every(request: Request) -> Response:
        return json_response(await plugins.examine())

    async def one(request: Request) -> Response:
        return json_response(await plugins.life(request.path_params["name"]).examine())

    async def restart(request: Request) -> Response:
        life = plugins.life(request.path_params["name"])
        await life.restart()
        return json_response(await life.examine())

    path = (Parameter("name", {"type": "string"}, "The name of the plugin."),)
    info = Reply("The plugin.", PluginInfo)
    unknown = Reply("No plugin of that name is loaded.", ErrorBody)
    return [
        Endpoint(
            "GET", "/plugins", every, "The plugins of the box and how they are",
            {200: Reply("All of them, in the order they were loaded.",
                         {"type": "array", "items": {"$ref": "#/components/schemas/PluginInfo"}})},
        ),
        Endpoint(
            "GET", "/plugins/{name}", one, "A plugin and how it is",
            {200: info, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/plugins/{name}/restart", restart, "Stop a plugin and start it anew",
            {200: info, 404: unknown,
             409: Reply("The box cannot do without it, not even for a moment.", ErrorBody),
             500: Reply("There is nothing to start.", ErrorBody)},
            path_parameters=path,
        ),
    ]  # fmt: skip
