"""The hub as an ASGI application: its own endpoints, the windows' sockets, and each window as a box."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.errors import GloveboxError
from glovebox.http.faults import HANDLERS, unforeseen
from glovebox.http.responses import refused
from glovebox.http.security_headers import SecurityHeaders
from glovebox.hub.endpoints import hub_endpoints
from glovebox.hub.registry import WINDOWS
from glovebox.hub.windows import Windows
from glovebox.server.guard import KEY_HEADER, Guard
from glovebox.server.request_ids import RequestIds

SOCKETS = "/socket.io/"
_BEARER = b"bearer "


def create_hub_app(windows: Windows, sockets: ASGIApp, key: str) -> ASGIApp:
    """The application of a hub."""
    endpoints = hub_endpoints(windows)
    own = Starlette(
        routes=[Route(one.path, one.handle, methods=[one.method]) for one in endpoints],
        exception_handlers=HANDLERS,
    )
    routes = Sockets(NoWindow(RequestIds(own), windows), sockets)
    guarded = Guard(
        routes, key=key, open_paths=[one.path for one in endpoints if one.open], socket_paths=[SOCKETS]
    )
    all_of_it = ServerErrorMiddleware(Bearer(Boxes(guarded, windows)), handler=unforeseen)
    return SecurityHeaders(all_of_it)


class Bearer:
    """ASGI middleware that takes a bearer token for the key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put the token where the key is looked for."""
        if scope["type"] in ("http", "websocket"):
            headers = dict(scope["headers"])
            shown = headers.get(b"authorization", b"")
            if KEY_HEADER.encode() not in headers and shown[: len(_BEARER)].lower() == _BEARER:
                scope = _with_key(scope, shown[len(_BEARER) :].strip())
        await self._app(scope, receive, send)


class Sockets:
    """ASGI middleware that hands on what belongs to the windows' sockets."""

    def __init__(self, app: ASGIApp, sockets: ASGIApp) -> None:
        self._app = app
        self._sockets = sockets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on."""
        theirs = scope.get("path", "").startswith(SOCKETS)
        await (self._sockets if theirs else self._app)(scope, receive, send)


class Boxes:
    """ASGI middleware that hands what is for a window to its box, which has a guard of its own."""

    def __init__(self, app: ASGIApp, windows: Windows) -> None:
        self._app = app
        self._windows = windows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on."""
        window_id = _window_id(scope)
        try:
            app = await self._windows.app(window_id) if window_id else None
        except GloveboxError:  # which is told to those who have the key
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


class NoWindow:
    """ASGI middleware that says why there is no box of a window."""

    def __init__(self, app: ASGIApp, windows: Windows) -> None:
        self._app = app
        self._windows = windows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say it."""
        app = self._app
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


def _with_key(scope: Scope, key: bytes) -> Scope:
    name = KEY_HEADER.encode()
    return {**scope, "headers": [*(pair for pair in scope["headers"] if pair[0] != name), (name, key)]}
