"""The box as an ASGI application: endpoints, the guard around them, and errors in the contract's form."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from glovebox.box.box import Box
from glovebox.errors import (
    GloveboxError,
    MethodNotAllowed,
    NotFound,
    RequestError,
    StartupError,
    TerminalError,
    TooLarge,
)
from glovebox.server.attach import Attach
from glovebox.server.commands import NEXT_HEADER
from glovebox.server.endpoints import Endpoint
from glovebox.server.guard import KEY_HEADER, Guard
from glovebox.server.parameters import InvalidParameter
from glovebox.server.responses import ERROR_HEADER, error_response, invalid_request, refused, unexpected
from glovebox.server.routes import box_endpoints

EDGE_ERRORS: dict[int, type[GloveboxError]] = {404: NotFound, 405: MethodNotAllowed}


def create_app(box: Box, closing: asyncio.Event | None = None) -> Starlette:
    """The application for an open box. Streams without an end of their own end when it is `closing`."""
    settings = box.settings
    middleware = []
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["*"],
                allow_headers=["Content-Type", "Authorization", KEY_HEADER],
                expose_headers=[ERROR_HEADER, NEXT_HEADER],
            )
        )
    middleware.append(
        Middleware(
            Guard,
            key=settings.session_api_key,
            allowed_hosts=settings.allowed_hosts,
            origins=settings.cors_origins,
        )
    )
    return Starlette(
        routes=[
            *(_route(endpoint) for endpoint in box_endpoints(box, closing or asyncio.Event())),
            WebSocketRoute("/sessions/{name}/attach", Attach(box).__call__),
        ],
        middleware=middleware,
        exception_handlers={
            HTTPException: _refused,
            InvalidParameter: _invalid,
            TerminalError: _known,
            StartupError: _known,
            TooLarge: _known,
            ClientDisconnect: _gone,
            Exception: _unforeseen,
        },
    )


def _route(endpoint: Endpoint) -> Route:
    route = Route(endpoint.path, endpoint.handle, methods=[endpoint.method])
    route.methods = {endpoint.method}  # Starlette adds HEAD to GET; the contract answers 405
    return route


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = EDGE_ERRORS.get(error.status_code, RequestError)
    return error_response(error.status_code, kind(error.detail))


async def _unforeseen(request: Request, error: Exception) -> Response:
    return unexpected()


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidParameter)
    return invalid_request(error.problem)


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, GloveboxError)
    return refused(error)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it
