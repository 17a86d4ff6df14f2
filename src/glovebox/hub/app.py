"""The hub as an ASGI application: its own endpoints, the windows' sockets, and each window as a box."""

from __future__ import annotations

import posixpath
from typing import get_args

from starlette.applications import Starlette
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.errors import GloveboxError, WindowError
from glovebox.http.endpoints import INVALID, Endpoint, Parameter, Reply
from glovebox.http.requests import HANDLERS, InvalidParameter, body, unexpected_error
from glovebox.http.response_headers import RequestIds, SecurityHeaders
from glovebox.http.responses import ErrorBody, error_response, json_response, refused
from glovebox.http.sse import while_connected
from glovebox.hub.registry import WINDOWS
from glovebox.hub.stays import Stays
from glovebox.hub.windows import HubStats, Windows
from glovebox.protocol.base import Message
from glovebox.protocol.window import (
    Arrival,
    Arrived,
    Departure,
    Heartbeat,
    Registered,
    Registration,
    Window,
    WindowStatus,
)
from glovebox.server.app import Alive
from glovebox.server.guard import KEY_HEADER, Guard

SOCKETS = "/socket.io/"
_BEARER = b"bearer "


def create_hub_app(windows: Windows, sockets: ASGIApp, key: str) -> ASGIApp:
    """The application of a hub."""
    endpoints = hub_endpoints(windows)
    own = Starlette(
        routes=[Route(one.path, one.handle, methods=[one.method]) for one in endpoints],
        exception_handlers=HANDLERS,
    )
    guarded = Guard(
        GuardedRoutes(RequestIds(own), sockets, windows),
        key=key,
        open_paths=[one.path for one in endpoints if one.open],
        socket_paths=[SOCKETS],
    )
    return SecurityHeaders(ServerErrorMiddleware(Bearer(Boxes(guarded, windows)), handler=unexpected_error))


class Bearer:
    """ASGI middleware that takes a bearer token for the key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = dict(scope["headers"])
            shown = headers.get(b"authorization", b"")
            if KEY_HEADER.encode() not in headers and shown[: len(_BEARER)].lower() == _BEARER:
                key = (KEY_HEADER.encode(), shown[len(_BEARER) :].strip())
                scope = {**scope, "headers": [*scope["headers"], key]}
        await self._app(scope, receive, send)


class Boxes:
    """ASGI middleware that hands what is for a window to its box, which has a guard of its own."""

    def __init__(self, app: ASGIApp, windows: Windows) -> None:
        self._app = app
        self._windows = windows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        window_id = _window_id(scope)
        try:
            app = await self._windows.app(window_id) if window_id else None
        except GloveboxError:  # the guarded application reports it
            app = None
        if app is None:
            await self._app(scope, receive, send)
            return
        prefix = f"{WINDOWS}/{window_id}"
        scope = {
            **scope,
            "path": scope["path"].removeprefix(prefix) or "/",
            "raw_path": scope.get("raw_path", b"").removeprefix(prefix.encode()) or b"/",
            "root_path": scope.get("root_path", "") + prefix,
        }
        await app(scope, receive, send)


class GuardedRoutes:
    """The ASGI application behind the guard: sockets, the hub's endpoints, and why a window has no box."""

    def __init__(self, own: ASGIApp, sockets: ASGIApp, windows: Windows) -> None:
        self._own = own
        self._sockets = sockets
        self._windows = windows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._sockets if scope.get("path", "").startswith(SOCKETS) else self._own
        if window_id := _window_id(scope):
            try:
                app = await self._windows.app(window_id)
            except GloveboxError as error:
                app = refused(error)
        await app(scope, receive, send)


def _window_id(scope: Scope) -> str:
    """The id of the window that is meant; empty if none is."""
    path: str = scope.get("path", "")
    return path.removeprefix(f"{WINDOWS}/").partition("/")[0] if path.startswith(f"{WINDOWS}/") else ""


ID_HEADER = "x-window-id"
SECRET_HEADER = "x-window-secret"  # noqa: S105  the name of a header
STATUSES: tuple[str, ...] = get_args(WindowStatus)
FULL = 503

_ID = Parameter("id", {"type": "string"}, "The window's id.")
_GONE = Reply("No window has that id.", ErrorBody)
_UNKNOWN = Reply("No window has that id and secret.", ErrorBody)


class WindowState(Message):
    """How the hub sees a window."""

    status: str


def hub_endpoints(windows: Windows) -> list[Endpoint]:
    """Every endpoint but those of the windows' boxes."""
    return [*_for_anybody(windows), *_for_agents(Stays(windows)), *_for_windows(windows)]


def _for_anybody(windows: Windows) -> list[Endpoint]:
    async def alive(request: Request) -> Response:
        return json_response(Alive(status="ok"))

    async def discover(request: Request) -> Response:
        return json_response(chosen(windows.listed(), request))

    async def stats(request: Request) -> Response:
        return json_response(windows.stats())

    text = {"type": "string"}
    return [
        Endpoint(
            "GET", "/alive", alive, "Whether the hub serves", {200: Reply("It does.", Alive)}, open=True
        ),
        Endpoint(
            "GET", "/api/vscode/discover", discover, "The windows there are",
            {200: Reply("The oldest first.", {"type": "array"}), 422: INVALID},
            parameters=(
                Parameter("workspace", text, "Only with this folder, or with a workspace of this name."),
                Parameter("status", {"enum": list(STATUSES)}, "Only in this state."),
                Parameter("id", text, "Only the one with this id."),
            ),
        ),
        Endpoint(
            "GET", "/api/vscode/stats", stats, "How the hub is", {200: Reply("Numbers.", HubStats)}
        ),
    ]  # fmt: skip


def _for_agents(stays: Stays) -> list[Endpoint]:
    async def arrive(request: Request) -> Response:
        said = await body(request, Arrival)
        return json_response(await while_connected(request.receive, stays.arrive(said)))

    async def depart(request: Request) -> Response:
        await stays.depart(request.path_params["id"], await body(request, Departure))
        return json_response(WindowState(status="left"))

    return [
        Endpoint(
            "POST", "/api/vscode/arrive", arrive, "Begin an agent's stay in a window",
            {
                200: Reply("It may work there.", Arrived),
                403: Reply("No user has allowed it.", ErrorBody),
                404: _GONE,
                422: INVALID,
            },
            body=Arrival,
        ),
        Endpoint(
            "POST", "/api/vscode/depart/{id}", depart, "End an agent's stay in a window",
            {200: Reply("It has left.", WindowState), 404: _GONE, 422: INVALID},
            path_parameters=(_ID,), body=Departure,
        ),
    ]  # fmt: skip


def _for_windows(windows: Windows) -> list[Endpoint]:
    async def register(request: Request) -> Response:
        said = await body(request, Registration)
        known = request.headers.get(ID_HEADER, ""), request.headers.get(SECRET_HEADER, "")
        try:
            return json_response(await windows.register(said, *known))
        except WindowError as error:
            return error_response(FULL, error)

    async def heartbeat(request: Request) -> Response:
        beat = await body(request, Heartbeat)
        return json_response(WindowState(status=windows.heartbeat(request.path_params["id"], beat).status))

    async def unregister(request: Request) -> Response:
        await windows.unregister(request.path_params["id"], request.headers.get(SECRET_HEADER, ""))
        return json_response(WindowState(status="gone"))

    return [
        Endpoint(
            "POST", "/api/vscode/register", register, "Register a window",
            {
                200: Reply("What it is called, and what proves that it is the one.", Registered),
                413: Reply("It says too much.", ErrorBody),
                422: INVALID,
                FULL: Reply("There are too many windows.", ErrorBody),
            },
            body=Registration,
        ),
        Endpoint(
            "POST", "/api/vscode/heartbeat/{id}", heartbeat, "Say that the main thread answers",
            {200: Reply("Heard.", WindowState), 404: _UNKNOWN, 422: INVALID},
            path_parameters=(_ID,), body=Heartbeat,
        ),
        Endpoint(
            "DELETE", "/api/vscode/unregister/{id}", unregister, "Forget a window",
            {200: Reply("Forgotten.", WindowState), 404: _UNKNOWN}, path_parameters=(_ID,),
        ),
    ]  # fmt: skip


def chosen(windows: list[Window], request: Request) -> list[Window]:
    """Those windows that the query means.

    Raises:
        InvalidParameter: there is no such state.
    """
    query = request.query_params
    status, workspace, window_id = query.get("status"), query.get("workspace"), query.get("id")
    if status is not None and status not in STATUSES:
        problem = f"Input should be one of: {', '.join(STATUSES)}"
        raise InvalidParameter("enum", ("query", "status"), problem, status)
    return [
        window
        for window in windows
        if (status is None or window.status == status)
        and (window_id is None or window.id == window_id)
        and (workspace is None or _has(window, workspace))
    ]


def _has(window: Window, workspace: str) -> bool:
    path = posixpath.normpath(workspace)
    return window.name == workspace or any(posixpath.normpath(one.path) == path for one in window.folders)
