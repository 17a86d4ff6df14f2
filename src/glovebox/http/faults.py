"""What goes wrong with requests, in the contract's form: for every application of the project."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from glovebox.errors import GloveboxError, MethodNotAllowed, NotFound, RequestError
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import error_response, invalid_request, refused, unexpected

EDGE_ERRORS: dict[int, type[GloveboxError]] = {404: NotFound, 405: MethodNotAllowed}


async def unfit(request: Request, error: Exception) -> Response:
    """There is nothing there, or not with that method."""
    assert isinstance(error, HTTPException)
    kind = EDGE_ERRORS.get(error.status_code, RequestError)
    return error_response(error.status_code, kind(error.detail))


async def invalid(request: Request, error: Exception) -> Response:
    """Something in the request cannot be."""
    assert isinstance(error, InvalidParameter)
    return invalid_request(error.problem)


async def known(request: Request, error: Exception) -> Response:
    """It was refused on purpose."""
    assert isinstance(error, GloveboxError)
    return refused(error)


async def gone(request: Request, error: Exception) -> Response:
    """Whoever asked is gone, so nobody is there to read this."""
    return Response(status_code=400)


async def unforeseen(request: Request, error: Exception) -> Response:
    """A defect."""
    return unexpected()


HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: unfit,
    InvalidParameter: invalid,
    GloveboxError: known,
    ClientDisconnect: gone,
    Exception: unforeseen,
}
