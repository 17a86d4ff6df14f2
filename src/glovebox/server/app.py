"""The box as an ASGI application: endpoints, the guard around them, and errors in the contract's form."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.box.box import Box
from glovebox.errors import TooLarge
from glovebox.http.bodies import limited
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.http.faults import HANDLERS, gone, known
from glovebox.http.responses import ERROR_HEADER, NEXT_HEADER
from glovebox.server.guard import KEY_HEADER, Guard
from glovebox.server.request_ids import REQUEST_ID_HEADER, RequestIds
from glovebox.server.routes import box_endpoints

#: How files are uploaded, which has a limit of its own.
FORM = "multipart/form-data"
#: Paths that are called all the time.
OFTEN = ("/execute_action",)


def create_app(box: Box) -> ASGIApp:
    """The application for an open box."""
    settings = box.settings
    endpoints = [_bounded(endpoint, settings.max_body_size) for endpoint in box_endpoints(box)]
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
        )
    )
    middleware.append(Middleware(Direct, endpoints=[one for one in endpoints if one.path in OFTEN]))
    application = Starlette(
        routes=list(map(_route, endpoints)),
        middleware=middleware,
        exception_handlers=HANDLERS,
    )
    return RequestIds(application)


class Direct:
    """ASGI middleware that hands the request of every action to its endpoint, past the router.

    That saves a twentieth of the time of a short command.
    """

    def __init__(self, app: ASGIApp, endpoints: Iterable[Endpoint | Socket]) -> None:
        self._app = app
        self._handles = {
            (endpoint.method, endpoint.path): endpoint.handle
            for endpoint in endpoints
            if isinstance(endpoint, Endpoint)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the endpoint, or the router."""
        handle = self._handles.get((scope.get("method", ""), scope.get("path", "")))
        if handle is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await handle(request)
        except ClientDisconnect as error:
            response = await gone(request, error)
        except TooLarge as error:
            response = await known(request, error)
        await response(scope, receive, send)


def _bounded(endpoint: Endpoint | Socket, most_bytes: int) -> Endpoint | Socket:
    """The endpoint with a limit for its body, unless it has one of its own, or no body."""
    if isinstance(endpoint, Socket) or endpoint.method == "GET" or endpoint.body_media_type == FORM:
        return endpoint
    return msgspec.structs.replace(endpoint, handle=limited(endpoint.handle, most_bytes))


def _route(endpoint: Endpoint | Socket) -> Route | WebSocketRoute:
    if isinstance(endpoint, Socket):
        return WebSocketRoute(endpoint.path, endpoint.handle)
    route = Route(endpoint.path, endpoint.handle, methods=[endpoint.method])
    route.methods = {endpoint.method}  # Starlette adds HEAD to GET; the contract answers 405
    return route
