"""The box as an ASGI application: endpoints, the guard around them, and errors in the contract's form."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glovebox.box.box import Box
from glovebox.errors import GloveboxError, MethodNotAllowed, NotFound, RequestError
from glovebox.server.endpoints import Endpoint
from glovebox.server.guard import KEY_HEADER, Guard
from glovebox.server.responses import ERROR_HEADER, error_response, unexpected
from glovebox.server.routes import box_endpoints

EDGE_ERRORS: dict[int, type[GloveboxError]] = {404: NotFound, 405: MethodNotAllowed}


def create_app(box: Box) -> Starlette:
    """The application for an open box."""
    settings = box.settings
    middleware = []
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["*"],
                allow_headers=["Content-Type", "Authorization", KEY_HEADER],
                expose_headers=[ERROR_HEADER],
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
        routes=[_route(endpoint) for endpoint in box_endpoints(box)],
        middleware=middleware,
        exception_handlers={HTTPException: _refused, Exception: _unforeseen},
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
